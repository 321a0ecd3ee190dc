"""A variational autoencoder of handwritten digits; ends with a picture of digits that it made up.

Kingma & Welling 2014, arXiv:1312.6114.

Run it: `python examples/vae_digits.py` (3 seconds; scikit-learn has the digits).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule import data, nn, optim

SHADES = " .:-=+*#%@"


class VAE(nn.Module):
    """Images (N, 64) as normal distributions over (N, d), and back."""

    def __init__(self, d: int, width: int, g: cr.Generator) -> None:
        self.encoder = nn.Sequential(
            nn.Linear(64, width, generator=g), nn.SiLU(), nn.Linear(width, 2 * d, generator=g)
        )
        self.decoder = nn.Sequential(
            nn.Linear(d, width, generator=g), nn.SiLU(), nn.Linear(width, 64, generator=g)
        )
        self.d = d

    def forward(self, x: Any, noise: Any) -> Any:
        """The bound of the likelihood, negative, a mean over images."""
        mean, log_var = cr.split(self.encoder(x), [self.d, self.d], axis=1)
        z = mean + (0.5 * log_var).exp() * noise
        pixels = nn.functional.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="sum")
        divergence = -0.5 * (1 + log_var - mean * mean - log_var.exp()).sum()
        return (pixels + divergence) / x.shape[0]


def main(epochs: int = 60, d: int = 6) -> float:
    """Train, print digits that the decoder makes of noise, return the last loss."""
    digits = data.load_digits()
    loader = data.DataLoader(data.TensorDataset(digits.images), 64, True, drop_last=True)
    g = cr.Generator(0)
    model = VAE(d, 128, g)
    optimizer = optim.Adam(model.parameters(), lr=2e-3)

    @cr.jit
    def step(x: Any, noise: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x, noise)
        loss.backward()
        optimizer.step()
        return loss

    mean = 0.0
    for epoch in range(epochs):
        losses = [step(x, g.normal((64, d))).item() for (x,) in loader]
        mean = sum(losses) / len(losses)
        if epoch % max(epochs // 6, 1) == 0:
            print(f"epoch {epoch + 1:3}: {mean:.3f}")
    with cr.no_grad():
        made = cr.sigmoid(model.decoder(g.normal((6, d)))).numpy().reshape(6, 8, 8)
    for row in np.minimum((made * len(SHADES)).astype(int), len(SHADES) - 1).swapaxes(0, 1):
        print("   ".join(["".join([2 * SHADES[v] for v in image]) for image in row]))
    return mean


if __name__ == "__main__":
    main()
