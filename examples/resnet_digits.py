"""A small residual network learns handwritten digits; ends with a table of its mistakes.

Run it: `python examples/resnet_digits.py` (4 seconds; scikit-learn has the digits).
"""

from __future__ import annotations

from typing import Any

import chainrule as cr
from chainrule import data, nn, optim


class Residual(nn.Module):
    """x + two convolutions of x, each normalised; with a stride x is convolved, too."""

    def __init__(self, ins: int, outs: int, stride: int, g: cr.Generator) -> None:
        self.conv1 = nn.Conv2d(ins, outs, 3, stride, 1, bias=False, generator=g)
        self.bn1 = nn.BatchNorm2d(outs)
        self.conv2 = nn.Conv2d(outs, outs, 3, 1, 1, bias=False, generator=g)
        self.bn2 = nn.BatchNorm2d(outs)
        plain = stride == 1 and ins == outs
        self.short = nn.Identity() if plain else nn.Conv2d(ins, outs, 1, stride, generator=g)

    def forward(self, x: Any) -> Any:
        """(N, ins, H, W) -> (N, outs, H / stride, W / stride)."""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + self.short(x)).relu()


def network(g: cr.Generator) -> nn.Module:
    """Images (N, 1, 8, 8) -> the scores of ten digits."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, generator=g), nn.ReLU(), Residual(16, 16, 1, g),
        Residual(16, 32, 2, g), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 10, generator=g),
    )  # fmt: skip


def main(epochs: int = 8) -> float:
    """Train, print how often each digit is taken for another, return the share that is right."""
    digits = data.load_digits()
    images = digits.images.reshape(-1, 1, 8, 8)
    loader = data.DataLoader(data.TensorDataset(images, digits.labels), 64, True, drop_last=True)
    model = network(cr.Generator(0))
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = optim.Scheduler(optimizer, optim.OneCycle(epochs * len(loader)))

    @cr.jit
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = cr.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for epoch in range(epochs):
        batches = cr.track(loader, f"epoch {epoch + 1}")
        for x, y in batches:
            batches.show(loss=step(x, y))
            scheduler.step()
        losses = [loss for _, loss in batches.history["loss"]]
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}")
    model.eval()
    with cr.no_grad():
        found = model(digits.test_images.reshape(-1, 1, 8, 8)).numpy().argmax(axis=1)
    print("rows: the digit; columns: what it was taken for")
    for digit in range(10):
        counts = [int(((digits.test_labels == digit) & (found == k)).sum()) for k in range(10)]
        print(digit, " ".join([f"{n or '.':>3}" for n in counts]))
    right = float((found == digits.test_labels).mean())
    print(f"right: {right:.1%}")
    return right


if __name__ == "__main__":
    main()
