"""kmeans: the sum of squared distances to the nearest centroid, and a Newton direction for it.

The Hessian in the centroids is diagonal, so its product with ones is all of it; the direction is
the gradient divided by it (Bottou and Bengio, Convergence Properties of the K-Means Algorithms,
NIPS 1994).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.problem import Function, Input, Jit, Problem, array


def cost(centroids: Any, points: Any) -> Any:
    """(k, d), (n, d) -> (); the distances by |p|^2 + |c|^2 - 2 p.c, so that a product does it."""
    far = cr.sum(points * points, axis=1)[:, None] + cr.sum(centroids * centroids, axis=1)
    return cr.sum(cr.min(far - 2 * (points @ centroids.T), axis=1))


def direction(centroids: Any, points: Any) -> Any:
    """(k, d), (n, d) -> (k, d)."""

    def slope(c: Any) -> Any:
        return cr.grad(cost)(c, points)

    gradient, curvature = cr.jvp(slope, (centroids,), (cr.ones_like(centroids),))
    return gradient / curvature


def functions(jit: Jit) -> dict[str, Function]:
    return {"cost": jit(cost), "dir": jit(direction)}


def read(message: Input) -> tuple[Any, ...]:
    return array(message["centroids"]), array(message["points"])


def make(rng: np.random.Generator, k: int, n: int, d: int) -> Input:
    points = rng.random((n, d))
    # the last points are the centroids: so every centroid is the nearest of some point
    return {"points": points, "centroids": points[-k:]}


PROBLEM = Problem(
    "kmeans",
    functions,
    read,
    make,
    ({"k": 10, "n": 1000, "d": 8}, {"k": 100, "n": 10_000, "d": 16}),
    ("dir",),
)
