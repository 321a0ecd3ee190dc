"""Classifies blobs, with gradients accumulated over micro-batches."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(6, 32)
        self.norm = nn.LayerNorm(32)
        self.down = nn.Linear(32, 4)

    def forward(self, x):
        return self.down(F.relu(self.norm(self.up(x))))


def batches(n):
    generator = torch.Generator().manual_seed(1)
    centres = 2 * torch.randn(4, 6, generator=generator)
    for _ in range(n):
        labels = torch.randint(0, 4, (16,), generator=generator)
        yield centres[labels] + torch.randn(16, 6, generator=generator), labels


def main():
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    accumulate = 4
    optimizer.zero_grad()
    for i, (x, labels) in enumerate(batches(32)):
        loss = F.cross_entropy(model(x), labels) / accumulate
        loss.backward()
        if (i + 1) % accumulate == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    print("done", round(loss.item(), 3))


if __name__ == "__main__":
    main()
