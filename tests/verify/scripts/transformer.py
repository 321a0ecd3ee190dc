"""A small transformer that learns to copy; `--slip NAME` plants a mistake."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--slip", default="")
parser.add_argument("--steps", type=int, default=6)
slip = parser.parse_args().slip
steps = parser.parse_args().steps

torch.manual_seed(0)
V, T, C, H = 11, 6, 12, 3


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(C, 3 * C)
        self.out = nn.Linear(C, C)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, H, c // H).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (c // H) ** 0.5
        scores = scores - scores.max(-1, keepdim=True).values.detach()
        weights = torch.exp(scores)
        weights = weights / weights.sum(-1, keepdim=True)
        if slip == "weights":
            weights = weights.detach()
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.norm1 = nn.LayerNorm(C)
        self.norm2 = nn.LayerNorm(C)
        self.mlp = nn.Sequential(nn.Linear(C, 2 * C), nn.GELU(), nn.Linear(2 * C, C))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        if slip == "branch":
            return x + self.mlp(self.norm2(x.detach()))
        if slip == "data":
            return x + self.mlp(self.norm2(x).data)
        if slip == "no_grad":
            with torch.no_grad():
                h = self.mlp(self.norm2(x))
            return x + h
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(V, C)
        self.position = nn.Parameter(0.02 * torch.randn(T, C))
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(C, V)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position
        for block in self.blocks:
            x = self.drop(block(x))
        if slip == "tied":
            return x @ self.embedding.weight.detach().T
        return self.head(x)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(steps):
    tokens = torch.randint(0, V, (4, T))
    logits = model(tokens)
    if slip == "rewrapped":
        logits = torch.tensor(logits, requires_grad=True)
    loss = F.cross_entropy(logits.view(-1, V), tokens.view(-1))
    if slip == "penalty":
        loss = loss + 0.01 * sum(p.square().sum() for p in model.parameters()).detach()
    if slip == "number":
        loss = loss + 0.01 * sum(p.square().sum() for p in model.parameters()).item()
    if slip == "term":
        loss = loss + 0.1 * (logits.detach() - 1).square().mean()
    optimizer.zero_grad()
    if slip == "weight":
        model.head.weight.data.mul_(1.5)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
