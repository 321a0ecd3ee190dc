"""Points in the plane that no line separates, by seed: two moons, spirals."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import ConfigError


def _check(name: str, n: int, noise: float) -> None:
    if type(n) is not int or n < 2 or not noise >= 0:
        raise ConfigError(
            f"{name}: n is at least 2 and noise not negative, not {n!r} and {noise!r}"
        )


def two_moons(
    n: int = 200, noise: float = 0.1, *, seed: int = 0, dtype: Any = np.float32
) -> tuple[Array, Array]:
    """n points on two half circles that reach into each other, (n, 2), and which of them, (n,).

    >>> points, moon = cr.data.two_moons(100)
    >>> points.shape, np.unique(moon)
    ((100, 2), array([0, 1]))
    """
    _check("two_moons", n, noise)
    rng = np.random.Generator(np.random.PCG64(seed))
    labels = rng.permutation(np.arange(n) % 2)
    angle = rng.uniform(0, np.pi, n)
    x = np.where(labels == 0, np.cos(angle), 1 - np.cos(angle))
    y = np.where(labels == 0, np.sin(angle), 0.5 - np.sin(angle))
    points = np.stack([x, y], axis=1) + noise * rng.normal(size=(n, 2))
    return points.astype(dtype), labels.astype(np.int64)


def spirals(
    n: int = 300,
    arms: int = 3,
    noise: float = 0.05,
    *,
    turns: float = 1.0,
    seed: int = 0,
    dtype: Any = np.float32,
) -> tuple[Array, Array]:
    """n points on the arms of a spiral around 0, (n, 2), and which of them, (n,).

    >>> points, arm = cr.data.spirals(90, arms=3)
    >>> points.shape, np.unique(arm)
    ((90, 2), array([0, 1, 2]))
    """
    _check("spirals", n, noise)
    if type(arms) is not int or arms < 1:
        raise ConfigError(f"spirals: arms is a positive integer, not {arms!r}")
    rng = np.random.Generator(np.random.PCG64(seed))
    labels = rng.permutation(np.arange(n) % arms)
    radius = rng.uniform(0.05, 1, n)
    angle = 2 * np.pi * (labels / arms + turns * radius)
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points += noise * rng.normal(size=(n, 2))
    return points.astype(dtype), labels.astype(np.int64)
