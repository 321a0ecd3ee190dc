"""Fits a small network to noisy points."""

import torch
from torch import nn

torch.manual_seed(0)
xs = torch.linspace(-2, 2, 64)[:, None]
ys = torch.sin(2 * xs) + 0.05 * torch.randn_like(xs)

model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = {}

for step in range(8):
    prediction = model(xs)
    loss = ((prediction - ys) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses[step] = loss.item()

print(f"{losses[0]:.4f} -> {losses[7]:.4f}")
