"""Numbers that depend on sizes: the polynomial is found, exactly, or there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.compile.graph.array_patterns import Ratio
from chainrule.compile.graph.size_polynomials import (
    count_needed,
    fit_polynomial,
    number_fitted,
    samples_near,
)
from chainrule.compile.graph.sizes import size_at

SIZES = ((7, 5), (9, 3), (11, 13), (6, 8), (5, 10), (8, 21), (4, 9))
SAMPLES = [{"n": n, "m": m} for n, m in SIZES]
MONOMIALS = ("1", "n", "m", "n * n", "m * m", "n * m")


@given(st.lists(st.integers(-(10**6), 10**6), min_size=6, max_size=6))
def test_a_polynomial_is_found_at_sizes_that_it_was_not_made_of(coefficients: list[int]):
    terms = [f"{c} * {m}" for c, m in zip(coefficients, MONOMIALS, strict=True)]
    value = lambda s: eval(" + ".join(terms), {}, s)
    found = fit_polynomial([value(s) for s in SAMPLES], SAMPLES)
    other = {"n": 1234, "m": 77}
    assert found is not None and size_at(found, other) == value(other)


def test_large_numbers_are_exact():
    values = [(2**61 + 1) * s["n"] * s["n"] + 3 for s in SAMPLES]
    found = fit_polynomial(values, SAMPLES)
    assert found is not None and size_at(found, {"n": 2, "m": 0}) == 4 * (2**61 + 1) + 3


@pytest.mark.parametrize("value", ["n * n * n", "n // 2", "2 ** n", "n * n * m * m"])
def test_what_is_no_such_polynomial(value: str):
    values = [eval(value, {}, dict(s)) for s in SAMPLES]
    assert fit_polynomial(values, SAMPLES) is None


def test_sizes_that_go_together_do_not_tell_which():
    """The simplest polynomial is taken; where none is simplest, the first of those."""
    samples = [{"n": n} for n in (3, 5, 6, 8)]
    assert str(fit_polynomial([2 * s["n"] for s in samples], samples)) == "2*n"
    assert fit_polynomial([4, 4, 4, 4], samples) == 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_number_over_a_size(dtype: Any):
    values = [dtype(1 / 3) / dtype(s["n"]) for s in SAMPLES]
    found = number_fitted(values, SAMPLES, np.dtype(dtype))
    assert isinstance(found, Ratio) and found.over
    near = 4 * np.finfo(dtype).eps
    assert abs(found.scale - 1 / 3) <= near
    assert number_fitted([x + 1 for x in values], SAMPLES, np.dtype(dtype)) is None


def test_there_are_enough_samples_and_no_two_sizes_are_alike():
    now = {"n": 6, "m": 6}
    least, most = count_needed(2)
    found = samples_near(now, frozenset({1, 2, 7}), most)
    assert found[0] == now and len(found) >= most == 7 and least == 4
    assert all(x not in (1, 2, 7) for s in found[1:] for x in s.values())
