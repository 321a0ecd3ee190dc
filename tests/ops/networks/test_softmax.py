"""Softmax and its kin of large numbers: as exact as of small ones, whatever is added to all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr

X = np.array([[2.0, 2.0, 1.0, -3.0], [0.25, -1.5, 0.5, 0.0]])
CLASSES = cr.tensor([1, 2])
SHIFT = 2.0**20
"""X + SHIFT is exact in float32; its log-sum-exp has a digit behind the point there."""

KIN: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: cr.softmax(x),
    "log_softmax": lambda x: cr.log_softmax(x),
    "cross_entropy": lambda x: cr.cross_entropy(x, CLASSES),
    "smoothed": lambda x: cr.cross_entropy(x, CLASSES, label_smoothing=0.2),
    "logsumexp": lambda x: cr.logsumexp(x, axis=-1) - cr.max(x, axis=-1),
}


@pytest.mark.parametrize("how", [lambda f: f, cr.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", KIN)
def test_what_is_added_to_all_changes_nothing(name: str, how: Callable[..., Any]):
    f = KIN[name]

    def value_and_bar(x: Any) -> Any:
        y, pull = cr.vjp(f, x)
        g = np.linspace(0.5, 1.5, y.size).reshape(y.shape)
        return y, pull(cr.asarray(g.astype(y.dtype)))[0]

    far = how(value_and_bar)(cr.tensor((X + SHIFT).astype(np.float32)))
    near = value_and_bar(cr.tensor(X))
    for got, want in zip(far, near, strict=True):
        away = name == "logsumexp" and got is far[0]  # that is itself as large
        np.testing.assert_allclose(got.numpy(), want.numpy(), atol=0.1 if away else 3e-7)


def test_a_loss_of_two_equal_classes():
    x = cr.tensor([[1e8, 1e8]], requires_grad=True)
    loss = cr.cross_entropy(x, cr.tensor([0]))
    loss.backward()
    assert loss.item() == pytest.approx(np.log(2))
    assert x.grad is not None
    assert x.grad.tolist() == [[-0.5, 0.5]]
