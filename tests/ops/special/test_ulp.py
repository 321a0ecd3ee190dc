"""First and second derivatives of smooth ops over the whole range, in units in the last place.

The rows of `exact_rows` say what each op is; mpmath says what its derivatives are. Both dtypes,
eager and compiled, numbers from the subnormal ones to where the result overflows.
"""

from __future__ import annotations

import inspect
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import chainrule as cr
import chainrule.ops.special.incomplete  # its rows are in the table, too
from chainrule.ops.families import Partial, elementwise, rows
from chainrule.ops.networks import activations, composite
from chainrule.ops.special import table as special
from tests.ops.special import exact
from tests.ops.special.exact_bounds import BOUNDS
from tests.ops.special.exact_rows import OTHERS, ROWS, Row

assert special is not None  # reading the table is what fills `rows`

DTYPES = (np.float64, np.float32)
MOST = 8
"""No bound is larger."""
PAGE = Path(__file__).parents[3] / "docs" / "accuracy.md"


def function(name: str) -> Any:
    """The row, or the composite, of that name."""
    return rows.get(name) or getattr(activations, name, None) or getattr(composite, name)


def arity(row: Row) -> int:
    required = [p for p in inspect.signature(row.f).parameters.values() if p.default is p.empty]
    return len(required)


def samples(row: Row, dtype: Any, count: int, seed: int = 0) -> list[Any]:
    """Numbers of every size, more where the function changes, and next to its special points."""
    rng, info = np.random.default_rng(seed), np.finfo(dtype)
    low, high = math.log(float(info.tiny) * 4), math.log(float(info.max) / 4)
    if arity(row) == 2:
        if row.pairs:
            xs = row.pairs(rng, 2 * count, 0.98 * high)
        else:
            xs = np.exp(rng.uniform(0.45 * low, 0.45 * high, (2, count)))
            near = np.exp(rng.uniform(-3, 3, count)) * xs[0]
            xs = np.stack([np.tile(xs[0], 2), np.concatenate([xs[1], near])])
            xs = xs * rng.choice([-1, 1], xs.shape) if row.low < 0 else xs
        return [np.asarray(x).astype(dtype) for x in xs]
    sizes = np.exp(rng.uniform(low, high, count))
    reached = np.exp(rng.uniform(math.log(1e-3), math.log(row.reach), count))
    parts = [sizes, -sizes, reached, -reached, rng.uniform(-3, 3, count)]
    for point in row.near:
        near = np.exp(rng.uniform(math.log(float(info.eps)), 0, count // 2))
        parts += [point + near, point - near]
    x = np.concatenate(parts).astype(dtype)
    return [x[(x > row.low) & (x < row.high) & (x != 0)]]


PLACES = {1: [(0,), (0, 0)], 2: [(0,), (1,), (0, 0), (0, 1), (1, 1)]}
"""By number of arguments: for which of them, one after the other, it is differentiated."""


def derivatives(f: Any, count: int) -> Any:
    """The function of all of its first and second derivatives."""

    def once(f: Any, place: int) -> Any:
        return lambda *xs: cr.vjp(f, *xs)[1](cr.ones_like(xs[0]))[place]

    def every(*xs: Any) -> Any:
        out: list[Any] = []
        for places in PLACES[count]:
            g = f
            for place in places:
                g = once(g, place)
            out.append(g(*xs))
        return tuple(out)

    return every


def bound(name: str, order: int, dtype: Any) -> float:
    """The stated bound: of exact derivatives it is 0, and nothing else passes."""
    return BOUNDS[name][DTYPES.index(dtype)][order - 1] or 1e-9


def size_of_parts(row: Row, places: tuple[int, ...], point: list[Any]) -> Any:
    """What a derivative that is a sum of parts of both signs is measured by; 0: by itself."""
    if places == (0, 1) and row.mixed:
        return row.mixed(*point)
    return row.size(*point) if row.size else 0


@cache
def wanted(name: str, dtype: Any, count: int) -> tuple[list[Any], list[list[Any]]]:
    """Samples, and for each derivative its exact values."""
    row = ROWS[name]
    xs = samples(row, dtype, count)
    points = list(zip(*[x.tolist() for x in xs], strict=True))
    return xs, [
        [exact.agreed(row.f, point, places) for point in points] for places in PLACES[arity(row)]
    ]


def worst(name: str, dtype: Any, count: int, compiled: bool, f: Any = None) -> tuple[float, Any]:
    """The largest error of a derivative, in parts of its bound, and which one at which point."""
    row = ROWS[name]
    xs, want = wanted(name, dtype, count)
    every = derivatives(f or function(name), arity(row))
    with np.errstate(all="ignore"):
        got = (cr.jit(every) if compiled else every)(*[cr.tensor(x) for x in xs])
    largest: tuple[float, Any] = (0.0, None)
    for places, ys, exacts in zip(PLACES[arity(row)], got, want, strict=True):
        for point, y, value in zip(zip(*xs, strict=True), ys.numpy().tolist(), exacts, strict=True):
            size = size_of_parts(row, places, [mp.mpf(float(x)) for x in point])
            error = exact.error(y, value, dtype, size)
            share = error / bound(name, len(places), dtype) if error else 0.0
            if share > largest[0]:
                largest = share, (places, [float(x) for x in point], y, float(value), error)
    return largest


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_eager_derivatives_are_within_the_bound(name: str, dtype: Any):
    share, where = worst(name, dtype, 12, compiled=False)
    assert share <= 1, f"{name} is off by {share:.3g} times its bound: {where}"


COMPILED = ("tanh", "sigmoid", "silu", "gelu_erf", "gelu_tanh", "exp2", "hypot", "logaddexp")
"""Of these the compiled derivatives are tested always, of all the others in the long sweep."""


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_derivatives_are_within_the_bound(name: str):
    share, where = worst(name, np.float32, 12, compiled=True)
    assert share <= 1, f"{name} is off by {share:.3g} times its bound: {where}"


@pytest.mark.sweep
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_many_derivatives_are_within_the_bound(name: str, dtype: Any, compiled: bool):
    share, where = worst(name, dtype, 60, compiled)
    print(f"{name} {np.dtype(dtype)} {'compiled' if compiled else 'eager'}: {share:.2f}")
    assert share <= 1, f"{name} is off by {share:.3g} times its bound: {where}"


def test_every_row_has_a_bound_or_a_reason():
    differentiable = {name for name, row in rows.items() if row.partials}
    assert differentiable <= ROWS.keys() | OTHERS.keys()
    assert not ROWS.keys() & OTHERS.keys() and OTHERS.keys() <= differentiable


def test_the_bounds_are_small():
    assert max(b for of_dtypes in BOUNDS.values() for pair in of_dtypes for b in pair) <= MOST
    assert np.median([b for of_dtypes in BOUNDS.values() for pair in of_dtypes for b in pair]) <= 2


def test_the_documented_bounds_are_the_bounds():
    row = r"^\| `(\w+)` \|" + r" (\d+) \|" * 4 + "$"
    found = re.findall(row, PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    stated = {name: (tuple(map(int, b[:2])), tuple(map(int, b[2:]))) for name, *b in found}
    assert stated == BOUNDS and BOUNDS.keys() == ROWS.keys()


# --- What was wrong is caught --------------------------------------------------------------------

LOST: dict[str, Any] = {
    "tanh": lambda y: 1 - y * y,
    "sigmoid": lambda y: y * (1 - y),
    "exp2": lambda y: y * math.log(2),
    "expm1": lambda y: y + 1,
    "atan": lambda x: 1 / (1 + x * x),
    "erf": lambda x: 2 / math.sqrt(math.pi) * cr.exp(-x * x),
}
"""By row: a partial that is right but for rounding."""


@pytest.mark.parametrize("name", LOST)
def test_a_partial_that_loses_digits_is_caught(name: str):
    row = rows[name]
    before = dict(rows)
    try:
        other = elementwise(row.fn, LOST[name], name=f"{name}_that_loses_digits")
    finally:
        rows.clear()
        rows.update(before)
    assert other.partials == (Partial(LOST[name], False),)
    for dtype in DTYPES:
        assert worst(name, dtype, 12, False, other)[0] > 1
