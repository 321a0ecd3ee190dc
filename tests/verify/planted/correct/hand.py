"""Hand-written NumPy code that is right: kinks, ties, saved masks, in-place work done well."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Correct, arguments, cast


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def relu_backward(g: Any, x: Any) -> Any:
    return g * (x > 0)


def absolute(x: Any) -> Any:
    return np.abs(x)


def absolute_backward(g: Any, x: Any) -> Any:
    return g * np.sign(x)


def clip(x: Any) -> Any:
    return np.clip(x, -1, 1)


def clip_backward(g: Any, x: Any) -> Any:
    return g * ((x >= -1) & (x <= 1))


def rowmax(x: Any) -> tuple[Any, Any]:
    at = x.argmax(axis=1)
    return x[np.arange(len(x)), at], (x.shape, at)


def rowmax_backward(g: Any, cache: Any) -> Any:
    shape, at = cache
    out = np.zeros(shape, dtype=g.dtype)
    out[np.arange(len(at)), at] = g
    return out


def ordered(x: Any) -> tuple[Any, Any]:
    at = np.argsort(x, axis=-1, kind="stable")
    return np.take_along_axis(x, at, axis=-1), at


def ordered_backward(g: Any, at: Any) -> Any:
    out = np.empty_like(g)
    np.put_along_axis(out, at, g, axis=-1)
    return out


def logsumexp(x: Any) -> Any:
    m = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=-1)) + m[..., 0]


def logsumexp_backward(g: Any, x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return g[..., None] * e / e.sum(axis=-1, keepdims=True)


def fused(x: Any, w: Any) -> tuple[Any, Any]:
    """Works in its own buffer, in place."""
    h = x @ w
    mask = h < 0
    h[mask] *= 0.1
    return h, (x, w, mask)


def fused_backward(g: Any, cache: Any) -> Any:
    x, w, mask = cache
    d = np.array(g)
    d[mask] *= 0.1
    return d @ w.T, x.T @ d


def norm(x: Any) -> Any:
    return np.sqrt((x * x).sum(axis=-1))


def norm_backward(g: Any, x: Any) -> Any:
    n = norm(x)
    return (g / np.where(n == 0, 1, n))[..., None] * x


def huber(a: Any, b: Any) -> Any:
    d = np.abs(a - b)
    return np.where(d < 1, d * d / 2, d - 0.5).mean()


def huber_backward(g: Any, a: Any, b: Any) -> Any:
    d = g * np.clip(a - b, -1, 1) / a.size
    return d, -d


def masked(x: Any, keep: Any) -> Any:
    return np.where(keep, x, 0) * 2.0


def masked_backward(g: Any, x: Any, keep: Any) -> Any:
    return np.where(keep, g, 0) * 2.0, None


def guarded(x: Any) -> Any:
    return np.sqrt(np.where(x > 0, x, 1)) * (x > 0)


def guarded_backward(g: Any, x: Any) -> Any:
    return np.where(x > 0, g * 0.5 / np.sqrt(np.where(x > 0, x, 1)), 0)


class Dropout:
    """Draws its mask once for each forward, from a generator of its own."""

    def __init__(self, p: float = 0.4) -> None:
        self.p = p
        self.rng = np.random.default_rng(3)

    def forward(self, x: Any) -> Any:
        self.mask = (self.rng.random(x.shape) > self.p) / (1 - self.p)
        return x * self.mask.astype(x.dtype)

    def backward(self, g: Any) -> Any:
        return g * self.mask.astype(g.dtype)


class GlobalDropout:
    """The same with NumPy's global stream."""

    def forward(self, x: Any) -> Any:
        self.mask = np.random.rand(*x.shape) > 0.3
        return x * self.mask

    def backward(self, g: Any) -> Any:
        return g * self.mask


class Accumulating:
    """Adds to its gradients, as layers do whose gradients a trainer resets."""

    def __init__(self, W: Any, b: Any) -> None:
        self.W, self.b = W, b
        self.dW, self.db = np.zeros_like(W), np.zeros_like(b)

    def forward(self, x: Any) -> Any:
        self.x = x
        return x @ self.W + self.b

    def backward(self, g: Any) -> Any:
        self.dW += self.x.T @ g
        self.db += g.sum(axis=0)
        return g @ self.W.T


PAIRS: list[tuple[Any, ...]] = [
    ("relu", relu, relu_backward, "4,5"),
    ("relu at 0", relu, relu_backward, "~4,5"),
    ("abs", absolute, absolute_backward, "4,5"),
    ("abs at 0", absolute, absolute_backward, "~4,5"),
    ("clip", clip, clip_backward, "4,5"),
    ("clip at bounds", clip, clip_backward, "~4,5"),
    ("max", rowmax, rowmax_backward, "4,5"),
    ("max of ties", rowmax, rowmax_backward, "~4,5"),
    ("sort", ordered, ordered_backward, "3,6"),
    ("sort of equals", ordered, ordered_backward, "~3,6"),
    ("logsumexp", logsumexp, logsumexp_backward, "3,4"),
    ("logsumexp large", logsumexp, logsumexp_backward, "*50:3,4"),
    ("leaky linear", fused, fused_backward, "5,4", "4,3"),
    ("norm", norm, norm_backward, "3,4"),
    ("norm at 0", norm, norm_backward, "*0:3,4"),
    ("huber", huber, huber_backward, "4,5", "4,5"),
    ("huber at 1", huber, huber_backward, "~4,5", "~4,5"),
    ("masked", masked, masked_backward, "4,5", "#2:4,5"),
    ("guarded sqrt", guarded, guarded_backward, "4,5"),
    ("guarded sqrt at 0", guarded, guarded_backward, "~4,5"),
    ("empty", relu, relu_backward, "0,5"),
    ("one", relu, relu_backward, "1"),
    ("large", huber, huber_backward, "*1e3:4,5", "*1e3:4,5"),
    ("tiny", logsumexp, logsumexp_backward, "*1e-9:3,4"),
]
LAYERS: list[tuple[Any, ...]] = [
    ("dropout", Dropout, (), "6,5"),
    ("global dropout", GlobalDropout, (), "6,5"),
    ("accumulating", Accumulating, ("4,3", "3"), "5,4"),
]


def _pair(row: tuple[Any, ...], dtype: str, seed: int) -> Any:
    from chainrule import verify

    args = arguments((row[0], None, *row[3:]), seed)
    return verify.pair(row[1], row[2], *[cast(a, dtype) for a in args])


def _layer(row: tuple[Any, ...], dtype: str, seed: int) -> Any:
    from chainrule import verify

    own = [cast(a, dtype) for a in arguments((row[0], None, *row[2]), seed)]
    args = [cast(a, dtype) for a in arguments((row[0], None, *row[3:]), seed)]
    return verify.pair(row[1](*own), *args)


def cases() -> list[Correct]:
    """Every pair and layer, in three dtypes, at two seeds."""
    return [
        Correct(f"hand/{row[0]}/{dtype}/{seed}", lambda f=f, r=row, d=dtype, s=seed: f(r, d, s))
        for f, rows in ((_pair, PAIRS), (_layer, LAYERS))
        for row in rows
        for dtype in ("float64", "float32", "float16")
        for seed in (0, 1)
    ]
