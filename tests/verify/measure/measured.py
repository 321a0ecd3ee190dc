"""Subjects for the tests of what is measured: a forward and a backward in NumPy, as they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.verify.evidence import Evidence
from chainrule.verify.measure.examine import examine
from chainrule.verify.subject import Array, Input, Subject


class Pair(Subject):
    """`forward(*xs)` and `backward(*xs, *gs)`: arrays or tuples of them."""

    kind = "NumPy pair"

    def __init__(self, f: Callable[..., Any], b: Callable[..., Any], *xs: Any, fixed: str = ""):
        self.name, self.f, self.b, self.held = "pair", f, b, fixed
        self.inputs = tuple([Input(f"x{i}", x, _float(x)) for i, x in enumerate(xs)])

    @property
    def fixed(self) -> str:
        return self.held

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        return _tuple(self.f(*[np.copy(x) if isinstance(x, np.ndarray) else x for x in xs]))

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        return _tuple(self.b(*[np.copy(x) if isinstance(x, np.ndarray) else x for x in xs], *gs))


def _float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "fcV"


def _tuple(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def measured(f: Callable[..., Any], b: Callable[..., Any], *xs: Any, fixed: str = "") -> Evidence:
    return examine(Pair(f, b, *xs, fixed=fixed))


def codes(evidence: Evidence) -> set[str]:
    return {b.code for b in evidence.behaviours}


def verdicts(evidence: Evidence, point: str = "as captured") -> set[str]:
    return {t.verdict for t in evidence.trials if t.point == point}


# --- Right pairs ----------------------------------------------------------------------------------


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_back(x: Array, g: Array) -> Array:
    p = softmax(x)
    return p * (g - (g * p).sum(-1, keepdims=True))


def norm(x: Array) -> Array:
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def norm_back(x: Array, g: Array) -> Array:
    c = x - x.mean(-1, keepdims=True)
    s = np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)
    h = c / s
    return (g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True)) / s


def attention(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5) @ v


def attention_back(q: Array, k: Array, v: Array, g: Array) -> tuple[Array, ...]:
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    w = softmax(scores)
    s = softmax_back(scores, g @ np.swapaxes(v, -1, -2)) / q.shape[-1] ** 0.5
    return s @ k, np.swapaxes(s, -1, -2) @ q, np.swapaxes(w, -1, -2) @ g


def maximum_back(x: Array, g: Array) -> Array:
    at = np.zeros_like(x)
    np.put_along_axis(at, x.argmax(-1)[..., None], g[..., None], -1)
    return at


def embedding_back(table: Array, index: Array, g: Array) -> tuple[Array, None]:
    x_bar = np.zeros_like(table)
    np.add.at(x_bar, index, g)
    return x_bar, None


def matmul_back(a: Array, b: Array, g: Array) -> tuple[Array, Array]:
    return g @ b.T, a.T @ g


def network(x: Array, v: Array, w: Array) -> Array:
    return np.maximum(x @ v, 0) @ w


def network_back(x: Array, v: Array, w: Array, g: Array) -> tuple[Array, ...]:
    h = x @ v
    d = (g @ w.T) * (h > 0)
    return d @ v.T, x.T @ d, np.maximum(h, 0).T @ g


def cross_entropy(x: Array, target: Array) -> Array:
    return -(target * np.log(softmax(x))).sum() / x.shape[0]


RIGHT: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "matmul": (np.matmul, matmul_back, (normal(5, 4), normal(4, 6))),
    "square matmul": (np.matmul, matmul_back, (normal(4, 4), normal(4, 4, seed=1))),
    "softmax": (softmax, softmax_back, (normal(4, 6),)),
    "layer norm": (norm, norm_back, (normal(4, 6),)),
    "attention": (attention, attention_back, (normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 3))),
    "relu": (lambda x: np.maximum(x, 0), lambda x, g: g * (x > 0), (normal(6, 5),)),
    "relu of zeros": (
        lambda x: np.maximum(x, 0),
        lambda x, g: g * (x > 0),
        (np.maximum(normal(6, 5), 0),),
    ),
    "abs, summed": (lambda x: np.abs(x).sum(), lambda x, g: g * np.sign(x), (normal(6, 5),)),
    "largest": (lambda x: x.max(-1), maximum_back, (normal(5, 7),)),
    "largest of ties": (lambda x: x.max(-1), maximum_back, (np.round(normal(5, 7)),)),
    "clip": (
        lambda x: np.clip(x, -0.5, 0.5),
        lambda x, g: g * (np.abs(x) < 0.5),
        (np.round(4 * normal(6, 5)) / 8,),
    ),
    "embedding": (
        lambda table, index: table[index],
        embedding_back,
        (normal(7, 3), np.array([[1, 0, 6], [1, 1, 2]])),
    ),
    "network": (network, network_back, (normal(6, 4), normal(4, 8), normal(8, 3))),
    "log": (np.log, lambda x, g: g / x, (np.exp(normal(4, 5)),)),
    "constant": (lambda x: np.ones(3) + 0 * x[:3], lambda x, g: np.zeros_like(x), (normal(5),)),
    "several outputs": (
        lambda x: (x.sum(0), 1e-6 * np.sin(x)),
        lambda x, g, h: g + 1e-6 * h * np.cos(x),
        (normal(4, 3),),
    ),
    "float32 inside": (
        lambda x: np.tanh(x.astype(np.float32)).astype(x.dtype) * x,
        lambda x, g: (
            g
            * (
                np.tanh(x.astype(np.float32)).astype(x.dtype)
                + x * (1 - np.tanh(x.astype(np.float32)) ** 2).astype(x.dtype)
            )
        ),
        (normal(5, 6),),
    ),
    "median of equal numbers": (
        lambda x: np.median(x, -1),
        lambda x, g: g[..., None] * (np.arange(3) == 1),
        (np.ones((4, 3)),),
    ),
    "only for rows that sum to 1": (
        cross_entropy,
        lambda x, target, g: (g * (softmax(x) - target) / x.shape[0], None),
        (normal(4, 5), np.eye(5)[[1, 3, 0, 1]]),
    ),
}
"""Forward, backward, arguments of pairs that are right. Of the last one the target is no input."""
