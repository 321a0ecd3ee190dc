"""Counts and normalisers beyond what the dtype of the numbers holds: 70,000 of float16, 300 of
bfloat16 and of int8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.ops.indexing import scatter_reductions
from chainrule.ops.losses import losses, margin_losses
from chainrule.ops.reductions import distances
from chainrule.ops.shapes import arranging as extra
from chainrule.ops.windows import adaptive_pooling, pooling

RNG = np.random.default_rng(0)


def arrays(n: int) -> dict[str, Any]:
    """What the cases are computed on: n elements, or n rows or columns."""
    return {
        "ones": np.ones(n), "some": RNG.uniform(0.5, 1.5, n), "rows": RNG.uniform(-1, 1, (n, 2)),
        "wide": RNG.uniform(0.5, 1.5, (2, n)), "signal": RNG.uniform(0.5, 1.5, (1, 2, n)),
        "weights": np.array([0.7, 1.2]), "zeros": np.zeros(n, np.int64), "two": np.ones(2),
        "other": RNG.uniform(0.1, 0.9, (n, 2)),
    }  # fmt: skip


CASES: dict[str, tuple[str, Any]] = {
    "mean": ("some", cr.mean), "max": ("ones", cr.max), "min": ("ones", cr.min),
    "norm inf": ("ones", lambda x: cr.norm(x, ord=np.inf)),
    "norm 3": ("some", lambda x: cr.norm(x, ord=3)),
    "norm -1.5": ("some", lambda x: cr.norm(x, ord=-1.5)), "norm": ("some", cr.norm),
    "var": ("some", lambda x: cr.var(x, correction=1)),
    "std": ("some", lambda x: cr.std(x, correction=1)),
    "logsumexp": ("ones", cr.logsumexp),
    "logcumsumexp": ("ones", lambda x: cr.logcumsumexp(x, 0)[-1]),
    "nanmean": ("some", extra.nanmean), "cov": ("wide", extra.cov),
    "cov, weighted": ("wide some", lambda x, w: extra.cov(x, weights=w)),
    "corrcoef": ("wide", extra.corrcoef),
    "np.average": ("some some", lambda x, w: np.average(x, weights=w)),
    "cross_entropy": ("rows zeros", cr.cross_entropy),
    "cross_entropy, weighted": (
        "rows zeros weights", lambda x, t, w: cr.cross_entropy(x, t, weight=w, reduction="mean"),
    ),
    "nll_loss": ("rows zeros", losses.nll_loss),
    "kl_div": ("rows other", lambda x, t: losses.kl_div(x, t, reduction="batchmean")),
    "multi_margin_loss": ("wide", lambda x: margin_losses.multi_margin_loss(x, np.array([3, 5]))),
    "multilabel_soft_margin_loss": (
        "wide wide", lambda x, t: losses.multilabel_soft_margin_loss(x, t)
    ),
    "mse_loss": ("some ones", cr.mse_loss), "l1_loss": ("rows other", losses.l1_loss),
    "cosine_similarity": ("some ones", lambda a, b: distances.cosine_similarity(a, b, axis=0)),
    "normalize": ("some", lambda x: distances.normalize(x, axis=0)[:2] * 100),
    "layer_norm": ("some", lambda x: cr.layer_norm(x)[:3]),
    "adaptive_avg_pool": ("signal", lambda x: adaptive_pooling.adaptive_avg_pool(x, (1,))),
    "avg_pool1d": ("signal", lambda x: pooling.avg_pool1d(x, x.shape[-1])),
    "scatter_reduce mean": (
        "two zeros some", lambda x, i, s: scatter_reductions.scatter_reduce(x, 0, i, s, "mean")[0]
    ),
    "scatter_reduce amax": (
        "two zeros ones", lambda x, i, s: scatter_reductions.scatter_reduce(x, 0, i, s, "amax")[0]
    ),
}  # fmt: skip


def value_gradient_tangent(f: Any, xs: Any) -> list[Any]:
    """The value, all gradients and a tangent of f for its float arguments."""
    places = [i for i, x in enumerate(xs) if x.dtype.kind not in "iu"]

    def partly(*floats: Any) -> Any:
        full = list(xs)
        for i, x in zip(places, floats, strict=True):
            full[i] = x
        return f(*full)

    floats = [xs[i] for i in places]
    y, pull = cr.vjp(partly, *floats)
    halves = [cr.ones(x.shape, x.dtype) * 0.5 for x in floats]
    return [y, *pull(cr.ones(y.shape, y.dtype)), cr.jvp(partly, floats, halves)[1]]


def check(name: str, dtype: Any, n: int, compiled: bool) -> None:
    names, f = CASES[name]
    made = arrays(n)
    low = [made[k] if k == "zeros" else made[k].astype(dtype) for k in names.split()]
    high = [x if x.dtype.kind == "i" else x.astype(np.float64) for x in low]

    def run(*xs: Any) -> Any:
        return tuple(value_gradient_tangent(f, xs))

    got = (cr.jit(run) if compiled else run)(*map(cr.tensor, low))
    eps, smallest = float(cr.finfo(dtype).eps), 6e-8
    for a, b in zip(got, run(*map(cr.tensor, high)), strict=True):
        assert a.dtype == dtype
        error = np.abs(a.numpy().astype(np.float64) - b.numpy())
        # below eps itself what is left of a difference of numbers near 1 is rounding
        assert (error <= 4 * eps * np.abs(b.numpy()).max() + 2 * smallest).all(), (name, a, b)


@pytest.mark.parametrize("name", CASES)
def test_in_narrow_floats(name: str):
    if name != "avg_pool1d":  # a step for each of the 70,000 places
        check(name, np.dtype(np.float16), 70_000, compiled=False)
    check(name, cr.bfloat16, 300, compiled=False)


@pytest.mark.parametrize("name", ["max", "nanmean", "nll_loss"])
def test_compiled(name: str):
    check(name, np.dtype(np.float16), 70_000, compiled=True)


NOT_NARROW: dict[str, tuple[Any, Any]] = {
    "sum": (cr.sum, np.sum), "mean": (cr.mean, np.mean), "var": (cr.var, np.var),
    "std": (cr.std, np.std), "nanmean": (extra.nanmean, np.nanmean),
    "count_nonzero": (cr.count_nonzero, np.count_nonzero),
    "norm 0": (lambda x: cr.norm(x, ord=0), lambda x: x.size),
    "norm": (cr.norm, lambda x: np.linalg.norm(x.astype(float))),
    "cumsum": (lambda x: cr.cumsum(x, axis=0), np.cumsum),
    "trapezoid": (extra.trapezoid, lambda x: np.trapezoid(x.astype(float))),
    "np.trapezoid": (np.trapezoid, lambda x: np.trapezoid(x.astype(float))),
    "np.gradient": (np.gradient, lambda x: np.gradient(x.astype(float))),
    "vander": (lambda x: extra.vander(x[:3], 10), lambda x: np.vander(x[:3], 10, increasing=True)),
    "l1_loss": (
        lambda x: losses.l1_loss(x, x[::-1]),
        lambda x: np.abs(x.astype(float) - x[::-1].astype(float)).mean(),
    ),
    "mse_loss": (
        lambda x: cr.mse_loss(x, x[::-1]),
        lambda x: ((x.astype(float) - x[::-1].astype(float)) ** 2).mean(),
    ),
    "avg_pool1d": (
        lambda x: pooling.avg_pool1d(cr.reshape(x, (1, 1, -1)), x.size),
        lambda x: x.astype(float).mean().reshape(1, 1, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_NARROW)
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "uint32"])
def test_of_whole_numbers(name: str, kind: str):
    f, right = NOT_NARROW[name]
    x = np.full(300, 100, kind)
    x[::3] = 2
    for run in (f, cr.jit(f)) if kind == "uint8" else (f,):
        np.testing.assert_allclose(run(cr.tensor(x)).numpy(), right(x), rtol=1e-6)
