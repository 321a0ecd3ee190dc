"""Accidents that are legal: errors in strict mode, with both lines."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule import optim
from chainrule.errors import GradientError, ShapeError
from chainrule.explain import strict
from tests.explain.lines import marked


def test_column_against_row():
    w = cr.tensor(np.ones((3, 1), np.float32), requires_grad=True)
    target = cr.tensor([1.0, 2.0, 3.0])
    with strict(), pytest.raises(ShapeError) as e:
        p = w * 2.0  # column
        ((p - target) ** 2).mean()  # loss
    assert str(e.value) == (
        "strict: 'sub' of shapes (3, 1) and (3,) gives (3, 3): both are repeated, at\n"
        f"    {marked(__file__, 'loss')}:  ((p - target) ** 2).mean()  # loss\n"
        f"    (3, 1): made by 'mul' at {marked(__file__, 'column')}:  p = w * 2.0  # column\n"
        "  If the elements belong together, reshape one to the shape of the other; if every pair "
        "is meant, write the axes out: reshape (3,) to (1, 3)."
    )


def test_ordinary_broadcasting_is_allowed():
    x = cr.tensor(np.ones((3, 4), np.float32), requires_grad=True)
    with strict():
        (x + cr.ones(4) + 1.0 + cr.ones((3, 1))).sum().backward()
        cr.ones((3, 1)) - cr.ones((1, 3))
        cr.ones((3, 1)) * cr.ones(1)
    assert (cr.ones((3, 1)) - cr.ones(3)).shape == (3, 3)  # strict is off again


def test_gradients_not_reset():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    with strict(), pytest.raises(GradientError) as e:
        (w * w).sum().backward()  # first
        optimizer.step()
        (w * w).sum().backward()  # second
    text = str(e.value)
    assert "was not reset: this backward, at" in text
    assert text.index(marked(__file__, "second")) < text.index(marked(__file__, "first"))
    assert "Call zero_grad() once every step" in text


def test_gradients_reset_or_accumulated_are_allowed():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    with strict():
        for _ in range(3):
            optimizer.zero_grad()
            for _ in range(2):
                (w * w).sum().backward()
            optimizer.step()
    assert w.grad is not None
    expected = np.array([1.0, 2.0]) * 0.6**3
    np.testing.assert_allclose(w.detach().numpy(), expected, rtol=1e-6)


def test_values_assigned_between_forward_and_backward_are_harmless():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    w.data = np.array([10.0, 20.0], np.float32)
    with strict():
        loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("loss", [cr.mse_loss, cr.binary_cross_entropy_with_logits])
def test_the_losses_refuse_it_always(loss):
    with pytest.raises(ShapeError) as e:
        loss(cr.ones((3, 1)), cr.ones(3))
    assert "(3, 1)" in str(e.value) and "(3,)" in str(e.value)
