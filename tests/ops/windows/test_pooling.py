"""Pooling: PyTorch's opinion, ties, NaN, padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.windows import adaptive_pooling as adaptive
from chainrule.ops.windows import pooling as pool
from chainrule.ops.windows.windows import Windows
from tests.ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp

F = torch.nn.functional
PLANE, LINE, BLOCK = generic(2, 3, 7, 6), generic(2, 3, 9), generic(1, 2, 8, 6, 7)

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("max", {}),
    ("max", {"stride": 1, "padding": 1}),
    ("max", {"stride": 2, "dilation": 2}),
    ("avg", {}),
    ("avg", {"stride": 1, "padding": 1}),
    ("avg", {"stride": 2, "padding": 1, "count_include_pad": False}),
    *[
        (kind, {"stride": stride, "padding": padding, "ceil_mode": True})
        for kind in ("max", "avg")
        for stride in (2, 4)
        for padding in (0, 1)
    ],
    ("max", {"stride": 2, "dilation": 3, "padding": 1, "ceil_mode": True}),
    ("avg", {"stride": 4, "padding": 1, "ceil_mode": True, "count_include_pad": False}),
]


def _pair(kind: str, n: int, options: dict[str, Any]) -> Pair:
    ours, theirs = [getattr(m, f"{kind}_pool{n}d") for m in (pool, F)]
    x = (LINE, PLANE, BLOCK)[n - 1]
    return Pair(
        f"{kind}_pool{n}d {options}",
        lambda x: ours(x, 3, **options),
        lambda x: theirs(x, 3, **options),
        (x,),
    )


PAIRS = [_pair(kind, n, options) for n in (1, 2, 3) for kind, options in OPTIONS]
PAIRS = [p for p in PAIRS if "3d" not in p.name or "dilation" not in p.name]
PAIRS += [
    Pair(
        f"adaptive_{kind}_pool {size}",
        lambda x, k=kind, s=size: getattr(adaptive, f"adaptive_{k}_pool")(x, s),
        lambda x, k=kind, s=size: getattr(F, f"adaptive_{k}_pool2d")(x, s),
        (PLANE,),
    )
    for kind in ("avg", "max")
    for size in (1, (3, 4), (7, 6), (9, 5))
]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_agrees_with_torch(pair: Pair) -> None:
    value_and_vjp(pair)
    forward(pair)
    second_order(
        Pair(pair.name, lambda x: pair.ours(x) ** 2, lambda x: pair.theirs(x) ** 2, pair.args)
    )


def test_the_first_of_equals_gets_the_gradient() -> None:
    x = cr.tensor(np.array([[[2.0, 2.0, 1.0, 5.0, 5.0, 5.0]]]))
    bar = cr.grad(lambda x: pool.max_pool1d(x, 3).sum())(x)
    assert bar.tolist() == [[[1, 0, 0, 1, 0, 0]]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_padding_is_never_the_maximum(dtype: Any) -> None:
    x = cr.tensor(np.full((1, 1, 2, 2), -np.inf, dtype))
    y = pool.max_pool2d(x, 2, stride=2, padding=1)
    assert y.dtype == dtype and (y.numpy() == -np.inf).all()
    bar = cr.grad(lambda x: pool.max_pool2d(x, 2, stride=2, padding=1).sum())(x)
    assert bar.tolist() == [[[[1, 1], [1, 1]]]]


def test_nan_is_the_maximum() -> None:
    x = np.array([[[1.0, np.nan, 9.0, 3.0, np.nan, np.nan]]])
    assert np.isnan(pool.max_pool1d(x, 3)).all()
    bar = cr.grad(lambda x: pool.max_pool1d(x, 3).sum())(cr.tensor(x))
    assert bar.tolist() == [[[0, 1, 0, 0, 1, 0]]]


def test_whole_numbers() -> None:
    x = np.array([[[-5, -7, 3, 2]]])
    assert pool.max_pool1d(x, 2, padding=1).tolist() == [[[-5, 3, 2]]]


def test_messages_name_the_shapes() -> None:
    with pytest.raises(ShapeError, match=r"max_pool2d: x is \(N, C, \*size\) with 4 axes"):
        pool.max_pool2d(LINE, 3)
    with pytest.raises(ConfigError, match=r"padding \(2,\) is more than half of the kernel \(3,\)"):
        pool.avg_pool1d(LINE, 3, padding=2)
    with pytest.raises(ShapeError, match="larger than the array"):
        pool.max_pool1d(LINE, 11)


def _by_definition(w: Windows, x: Any) -> Any:
    """The first place, not in the padding, of the maximum of each window, or of a NaN; else -1."""
    best = np.full((*x.shape[: -w.ndim], *w.out), -1)
    for p in np.ndindex(*best.shape[-w.ndim :]):
        for k in np.ndindex(*w.kernel):
            at = [
                i * s + j * d - a
                for i, j, s, d, (a, _) in zip(p, k, w.stride, w.dilation, w.padding, strict=True)
            ]
            if any(not 0 <= i < n for i, n in zip(at, w.size, strict=True)):
                continue
            number = int(np.ravel_multi_index(at, w.size))
            for lead in np.ndindex(*x.shape[: -w.ndim]):
                before, v = best[*lead, *p], x[*lead, *at]
                top = None if before < 0 else x[*lead, *np.unravel_index(before, w.size)]
                if top is None or v > top or (v != v and top == top):
                    best[*lead, *p] = number
    return best


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
def test_places_of_maxima_in_random_windows(dtype: Any):
    rng, seen = np.random.default_rng(5), 0
    while seen < 60:
        d = int(rng.integers(1, 4))
        size, kernel, stride, dilation = [
            tuple(map(int, rng.integers(1, m, d))) for m in (7, 4, 4, 3)
        ]
        sides = [rng.integers(0, k // 2 + 2, 2) for k in kernel]
        w = Windows(size, kernel, stride, tuple([(int(a), int(b)) for a, b in sides]), dilation)
        if min(w.out) < 1:
            continue
        seen += 1
        x = rng.integers(0, 4, (2, int(rng.integers(0, 3)), *size)).astype(dtype)
        if x.dtype.kind == "f":
            where = rng.random(x.shape)
            x[where < 0.1], x[where > 0.9] = np.nan, np.inf
            x[(where > 0.1) & (where < 0.3)] = -np.inf
        found = pool.WindowArg(w).eval(x)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, _by_definition(w, x), str((w, x)))
