"""Arguments of every op of the corpus, by name: what a forward is called with, at several sizes.

Sizes are generic (no two alike) except at the points called `square`, where a transposed matrix has
the right shape. Values are drawn from a normal distribution, apart from ties and kinks, and from a
seed of their own: the same name gives the same arguments in every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


def seed_of(*words: object) -> int:
    """A number that depends on the words only."""
    digest = hashlib.sha256("/".join([str(w) for w in words]).encode()).digest()
    return int.from_bytes(digest[:4], "little")


@dataclass(frozen=True, eq=False)
class Draw:
    """Random arrays: normal ones by a call, others by name."""

    rng: np.random.Generator

    def __call__(self, *shape: int) -> Any:
        return self.rng.normal(size=shape)

    def positive(self, *shape: int) -> Any:
        return self.rng.uniform(0.3, 2.0, size=shape)

    def below(self, n: int, *shape: int) -> Any:
        return self.rng.integers(0, n, size=shape)

    def apart(self, *shape: int) -> Any:
        """Values no two of which are close."""
        n = int(np.prod(shape))
        return (self.rng.permutation(n).reshape(shape) - n / 2 + 0.25) / 3.0


@dataclass(frozen=True, eq=False)
class Points:
    """How the arguments of an op are drawn, and the sizes at which they are."""

    draw: Callable[..., tuple[Any, ...]]
    sizes: dict[str, tuple[int, ...]]


def _seq(f: Draw, B: int, T: int, d: int) -> tuple[Any, ...]:
    return f(B, T, d), f(B, T, d), f(B, T, d)


def _self_attention(f: Draw, B: int, T: int, d: int) -> tuple[Any, ...]:
    return f(B, T, d), *[f(d, d) / np.sqrt(d) for _ in range(3)]


def _norm(f: Draw, n: int, d: int) -> tuple[Any, ...]:
    return 1.5 * f(n, d) + 0.3, f.positive(d), f(d)


def _images(f: Draw, B: int, C: int, H: int, W: int, O: int, k: int) -> tuple[Any, ...]:
    return f(B, C, H, W), f(O, C, k, k), f(O)


def _rnn(f: Draw, T: int, B: int, n: int, h: int) -> tuple[Any, ...]:
    return f(T, B, n), f(B, h), f(n, h) / 2, f(h, h) / 2, f(h)


POINTS: dict[str, Points] = {
    "linear": Points(
        lambda f, m, k, n: (f(m, k), f(k, n), f(n)),
        {
            "generic": (5, 4, 3),
            "square": (4, 4, 4),
            "wide": (2, 7, 6),
            "tall": (8, 3, 2),
            "one": (1, 1, 1),
        },
    ),
    "attention": Points(
        _seq, {"generic": (2, 5, 3), "square": (3, 4, 4), "long": (1, 7, 2), "one": (1, 1, 3)}
    ),
    "self_attention": Points(
        _self_attention,
        {
            "generic": (2, 3, 4),
            "square": (2, 4, 4),
            "long": (1, 6, 3),
            "many": (4, 2, 3),
        },
    ),
    "layer_norm": Points(
        _norm, {"generic": (4, 6), "square": (5, 5), "wide": (2, 9), "one": (1, 4)}
    ),
    "batch_norm": Points(
        _norm, {"generic": (6, 3), "square": (5, 5), "wide": (7, 8), "few": (2, 5)}
    ),
    "rms_norm": Points(
        lambda f, n, d: (f(n, d), f.positive(d)),
        {"generic": (4, 6), "square": (5, 5), "wide": (2, 9), "one": (1, 4)},
    ),
    "softmax": Points(
        lambda f, m, n: (f(m, n),),
        {"generic": (3, 5), "square": (4, 4), "wide": (2, 9), "one": (1, 1)},
    ),
    "conv2d": Points(
        _images,
        {"generic": (2, 3, 6, 5, 4, 3), "square": (2, 3, 5, 5, 3, 3), "small": (1, 2, 3, 4, 2, 2)},
    ),
    "embedding": Points(
        lambda f, V, d, B, T: (f(V, d), f.below(V, B, T)),
        {"generic": (5, 4, 3, 4), "square": (6, 6, 3, 6), "long": (3, 2, 2, 7)},
    ),
    "cross_entropy": Points(
        lambda f, B, C: (f(B, C), f.below(C, B)),
        {"generic": (6, 4), "square": (5, 5), "wide": (3, 8), "one": (1, 3)},
    ),
    "gelu": Points(
        lambda f, m, n: (f(m, n),), {"generic": (4, 3), "square": (3, 3), "wide": (2, 8)}
    ),
    "gelu_positive": Points(lambda f, m, n: (f.positive(m, n),), {"generic": (4, 3)}),
    "rnn": Points(_rnn, {"generic": (4, 3, 2, 5), "square": (3, 4, 4, 4), "long": (6, 2, 3, 2)}),
    "sigmoid": Points(
        lambda f, m, n: (f(m, n),), {"generic": (4, 5), "square": (3, 3), "wide": (1, 9)}
    ),
    "sigmoid_positive": Points(lambda f, m, n: (f.positive(m, n),), {"generic": (4, 5)}),
    "max_pool": Points(
        lambda f, B, C, H, W: (f.apart(B, C, H, W),),
        {
            "generic": (2, 3, 6, 4),
            "square": (2, 2, 4, 4),
            "small": (1, 1, 2, 4),
            "deep": (1, 5, 2, 4),
        },
    ),
    "weighted_mean": Points(
        lambda f, m, n: (f(m, n), f.positive(m, 1)),
        {"generic": (5, 3), "square": (4, 4), "long": (9, 2), "one": (1, 2)},
    ),
    "mse": Points(
        lambda f, m, n: (f(m, n), f(m, n)),
        {"generic": (5, 3), "square": (4, 4), "wide": (2, 9), "one": (1, 1)},
    ),
    "scale_shift": Points(
        lambda f, m, n: (f(m, n), f(n), f(m, 1)),
        {"generic": (5, 3), "square": (4, 4), "wide": (2, 7)},
    ),
}
"""By op. `scale_shift` is `x * scale + shift` with two kinds of broadcasting."""


def _network(f: Draw, B: int, n: int, h: int, m: int) -> tuple[Any, ...]:
    first = f(B, n), f(n, h) / 2, f(h), f.positive(h), f(h)
    return *first, f(h, m) / 2, f(m), f(m, 3) / 2, f(3)


def _network_loss(f: Draw, B: int, n: int, h: int, m: int) -> tuple[Any, ...]:
    x, *weights = _network(f, B, n, h, m)
    return x, f(B, 3), *weights


NETWORKS: dict[str, Points] = {
    "network": Points(_network, {"generic": (6, 4, 5, 7), "square": (5, 5, 5, 5)}),
    "network_loss": Points(_network_loss, {"generic": (6, 4, 5, 7), "square": (5, 5, 5, 5)}),
    "residual": Points(
        lambda f, B, n: (f(B, n), f(n, n) / 2, f(n), f(n, n) / 2, f(n)), {"generic": (6, 4)}
    ),
    "product": Points(lambda f, m, k, n: (f(m, k), f(k, n) / 2), {"generic": (5, 4, 3)}),
}
POINTS.update(NETWORKS)


def arguments(op: str, at: str = "generic", seed: int = 0) -> tuple[Any, ...]:
    """What the forward of `op` is called with, float arrays in float64."""
    points = POINTS[op]
    f = Draw(np.random.default_rng(seed_of(op, at, seed)))
    return points.draw(f, *points.sizes[at])
