"""The native mathematics against the eager engine: special values, exact functions, float32."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest

from chainrule.compile.mathlib.table import TABLE
from tests.compile.mathlib.lanes import native
from tests.compile.mathlib.mathcases import CASES
from tests.compile.mathlib.mathsamples import (
    APPROXIMATE,
    DTYPES,
    EXACT,
    arguments,
    arity,
    op_row,
    ordered,
    samples,
)


def special_values(dtype):
    info = np.finfo(dtype)
    plain = [0.0, 1.0, 0.5, 2.0, 3.0, 10.0, 100.0, 745.0, 1e4, 1e10, 1e30, 0.1, 1 / 3, 150.0]
    ends = [info.max, info.tiny, info.smallest_subnormal, info.tiny / 2, np.inf, 1 + info.eps]
    positive = np.array([*plain, *ends], dtype)
    return np.concatenate([positive, -positive, np.array([np.nan], dtype)])


def with_bits(x):
    """The bits of floats, all NaNs as one."""
    return np.where(np.isnan(x), x.dtype.type(np.nan), x).view(f"u{x.dtype.itemsize}")


def eager(name, *xs):
    order = ordered(name)
    with np.errstate(all="ignore"):
        return np.asarray(op_row(name).fn(*([int(order[1])] if order else []), *xs))


def outside_scipy(name, x, expected):
    """Where SciPy has another result than the nearest number: by log(1 / x) of the least numbers,
    where the routine for any order gives up or underflows, and half of the smallest number rounded
    up (by the eager form of gelu_erf too)."""
    info = np.finfo(x.dtype)
    match name:
        case "lgamma":
            return np.isinf(expected) & (np.abs(x) < info.tiny) & (x != 0)
        case "iv2" | "ive2":
            return np.isnan(expected) & ~np.isnan(x)
        case _ if name.startswith("spherical"):
            lost = (name == "spherical_jn1") & (np.abs(x) <= info.tiny)
            return (np.isnan(expected) & ~np.isnan(x)) | lost
        case "i1" | "i1e" | "gelu_erf":
            return np.abs(x) == info.smallest_subnormal
        case _:
            return np.zeros(x.shape, bool)


def pairs(values):
    both = np.array(list(itertools.product(values, values)), values.dtype)
    return [both[:, 0].copy(), both[:, 1].copy()]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(TABLE))
def test_special_values_are_those_of_the_eager_engine(name, dtype):
    """Where either result is a zero, an infinity or a NaN, both are the same one, sign included."""
    values = special_values(dtype)
    xs = pairs(values) if arity(name) == 2 else [values]
    y, expected = native(name, dtype, arity(name), 8)(*xs), eager(name, *xs)
    # The eager forms lose all digits where 1 + tanh cancels, or where a factor underflows before
    # the result does.
    limit = np.finfo(dtype).eps if name == "gelu_tanh" else 400 * np.finfo(dtype).tiny
    lost = (expected == 0) & (y != 0) & (np.abs(y) < limit)
    special_ = ~np.isfinite(y) | ~np.isfinite(expected) | (y == 0) | (expected == 0)
    special_ &= ~(lost & (name in {"sigmoid", "silu", "gelu_tanh", "gelu_erf"}))
    special_ &= ~outside_scipy(name, xs[0], expected)
    different = special_ & (with_bits(y) != with_bits(expected))
    assert not different.any(), [(*(x[different][:3] for x in xs), y[different][:3])]
    assert special_.sum() >= 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions_agree_with_numpy_in_every_bit(name, dtype):
    many = [samples("cbrt", dtype, 3000, s) for s in range(2)]
    for xs in (pairs(special_values(dtype)), many):
        y = native(name, dtype, arity(name), 8)(*xs[: arity(name)])
        np.testing.assert_array_equal(with_bits(y), with_bits(eager(name, *xs[: arity(name)])))


CROSSING = {"silu_slope", "gelu_tanh_slope", "gelu_erf_slope"}
"""Sums of parts of both signs: near where they are 0 an error is one of the parts."""


def sizes_of_parts(name, x):
    if name not in CROSSING:
        return np.zeros(x.shape)
    return np.array([float(CASES[name].floor(mp.mpf(v))) for v in x.tolist()])


@pytest.mark.parametrize("name", APPROXIMATE)
def test_float32_of_any_size_is_near_the_eager_result(name):
    """Another implementation of everything: NumPy's or SciPy's, itself right to some ulp."""
    xs = arguments(name, np.float32, 4000, seed=11)
    y = native(name, np.float32, arity(name), 8)(*xs)
    expected = eager(name, *(x.astype(np.float64) for x in xs))
    if name == "exp_diff":
        expected = np.exp(np.subtract(*xs).astype(np.float64))
    with np.errstate(all="ignore"):
        expected = expected.astype(np.float32)
    expected = np.where(outside_scipy(name, xs[0], expected), y, expected)
    if name == "gelu_tanh":  # the eager form cancels far to the left
        expected = np.where(xs[0] < -1, y, expected)
    atol = np.maximum(1e-44, 5e-7 * sizes_of_parts(name, xs[0]))
    different = ~np.isclose(y, expected, rtol=5e-7, atol=atol, equal_nan=True)
    assert not different.any(), [(*(x[different][:3] for x in xs), y[different][:3])]
