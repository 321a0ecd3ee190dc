"""Values that change where autograd does not look: `kept.py NAME`. All but `fine` are wrong."""

import sys

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
random = np.random.default_rng(0)
how = sys.argv[1]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.x, ctx.w = x, w
        return x * w

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.w, (grad * ctx.x).sum(0)


def noisy(h):
    noise = torch.from_numpy(random.normal(size=h.shape)).float()
    return torch.tanh(second(h) * (1 + noise))


first, second, third = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)
w = nn.Parameter(torch.ones(6))
parts = [*first.parameters(), *second.parameters(), *third.parameters(), w]
optimizer = torch.optim.SGD(parts, lr=0.1)
for step in range(5):
    x = random.normal(size=(5, 4)).astype(np.float32)
    h = first(torch.from_numpy(x))
    y = Scaled.apply(h, w)
    if how == "by_hand":
        h.mul_(2)
    if how in ("random", "reentrant"):
        y = checkpoint(noisy, y, use_reentrant=how == "reentrant")
    else:
        y = checkpoint(torch.tanh, second(y), use_reentrant=False)
    z = torch.sigmoid(y)
    if how == "view":
        z.detach().numpy()[:] *= 0.5
    if how == "input":
        x *= 3
    loss = third(z).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
