"""A batch that does not fit into memory: go backward through parts of it, and let gradients add up.

The loss is a mean over the batch, so each of eight parts of 8 is scaled by 1/8, and what has added
up after the last is the gradient of the batch of 64. Leave the scale out, and it is eight times too
large.
"""

import numpy as np

import chainrule as cr
from chainrule.models.mlp import MLP

rng = np.random.default_rng(0)
X, labels = rng.normal(size=(64, 10)), rng.integers(0, 3, 64)
model = MLP([10, 16, 3], dtype=np.float64, generator=cr.Generator(0))


def accumulated(parts: int, scale: float) -> np.ndarray:
    """All gradients in one vector, after a backward pass through each part."""
    model.zero_grad()
    for x, y in zip(np.split(X, parts), np.split(labels, parts), strict=True):
        (cr.cross_entropy(model(x), y) * scale).backward()
    return np.concatenate([p.grad.numpy().ravel() for p in model.parameters()])


whole = accumulated(1, 1.0)
eight = accumulated(8, 1 / 8)
print(f"eight parts, scaled by 1/8: off by {np.abs(eight - whole).max():.1e}")
assert np.allclose(eight, whole, rtol=1e-12, atol=1e-15)

unscaled = accumulated(8, 1.0)
print(f"not scaled: {np.linalg.norm(unscaled) / np.linalg.norm(whole):.3f} times too large")
assert np.allclose(unscaled, 8 * whole, rtol=1e-12, atol=1e-15)
