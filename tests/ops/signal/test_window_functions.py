"""Window functions are PyTorch's, of every length, and draws of `multinomial` follow weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr

WINDOWS = ["hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"]


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_is_pytorchs(name: str, periodic: bool):
    torch: Any = pytest.importorskip("torch", reason="the oracle is PyTorch")
    for n in (0, 1, 2, 5, 8):
        got = getattr(cr, name)(n, periodic, dtype=np.float64)
        want = getattr(torch, name)(n, periodic, dtype=torch.float64).numpy()
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-13, atol=1e-15)
        assert getattr(cr, name)(n).dtype == np.float32


def test_multinomial_draws_by_weight():
    weights = cr.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 2.0]], requires_grad=True)
    drawn = cr.Generator(0).multinomial(weights, 4000, replacement=True).numpy()
    assert drawn.shape == (2, 4000) and drawn.dtype == np.int64
    shares = [np.bincount(row, minlength=3) / 4000 for row in drawn]
    np.testing.assert_allclose(shares, [[0.25, 0, 0.75], [0, 0.5, 0.5]], atol=0.03)
    once = cr.Generator(0).multinomial(weights, 2).numpy()
    assert np.sort(once, axis=1).tolist() == [[0, 2], [1, 2]]


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_multinomial_refuses_what_are_no_weights(weights: list[float]):
    with pytest.raises(cr.ConfigError, match="multinomial: weights are finite"):
        cr.Generator(0).multinomial(np.array(weights), 1)
    with pytest.raises(cr.ConfigError, match="3 different indices cannot be drawn of 2"):
        cr.Generator(0).multinomial(np.array([0.5, 1.5]), 3)
