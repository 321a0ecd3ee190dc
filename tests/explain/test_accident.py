"""A column minus a row in a loss: a warning without being asked for, with both lines."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import BroadcastWarning, ShapeError
from tests.explain.lines import marked


@pytest.fixture
def w() -> cr.Tensor:
    return cr.tensor(np.ones((3, 1), np.float32), requires_grad=True)


def test_a_loss_that_is_written_out(w):
    target = cr.tensor([1.0, 2.0, 3.0])
    p = w * 2.0  # column
    with pytest.warns(BroadcastWarning) as seen:
        ((p - target) ** 2).mean()  # loss
    assert f"{seen[0].filename}:{seen[0].lineno}" == marked(__file__, "loss")
    assert str(seen[0].message) == (
        "the difference of shapes (3, 1) and (3,) is (3, 3), of every element with every other "
        "one, and is summed in a loss: reshape one to the shape of the other. (3, 1) was made at "
        f"{marked(__file__, 'column')}"
    )
    with pytest.warns(BroadcastWarning, match=r"shapes \(3,\) and \(3, 1\)"):
        cr.abs(target - p).sum()


def test_what_is_meant_is_not_warned_of(w):
    points = w.reshape(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ((w - cr.ones((3, 1))) ** 2).mean()
        ((w - points) ** 2).sum()  # every pair of points: both are trained
        (w - cr.ones((1, 3))).sum()  # with its axes written out
        (w @ w.mT).sum()


@pytest.mark.parametrize("loss", [cr.mse_loss, cr.binary_cross_entropy_with_logits])
def test_the_losses_name_the_lines(loss, w):
    p = w * 2.0  # prediction
    with pytest.raises(ShapeError) as e:
        loss(p, cr.ones(3))
    made = marked(__file__, "prediction")
    assert f"the shapes (3, 1) (made at {made}), (3,) differ; reshape one" in str(e.value)
