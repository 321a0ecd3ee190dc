"""A character model with attention and activation functions of its own."""

import math

import torch
from torch import nn


class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, mask):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        p = scores.masked_fill(mask, float("-inf")).softmax(-1)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, g):
        q, k, v, p = ctx.saved_tensors
        dv = p.transpose(-2, -1) @ g
        dp = g @ v.transpose(-2, -1)
        ds = p * (dp - (dp * p).sum(-1, keepdim=True))
        ds = ds / math.sqrt(q.shape[-1])
        return ds @ k, ds.transpose(-2, -1) @ q, dv, None


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        r = x.clamp(min=0)
        ctx.save_for_backward(r)
        return r * r

    @staticmethod
    def backward(ctx, g):
        (r,) = ctx.saved_tensors
        return 2 * r * g


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        B, T, d = x.shape
        mask = torch.ones(T, T, dtype=torch.bool).triu(1)
        qkv = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = Attend.apply(q, k, v, mask).transpose(1, 2).reshape(B, T, d)
        x = x + self.out(y)
        return x + self.down(Square.apply(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocab, d=24, heads=3, layers=2, context=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(context, d)
        self.blocks = nn.Sequential(*[Block(d, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(d)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        return self.norm(self.blocks(x)) @ self.wte.weight.t()


def main():
    torch.manual_seed(0)
    text = torch.tensor([ord(c) - 96 for c in "thequickbrownfoxjumpsoverthelazydog" * 6])
    model = GPT(27)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(5):
        starts = torch.randint(0, len(text) - 13, (8,))
        window = torch.stack([text[s : s + 13] for s in starts])
        logits = model(window[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, 27), window[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
