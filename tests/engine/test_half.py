"""float16 by itself: sums of many terms in float32, norms without overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr

HALF = np.dtype(np.float16)
N = 10_000
ONES = np.ones((N, 1), np.float16)


def gradient(f: Any, x: Any) -> Any:
    t = cr.tensor(x, requires_grad=True)
    f(t).sum().backward()
    return t.grad


@pytest.mark.parametrize(
    ("what", "f"),
    [
        ("sum", lambda: cr.sum(cr.tensor(ONES))),
        ("matmul", lambda: cr.tensor(ONES.T) @ cr.tensor(ONES)),
        ("einsum", lambda: cr.einsum("ij,ik->jk", cr.tensor(ONES), cr.tensor(ONES))),
        ("cumulative_sum", lambda: cr.cumulative_sum(cr.tensor(ONES), axis=0)[-1]),
        (
            "gradient of a bias",
            lambda: gradient(
                lambda b: cr.tensor(np.repeat(ONES, 3, 1)) + b, np.ones(3, np.float16)
            ),
        ),
        (
            "gradient of an embedding",
            lambda: gradient(lambda w: cr.embedding(w, np.zeros(N, np.int64)), ONES[:1]),
        ),
        (
            "gradient of a layer's weight",
            lambda: gradient(lambda w: cr.linear(cr.tensor(ONES), w), ONES[:1]),
        ),
    ],
)
def test_long_sums_of_float16_are_exact(what: str, f: Any):
    assert np.float16(2048) + np.float16(1) == 2048  # what a sum in float16 would stop at
    y = f()
    assert y.dtype == HALF
    assert set(y.numpy().reshape(-1).tolist()) == {N}, what


def test_norms_softmax_and_losses_of_large_float16_numbers():
    x = np.linspace(-1000, 1000, 64).reshape(4, 16).astype(np.float16)
    t, wide = cr.tensor(x), cr.tensor(x.astype(np.float64))
    target = cr.tensor([3, 1, 0, 15])
    for f in (
        cr.layer_norm, cr.rms_norm, cr.softmax, cr.log_softmax,
        lambda v: cr.cross_entropy(v, target), lambda v: cr.norm(v, axis=1), cr.mean, cr.logsumexp,
    ):  # fmt: skip
        y = f(t)
        assert y.dtype == HALF
        assert np.allclose(y.numpy(), f(wide).numpy(), rtol=2e-3, atol=1e-3)
