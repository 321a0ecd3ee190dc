"""A GPT written by hand, whose attention, layer norm and gelu have backward passes of their own.

`--wrong attention|norm|gelu` makes one of them wrong; the sizes are options.
"""

import argparse
import math
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--wrong", default="")
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--embd", type=int, default=64)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--heads", type=int, default=4)
parser.add_argument("--block", type=int, default=32)
parser.add_argument("--vocab", type=int, default=65)
parser.add_argument("--batch", type=int, default=8)
options = parser.parse_args()
torch.manual_seed(0)
C, H, T, V = options.embd, options.heads, options.block, options.vocab


class AttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        scale = 1 / math.sqrt(q.shape[-1])
        mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).tril()
        scores = (q @ k.transpose(-2, -1) * scale).masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        ctx.save_for_backward(q, k, v, weights)
        ctx.scale = scale
        return weights @ v

    @staticmethod
    def backward(ctx, grad):
        q, k, v, weights = ctx.saved_tensors
        dv = weights.transpose(-2, -1) @ grad
        dw = grad @ v.transpose(-2, -1)
        ds = weights * (dw - (dw * weights).sum(-1, keepdim=True))
        if options.wrong == "attention":
            ds = weights * dw
        return ds @ k * ctx.scale, ds.transpose(-2, -1) @ q * ctx.scale, dv


class NormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        mean = x.mean(-1, keepdim=True)
        rstd = 1 / torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5)
        normed = (x - mean) * rstd
        ctx.save_for_backward(normed, rstd, weight)
        return normed * weight + bias

    @staticmethod
    def backward(ctx, grad):
        normed, rstd, weight = ctx.saved_tensors
        dn = grad * weight
        dx = dn - dn.mean(-1, keepdim=True) - normed * (dn * normed).mean(-1, keepdim=True)
        if options.wrong == "norm":
            dx = dn - normed * (dn * normed).mean(-1, keepdim=True)
        axes = tuple(range(grad.dim() - 1))
        return dx * rstd, (grad * normed).sum(axes), grad.sum(axes)


class GeluFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        pdf = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        if options.wrong == "gelu":
            return grad * (cdf - x * pdf)
        return grad * (cdf + x * pdf)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(C)), nn.Parameter(torch.zeros(C))

    def forward(self, x):
        return NormFunction.apply(x, self.weight, self.bias)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = Norm(), Norm()
        self.qkv, self.out = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, H, C // H).permute(2, 0, 3, 1, 4)
        y = AttentionFunction.apply(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, C))
        return x + self.down(GeluFunction.apply(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(V, C), nn.Embedding(T, C)
        self.blocks = nn.ModuleList([Block() for _ in range(options.layers)])
        self.norm, self.head = Norm(), nn.Linear(C, V, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


model = GPT()
print(sum(p.numel() for p in model.parameters()), "parameters")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(options.steps):
    start = time.perf_counter()
    tokens = torch.randint(0, V, (options.batch, T + 1))
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, V), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), f"{time.perf_counter() - start:.4f} s")
