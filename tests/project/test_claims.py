"""What the README says that PyTorch does, and what we do instead: each row of its table."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

import chainrule as cr

HERE = Path(__file__).resolve()


def test_the_branch_that_is_not_taken():
    theirs = torch.tensor([0.0, 4.0], requires_grad=True)
    torch.where(theirs > 0, torch.sqrt(theirs), torch.zeros(())).sum().backward()
    assert theirs.grad is not None
    assert theirs.grad.isnan().tolist() == [True, False]
    ours = cr.tensor([0.0, 4.0], requires_grad=True)
    cr.where(ours > 0, cr.sqrt(ours), 0.0).sum().backward()
    assert ours.grad is not None
    assert ours.grad.tolist() == [0.0, 0.25]


@pytest.mark.parametrize(("tensor", "lines"), [(torch.tensor, 0), (cr.tensor, 2)])
def test_a_second_backward(tensor: Any, lines: int):
    x = tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError) as caught:
        y.backward()
    assert str(caught.value).count(HERE.name) == lines


@pytest.mark.parametrize(
    ("take", "asked", "slope"),
    [(torch.from_numpy, torch.tensor, 100.0), (cr.asarray, cr.tensor, 1.0)],
)
def test_an_array_that_is_changed_under_a_graph(take: Any, asked: Any, slope: float):
    array = np.array([1.0, 1.0])
    w = asked(np.array([3.0, 3.0]), requires_grad=True)
    y = (w * take(array)).sum()
    array[:] = 100
    y.backward()
    assert w.grad.tolist() == [slope, slope]


def forgetful(base: Any, exp: Callable[[Any], Any]) -> Any:
    """An op x exp(x) whose backward reads exp(x) from where no graph sees it."""

    class Forgetful(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.e = exp(x)
            ctx.save_for_backward(x)
            return x * ctx.e

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * (ctx.e + x * ctx.e)

    return Forgetful


def test_the_second_derivative_of_a_careless_op():
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    op = forgetful(torch.autograd.Function, torch.exp)
    (first,) = torch.autograd.grad(op.apply(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert abs(first.item() - 2 * math.e) < 1e-12
    assert abs(second.item() - math.e) < 1e-12, "right is 3 e"
    ours = forgetful(cr.Function, cr.exp).apply
    assert abs(cr.grad(ours)(np.array(1.0)).item() - 2 * math.e) < 1e-12
    with pytest.raises(cr.GradientError, match=r"ctx\.e"):
        cr.grad(cr.grad(ours))(np.array(1.0))


def exponential(base: Any, exp: Callable[[Any], Any]) -> Any:
    """An op whose backward reads its result."""

    class Exponential(base):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (y,) = ctx.saved_tensors
            return g * y

    return Exponential


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # PyTorch uses it itself
def test_forward_mode_of_an_op_of_your_own():
    one = torch.tensor(1.0, dtype=torch.float64)
    op = exponential(torch.autograd.Function, torch.exp)
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="jvp"):
        op.apply(forward_ad.make_dual(one, one))
    ours = exponential(cr.Function, cr.exp).apply
    _, slope = cr.jvp(ours, (np.array(1.0),), (np.array(2.0),))
    assert abs(slope.item() - 2 * math.e) < 1e-12


def test_the_line_of_a_node():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    assert y.node.where == f"{__file__}:{line}"
