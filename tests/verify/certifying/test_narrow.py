"""float32 within a float64 backward is told with its line; what only names a dtype is not."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule import verify

rng = np.random.default_rng(0)
X, W = rng.normal(size=(5, 4)), rng.normal(size=(4, 3))


def forward(x, w):
    return np.tanh(x @ w)


def of_slope(g, x, w):
    y = np.tanh(x @ w)
    slope = (1 - y * y).astype(np.float32)
    d = g * slope
    return d @ w.T, x.T @ d


def of_cotangent(g, x, w):
    y = np.tanh(x @ w)
    g = g.astype("float32").astype(np.float64)
    d = g * (1 - y * y)
    return d @ w.T, x.T @ d


def of_sums(g, x, w):
    y = np.tanh(x @ w)
    d = g * (1 - y * y)
    return d @ w.T, np.matmul(x.T, d, dtype=np.float32, casting="same_kind")


def of_a_mask(g, x, w):
    y = np.tanh(x @ w)
    keep = (np.abs(y) < 2).astype(np.float32)
    d = g * (1 - y * y) * keep
    return d @ w.T, x.T @ d


def in_its_own_dtype(g, x, w):
    dtype = np.float32 if x.dtype == np.float32 else np.float64
    y = np.tanh(x @ w)
    d = (g * (1 - y * y)).astype(dtype)
    return d @ w.T, x.T @ d


@pytest.mark.parametrize("backward", [of_slope, of_cotangent, of_sums], ids=lambda f: f.__name__)
def test_few_digits_are_told(backward):
    found = [f for f in verify.pair(forward, backward, X, W).findings if f.level != "note"]
    assert [f.name.code for f in found] == ["precision"]
    assert "computed in float32" in found[0].name.because
    assert "float32" in found[0].place.text
    assert 1e-9 < found[0].error < 1e-6


@pytest.mark.parametrize("backward", [of_a_mask, in_its_own_dtype], ids=lambda f: f.__name__)
def test_what_has_all_its_digits_is_fine(backward):
    assert verify.pair(forward, backward, X, W).ok


def test_a_program_in_float32_has_no_other_digits():
    xs = X.astype(np.float32), W.astype(np.float32)
    assert verify.pair(forward, of_slope, *xs).ok
