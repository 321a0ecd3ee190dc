"""Gradients of gradients through functions that users define, and graphs that refuse `grad`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from chainrule import verify
from chainrule.verify.pytorch.observing.function_calls import capturing
from tests.sampling import sampled


class Cube(torch.autograd.Function):
    """Its backward reads what has a graph."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad_outputs[0] * 3 * x * x


class KeptCube(Cube):
    """Its backward reads a number that was computed by hand: right once, without a graph twice."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.slope = 3 * x.detach() ** 2
        return x**3

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return grad_outputs[0] * ctx.slope


class Penalty(torch.nn.Module):
    """A loss with the gradient's norm in it, as where critics are held to slope 1."""

    def __init__(self, function: type[torch.autograd.Function], *, penalised: bool = True) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.function, self.penalised = function, penalised

    def forward(self, x: Any) -> Any:
        x = x.detach().requires_grad_()
        y = self.function.apply(self.linear(x))
        if not self.penalised:
            return y.square().mean()
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.square().mean() + (slope.norm(dim=1) - 1).square().mean()


def model(function: type[torch.autograd.Function], **options: Any) -> Penalty:
    torch.manual_seed(0)
    return Penalty(function, **options)


@sampled(one_in=2)
@pytest.mark.parametrize(
    ("function", "options", "ok"),
    [(Cube, {}, True), (KeptCube, {"penalised": False}, True), (KeptCube, {}, False)],
    ids=["right", "not taken", "cut"],
)
def test_a_derivative_of_a_gradient_is_verified_where_a_program_takes_it(
    function: Any, options: dict[str, Any], ok: bool
) -> None:
    report = verify.model(model(function, **options), torch.randn(5, 4))
    assert report.ok is ok
    named = [c.subject for c in report.ledger.checked]
    assert (f"{function.__name__}, derivative of order 2" in named) is not (options != {})
    if not ok:
        first = report.findings[0]
        assert (first.name.code, first.input) == ("detached", "x")
        assert first.place is not None and "x.detach()" in first.place.text


def test_one_call_of_many_that_keeps_a_graph_is_enough() -> None:
    x = torch.randn(3, requires_grad=True)
    with capturing() as capture:
        Cube.apply(x).sum().backward()
        assert [len(call.subjects()) for call in capture.calls] == [1]
        torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    assert [len(call.subjects()) for call in capture.calls] == [2]


class WrongCube(Cube):
    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad_outputs[0] * 2 * x * x


class Recomputed(torch.nn.Module):
    """Its middle runs again in the backward pass."""

    def __init__(self, function: type[torch.autograd.Function], reentrant: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.function, self.reentrant = function, reentrant

    def forward(self, x: Any) -> Any:
        h = checkpoint(self.part, self.linear(x), use_reentrant=self.reentrant)
        return h.square().sum()

    def part(self, h: Any) -> Any:
        return torch.tanh(self.function.apply(h))


@sampled("function")
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("function", [Cube, WrongCube])
def test_a_reentrant_checkpoint_is_verified_as_any_other(function: Any, reentrant: bool) -> None:
    torch.manual_seed(0)
    network = Recomputed(function, reentrant)
    report = verify.model(network, torch.randn(5, 4))
    found = {(f.subject, f.name.code) for f in report.findings}
    assert found == (set() if function is Cube else {("WrongCube", "factor")})
    assert all(p.grad is None for p in network.parameters())


class Rounded(torch.autograd.Function):
    """A step, whose gradient is made up."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return grad_outputs[0]


def test_no_error_is_planted_in_a_gradient_that_is_not_compared() -> None:
    report = verify.function(Rounded, torch.randn(5, 4, dtype=torch.float64))
    assert report.ok and report.ledger.planted is None
    assert [f.name.code for f in report.findings] == ["straight_through"]
