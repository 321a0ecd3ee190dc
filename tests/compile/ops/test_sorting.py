"""Sorting and searching in compiled programs: the same indices as in eager mode, as plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.lower.algorithms.sort import SHORT
from chainrule.tree import flatten
from tests.compile.c.ccompiler import left, needs_compiler
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)


RNG = np.random.default_rng(11)
DTYPES = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")
SHAPES = ((0,), (1,), (5,), (SHORT,), (SHORT + 1,), (3, 0), (7, 33), (2, 300, 3))


def same(f: Any, *xs: Any, **axes: Any) -> str:
    """The loops of `f`, which compiled gives what it gives; no part of it is eager."""
    g = cr.jit(f, **axes)
    given = [cr.asarray(x) for x in xs]
    got, want = g(*given), f(*given)
    for a, b in zip(*[y if isinstance(y, tuple) else (y,) for y in (got, want)], strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert "eager" not in g.loops()
    return g.loops()


def values(shape: Any, dtype: str) -> Any:
    """Numbers with many equal ones, from the whole range of the dtype; for floats all there are."""
    d = np.dtype(dtype)
    if d.kind == "f":
        special = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-42, -1e-42], d)
        x = np.round(RNG.normal(size=shape) * 20).astype(d)
        return np.where(RNG.random(shape) < 0.3, RNG.choice(special, shape), x)
    bits = RNG.integers(0, 256, (*shape, d.itemsize), np.uint8)
    x = bits.view(d)[..., 0] if d.kind != "b" else bits[..., 0] > 100
    return np.where(RNG.random(shape) < 0.5, x.astype(d), np.asarray(3).astype(d))


@pytest.mark.parametrize("dtype", DTYPES)
def test_indices_are_those_of_eager_mode(dtype: str):
    cases = [(values(s, dtype), axis) for s in SHAPES for axis in range(-len(s), 0)]

    def f(*xs: Any) -> Any:
        both = [(x, axis, d) for x, (_, axis) in zip(xs, cases, strict=True) for d in (False, True)]
        return tuple([cr.argsort(x, axis=axis, descending=d) for x, axis, d in both])

    same(f, *[x for x, _ in cases])


@pytest.mark.parametrize("dtype", [cr.float16, cr.bfloat16], ids=str)
def test_half_precision(dtype: Any):
    x = cr.asarray(values((6, 50), "f4")).astype(dtype)
    rounded = cr.asarray(np.array([-3.0, -1.5, 0.1, 2.0, 40.0])).astype(dtype)
    same(lambda x, y: (cr.argsort(x, axis=0), cr.searchsorted(y, x)), x, rounded)


@pytest.mark.parametrize("n", [40, 400])
def test_what_stands_on_a_sort_and_its_gradients(n: int):
    x = RNG.normal(size=(3, n)).astype(np.float32)

    def f(x: Any) -> Any:
        def total(x: Any) -> Any:
            ys = (cr.sort(x, axis=0), cr.topk(x, 4)[0], cr.quantile(x, 0.3, axis=1), cr.median(x))
            return sum([(y * y * y).sum() for y in ys])

        return cr.grad(total)(x)

    g = cr.jit(f)
    np.testing.assert_allclose(g(cr.asarray(x)).numpy(), f(cr.asarray(x)).numpy(), rtol=1e-5)
    assert "eager" not in g.loops()


def test_what_is_sorted_may_be_a_view_or_computed():
    x = RNG.normal(size=(30, 150))
    same(lambda x: cr.argsort(x.T[::2, ::-1], axis=0), x)
    same(lambda x: cr.argsort(cr.sin(x)[:, 3:], axis=1), x)
    same(lambda x: cr.argsort(cr.argsort(x, axis=1), axis=1).T, x)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtypes", [("f8", "f8"), ("f4", "f8"), ("i8", "i8"), ("u2", "f4")])
def test_searching(side: Any, dtypes: tuple[str, str]):
    def f(*xs: Any) -> Any:
        return tuple([cr.searchsorted(x, xs[-1], side=side) for x in xs[:-1]])

    sorted_ = [np.sort(values((n,), dtypes[0])) for n in (0, 1, 2, 3, 7, 8, 9, 100)]
    same(f, *sorted_, values((5, 31), dtypes[1]))


def test_searching_in_what_is_not_sorted_with_indices_that_sort_it():
    x, v = RNG.normal(size=50), RNG.normal(size=9)
    same(lambda x, v: cr.searchsorted(x, v, sorter=cr.argsort(x)), x, v)
    same(lambda x, v: cr.searchsorted(cr.sort(x)[::2], v.reshape(3, 3)), x, v)


def test_sizes_that_are_not_known():
    def f(x: Any, v: Any) -> Any:
        return cr.argsort(x), cr.searchsorted(cr.sort(x), v, side="right")

    g = cr.jit(f, dynamic={0: {0: "N"}, 1: {1: "K"}})
    for n, k in ((5, 4), (600, 7), (2, 3), (64, 64), (63, 65)):
        x, v = cr.asarray(values((n,), "f8")), cr.asarray(values((2, k), "f8"))
        for a, b in zip(g(x, v), f(x, v), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert g.traces == 1
    assert "eager" not in g.loops()


def test_within_loops_and_for_many_examples():
    x = cr.asarray(RNG.normal(size=(4, 120)))

    def halved(x: Any) -> Any:
        return cr.while_loop(lambda s: s.sum() > 1, lambda s: cr.sort(s)[::-1] / 2, x * x)

    def each(x: Any) -> Any:
        return cr.argsort(x), cr.searchsorted(cr.sort(x), x[:5])

    def scanned(x: Any) -> Any:
        return cr.scan(lambda s, row: (cr.sort(s + row), cr.argsort(row)), x[0], x)

    for f in (halved, cr.vmap(each), scanned):
        got, want = cr.jit(f)(x), f(x)
        for a, b in zip(flatten(got)[0], flatten(want)[0], strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    g = cr.jit(halved)
    g(x)
    assert "while" in g.loops()
    assert "eager" not in g.loops()


@needs_compiler
def test_in_c(tmp_path: Path):
    x, y, z = (cr.tensor(values((n,), d)) for n, d in ((70, "f4"), (300, "f8"), (200, "i4")))

    def f(x: Any, y: Any, z: Any) -> Any:
        found = cr.argsort(x), cr.argsort(y, descending=True), cr.argsort(z)
        return (*found, cr.searchsorted(cr.sort(y), x), cr.topk(x, 5)[1])

    files = cr.jit(f).to_c(tmp_path / "sorted.c", x, y, z)
    want = [t.numpy() for t in f(x, y, z)]
    for a, b in zip(left(files.source, want), want, strict=True):
        np.testing.assert_array_equal(a, b)
