"""Two networks against each other: each has its optimizer; detaching is done on purpose."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

torch.manual_seed(0)
make = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
judge = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
make_optimizer = torch.optim.Adam(make.parameters(), lr=1e-3)
judge_optimizer = torch.optim.Adam(judge.parameters(), lr=1e-3)

for _ in range(6):
    real = torch.randn(32, 2) * 0.3 + torch.tensor([1.0, -1.0])
    fake = make(torch.randn(32, 4))
    judge_optimizer.zero_grad()
    on_real, on_fake = judge(real), judge(fake.detach())
    judge_loss = F.softplus(-on_real).mean() + F.softplus(on_fake).mean()
    judge_loss.backward()
    judge_optimizer.step()
    make_optimizer.zero_grad()
    make_loss = F.softplus(-judge(fake)).mean()
    make_loss.backward()
    make_optimizer.step()

print(judge_loss.item(), make_loss.item())
