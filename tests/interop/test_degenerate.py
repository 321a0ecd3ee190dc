"""Arrays without axes or elements, counts of 0, infinities: as NumPy and PyTorch have it."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import chainrule as cr
from chainrule.interop.numpy_table import FUNCTIONS, REDUCE

ARRAYS: dict[str, Any] = {
    "number": np.array(2.5), "whole number": np.array(3), "one": np.array([2.5]),
    "nothing": np.zeros(0), "no rows": np.zeros((0, 3)), "no columns": np.zeros((3, 0)),
    "equal": np.array([2.0, 2.0, 2.0]), "ties": np.array([3.0, 1.0, 3.0, 1.0]),
    "-inf": np.array([-np.inf, -np.inf]), "nan": np.array([np.nan, 1.0]),
}  # fmt: skip
REDUCING = [
    fn
    for fn in FUNCTIONS
    if fn.__name__
    in {
        *("sum", "prod", "mean", "var", "std", "max", "min", "ptp", "all", "any", "median"),
        *("count_nonzero", "argmax", "argmin", "nansum", "squeeze", "cumsum", "cumprod"),
    }
]


def answer(f: Any, *args: Any, **kwargs: Any) -> Any:
    """What f gives, as an array; None for an error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(f(*args, **kwargs))
        except (ValueError, TypeError, IndexError):
            return None


def same(got: Any, want: Any, what: str) -> None:
    assert (got is None) == (want is None), f"{what}: {got}, NumPy {want}"
    if want is not None:
        assert got.shape == want.shape, f"{what}: {got.shape}, NumPy {want.shape}"
        assert np.allclose(got, want, equal_nan=True), f"{what}: {got}, NumPy {want}"


@pytest.mark.parametrize("fn", REDUCING, ids=lambda f: f.__name__)
def test_reductions_are_numpys(fn: Any):
    tuples = "cum" not in fn.__name__ and "arg" not in fn.__name__
    for name, x in ARRAYS.items():
        for axis in (None, 0, -1, 1, *([(), (0,)] if tuples else [])):
            if fn.__name__ == "squeeze" and axis is None:
                continue
            if fn.__name__ == "median" and axis == () and not x.size:
                continue  # NumPy fails to reshape
            what = f"np.{fn.__name__}({name}, axis={axis})"
            same(answer(fn, cr.tensor(x), axis=axis), answer(fn, x, axis=axis), what)


@pytest.mark.parametrize("fn", REDUCE, ids=lambda f: f.__name__)
def test_ufuncs_reduce_numbers(fn: Any):
    for axis in (0, -1, None, ()):
        x = ARRAYS["number"]
        want = answer(fn.reduce, x, axis=axis)
        same(answer(fn.reduce, cr.tensor(x), axis=axis), want, f"{fn.__name__}, {axis}")


@pytest.mark.parametrize("name", ["var", "std"])
def test_corrections_that_use_the_count_up(name: str):
    for what, x in ARRAYS.items():
        for correction in (0, 0.5, 1, 2, 5):
            want = answer(getattr(np, name), x, ddof=correction)
            f = getattr(cr, name)
            some = [lambda x, f=f, c=correction: f(x, correction=c)]
            if what == "ties":
                some.append(cr.jit(some[0]))
            for run in some:
                same(answer(run, cr.tensor(x)), want, f"{name}({what}, correction={correction})")
            method = answer(getattr(np, name), cr.tensor(x), ddof=correction)
            same(method, want, f"np.{name}({what}, ddof={correction})")


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, np.inf, -np.inf, -1])
def test_norms_of_every_order(order: float):
    for what, x in ARRAYS.items():
        if x.ndim and x.dtype.kind == "f":
            for axis in (None, 0, -1):
                want = answer(np.linalg.vector_norm, x, axis=axis, ord=order)
                got = answer(lambda x, a=axis: cr.norm(x, axis=a, ord=order), cr.tensor(x))
                same(got, want, f"norm({what}, axis={axis})")


def test_eigenvectors_of_the_triangle_that_is_named():
    rng = np.random.default_rng(0)
    real, imaginary = rng.normal(size=(2, 4, 4)), rng.normal(size=(2, 4, 4))
    for a in (real, real + 1j * imaginary):
        for triangle in "LU":
            want = np.linalg.eigh(a, triangle)
            got = np.linalg.eigh(cr.tensor(a), triangle)
            compiled = cr.jit(lambda t, u=triangle: tuple(np.linalg.eigh(t, u)))(a)
            for x, y, z in zip(want, got, compiled, strict=True):
                assert np.array_equal(x, y.numpy())
                np.testing.assert_allclose(z.numpy(), x, atol=1e-12)


def test_powers_at_every_corner_are_pytorchs():
    corners = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, np.inf, -np.inf, np.nan])
    a, b = [v.reshape(-1) for v in np.meshgrid(corners, corners, indexing="ij")]
    ts = [torch.tensor(v, requires_grad=True) for v in (a, b)]
    y = torch.pow(*ts)
    want = [y.detach(), *torch.autograd.grad(y.sum(), ts)]

    def both(a: Any, b: Any) -> Any:
        y, pull = cr.vjp(cr.pow, a, b)
        return (y, *pull(cr.ones(y.shape, y.dtype)))

    for f in (both, cr.jit(both)):
        for got, right in zip(f(cr.tensor(a), cr.tensor(b)), want, strict=True):
            np.testing.assert_allclose(got.numpy(), right.numpy(), rtol=1e-12)


def test_the_names_are_still_there():
    assert len(REDUCING) == 18
    assert all("axis" in inspect.signature(fn).parameters for fn in REDUCING)
