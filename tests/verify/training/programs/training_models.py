"""Small models and batches for training loops of tests."""

from __future__ import annotations

import torch
from torch import nn


def mlp(n=4, k=1, hidden=16):
    return nn.Sequential(nn.Linear(n, hidden), nn.ReLU(), nn.Linear(hidden, k))


def batch(n=16):
    x = torch.randn(n, 4)
    return x, x.sum(1, keepdim=True).sin()


def classes(n=16):
    return torch.randn(n, 4), torch.randint(0, 3, (n,))


def hooked(m, on_hidden=None, loss=None):
    """Three steps of a model of three parts, its hidden values with a hook."""
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        h = m[0](x)
        if on_hidden is not None:
            h.register_hook(on_hidden)
        out = nn.functional.mse_loss(m[2](m[1](h)), y) if loss is None else loss(m, h)
        out.backward()
        o.step()


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.b, self.l = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 5)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        h = torch.relu_(self.n(self.a(x)))
        h = nn.functional.max_pool2d(nn.functional.relu(self.b(h)) + h, 2)
        return self.l(self.drop(h.mean((2, 3))))


class Highway(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.a, self.b = nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRU(4, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, x, h):
        y, h = self.cell(x, h)
        return self.out(y), h


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(12, 16), nn.Sequential(nn.Linear(2, 16), nn.Tanh())
        self.mu, self.logvar, self.out = nn.Linear(16, 2), nn.Linear(16, 2), nn.Linear(16, 12)

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (logvar / 2).exp()
        return torch.sigmoid(self.out(self.dec(z))), mu, logvar


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).chunk(3, -1)
        T = x.shape[1]
        mask = torch.ones(T, T, dtype=torch.bool).triu(1)
        w = (q @ k.transpose(1, 2) / k.shape[-1] ** 0.5).masked_fill(mask, -torch.inf).softmax(-1)
        x = x + self.o(w @ v)
        return x + self.down(nn.functional.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self, V=31, d=16, L=4, T=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, d), nn.Embedding(T, d)
        self.blocks = nn.ModuleList([Block(d) for _ in range(L)])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, V, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, t):
        x = self.tok(t) + self.pos(torch.arange(t.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Branched(nn.Module):
    """Two layers side by side; a subclass says what becomes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.out = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 1)


def train(m):
    """Four steps."""
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        (m(x) - y).square().mean().backward()
        o.step()
