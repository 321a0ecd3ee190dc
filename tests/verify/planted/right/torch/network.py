"""A network with Functions of its own between PyTorch's layers."""

import torch
from torch import nn


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.erf(x * 0.5**0.5))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        density = torch.exp(-0.5 * x**2) * 0.3989422804014327
        return g * (0.5 * (1 + torch.erf(x * 0.5**0.5)) + x * density)


class Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain, shift):
        centred = x - x.mean(-1, keepdim=True)
        inv = (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        ctx.save_for_backward(centred * inv, inv, gain)
        return centred * inv * gain + shift

    @staticmethod
    def backward(ctx, g):
        hat, inv, gain = ctx.saved_tensors
        d = g * gain
        d_x = d - d.mean(-1, keepdim=True) - hat * (d * hat).mean(-1, keepdim=True)
        return inv * d_x, (g * hat).sum(0), g.sum(0)


class Net(nn.Module):
    def __init__(self, w1, b1, gain, shift, w2, b2, w3, b3):
        super().__init__()
        self.w1, self.b1 = nn.Parameter(w1), nn.Parameter(b1)
        self.gain, self.shift = nn.Parameter(gain), nn.Parameter(shift)
        self.w2, self.b2 = nn.Parameter(w2), nn.Parameter(b2)
        self.w3, self.b3 = nn.Parameter(w3), nn.Parameter(b3)

    def forward(self, x):
        x = Normalize.apply(x @ self.w1 + self.b1, self.gain, self.shift)
        x = Gelu.apply(x @ self.w2 + self.b2)
        return x @ self.w3 + self.b3


def loss(y, target):
    return ((y - target) ** 2).mean()
