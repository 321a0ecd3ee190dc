"""Batch, group and instance normalisation: PyTorch's opinion, and the running statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.networks import normalization as norm
from tests.ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp

F = torch.nn.functional
X = generic(3, 4, 5)
W, B, MEAN = [generic(4, salt=i) for i in (1, 2, 3)]
VAR = generic(4, salt=4) ** 2 + 0.1

PAIRS = [
    Pair(
        "batch_norm training",
        lambda x, w, b: norm.batch_norm(x, None, None, w, b, training=True).y,
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        (X, W, B),
        1e-9,
    ),
    Pair(
        "batch_norm evaluation",
        lambda x, w, b: norm.batch_norm(x, MEAN, VAR, w, b).y,
        lambda x, w, b: F.batch_norm(x, torch.tensor(MEAN), torch.tensor(VAR), w, b),
        (X, W, B),
    ),
    Pair(
        "group_norm",
        lambda x, w, b: norm.group_norm(x, 2, w, b),
        lambda x, w, b: F.group_norm(x, 2, w, b),
        (X, W, B),
        1e-9,
    ),
    Pair(
        "instance_norm",
        lambda x, w, b: norm.instance_norm(x, w, b),
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        (generic(2, 4, 3, 3), W, B),
        1e-9,
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_agrees_with_torch(pair: Pair) -> None:
    value_and_vjp(pair)
    forward(pair)
    second_order(pair)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_running_statistics_agree_with_torch(dtype: Any) -> None:
    x, mean, var = [cr.tensor(a.astype(dtype)) for a in (X, MEAN, VAR)]
    theirs = [torch.tensor(a.astype(dtype)) for a in (X, MEAN, VAR)]
    want = F.batch_norm(*theirs, training=True, momentum=0.3)
    y, mean, var = norm.batch_norm(x, mean, var, training=True, momentum=0.3)
    for got, other in ((y, want), (mean, theirs[1]), (var, theirs[2])):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_running_statistics_have_no_gradient() -> None:
    x = cr.tensor(X, requires_grad=True)
    found = norm.batch_norm(x, cr.tensor(MEAN), cr.tensor(VAR), training=True)
    assert found.y.requires_grad
    assert not found.running_mean.requires_grad and not found.running_var.requires_grad
    kept = norm.batch_norm(x, MEAN, VAR)
    assert kept.running_mean is MEAN and kept.running_var is VAR


def test_messages_name_the_shapes() -> None:
    with pytest.raises(
        ShapeError, match=r"x \(3, 4, 5\) has 4 channels, so weight has shape \(4,\)"
    ):
        norm.group_norm(X, 2, generic(5))
    with pytest.raises(ShapeError, match=r"4 channels of x \(3, 4, 5\) in 3 groups"):
        norm.group_norm(X, 3)
    with pytest.raises(ConfigError, match="needs running_mean and running_var"):
        norm.batch_norm(X)
    with pytest.raises(ShapeError, match="training needs 2 elements a channel"):
        norm.batch_norm(generic(1, 4), training=True)
