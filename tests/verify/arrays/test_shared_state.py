"""What calls of a Function keep for their backwards they must not share.

By itself each of these is right: only a network that uses the function twice gets wrong gradients,
and so does one call between whose forward and backward another forward runs.
"""

from __future__ import annotations

import pytest
import torch

import chainrule as cr
from chainrule import verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


KEPT: list[torch.Tensor] = []
TABLES: dict[int, torch.Tensor] = {}
ROOMS: dict[object, torch.Tensor] = {}


class OneBuffer(torch.autograd.Function):
    """The mask of all calls lies in one array."""

    room = torch.empty(64, dtype=torch.float64)

    @staticmethod
    def forward(ctx, x):
        room = OneBuffer.room[: x.numel()].view(x.shape)
        ctx.mask = torch.sign(x, out=room)
        return x.abs()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.mask


class OnTheClass(torch.autograd.Function):
    """What is kept belongs to the class, not to the call."""

    @staticmethod
    def forward(ctx, x):
        OnTheClass.y = torch.tanh(x)
        return OnTheClass.y.clone()

    @staticmethod
    def backward(ctx, g):
        return g * (1 - OnTheClass.y**2)


class InAList(torch.autograd.Function):
    """Only what the last call kept is there."""

    @staticmethod
    def forward(ctx, x, w):
        KEPT[:] = [x.clone()]
        ctx.save_for_backward(w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return g @ w.T, KEPT[0].T @ g


class Right(torch.autograd.Function):
    """Shares a count and a table that depends on sizes only."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        Right.calls += 1
        n = x.shape[-1]
        table = TABLES.setdefault(n, torch.linspace(0.5, 2, n, dtype=torch.float64))
        ctx.save_for_backward(x)
        ctx.table = table.to(x.dtype)
        return ctx.table * x.square()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * ctx.table * x


class Ours(cr.Function):
    """The same as `OnTheClass`, in the engine's own words."""

    y = None

    @staticmethod
    def forward(ctx, x):
        Ours.y = cr.tanh(x)
        return Ours.y

    @staticmethod
    def backward(ctx, g):
        return g * (1 - Ours.y**2)


class OursRight(cr.Function):
    """Keeps its result for itself."""

    @staticmethod
    def forward(ctx, x):
        y = cr.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y**2)


def x(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(
    ("function", "args", "input"),
    [
        (OneBuffer, (x(3, 4),), "x"),
        (OnTheClass, (x(3, 4),), "x"),
        (InAList, (x(3, 4), x(4, 2)), "w"),
        (Ours, (x(3, 4).numpy(),), "x"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_calls_that_share_what_they_keep(function, args, input):
    report = verify.function(function, *args)
    found = [f for f in report.findings if f.level == "error"]
    (finding,) = found
    assert (finding.name.code, finding.input) == ("stale", input)
    assert "calls share what they keep" in finding.name.because


@pytest.mark.parametrize(("function", "arg"), [(Right, x(3, 4)), (OursRight, x(3, 4).numpy())])
def test_calls_may_share_what_does_not_depend_on_them(function, arg):
    report = verify.function(function, arg)
    assert report.ok, str(report)


class Scratch(torch.autograd.Function):
    """The slopes of all calls of one shape lie in one array."""

    @staticmethod
    def forward(ctx, x):
        room = ROOMS.setdefault((x.shape, x.dtype), torch.empty_like(x))
        ctx.slope = room.copy_(x.cos())
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope


def test_a_copy_of_a_shared_array_is_the_correction():
    (finding,) = verify.function(Scratch, x(3, 4)).findings
    assert finding.name.code == "stale"
    assert finding.correction is not None
    assert finding.correction.rechecked
    assert finding.correction.after.strip() == "ctx.slope = room.copy_(x.cos()).clone()"
    assert finding.place is not None
    assert finding.place.text == "ctx.slope = room.copy_(x.cos())"


STACK: list[torch.Tensor] = []
OWN_STACK: list[cr.Tensor] = []
QUEUE: list[torch.Tensor] = []


class Stacked(torch.autograd.Function):
    """Each call leaves an entry of its own on a stack; a sweep takes them off from the top."""

    @staticmethod
    def forward(ctx, x):
        STACK.append(torch.tanh(x))
        return STACK[-1].clone()

    @staticmethod
    def backward(ctx, g):
        return g * (1 - STACK.pop() ** 2)


class OursStacked(cr.Function):
    """The same, in the engine's own words."""

    @staticmethod
    def forward(ctx, x):
        OWN_STACK.append(cr.tanh(x))
        return OWN_STACK[-1]

    @staticmethod
    def backward(ctx, g):
        return g * (1 - OWN_STACK.pop() ** 2)


class Queued(torch.autograd.Function):
    """Entries that are taken from the wrong end: of two calls, each gets the other's."""

    @staticmethod
    def forward(ctx, x):
        QUEUE.append(torch.tanh(x))
        return QUEUE[-1].clone()

    @staticmethod
    def backward(ctx, g):
        return g * (1 - QUEUE.pop(0) ** 2)


@pytest.mark.parametrize(("function", "arg"), [(Stacked, x(3, 4)), (OursStacked, x(3, 4).numpy())])
def test_calls_may_stack_what_they_keep(function, arg):
    report = verify.function(function, arg)
    assert report.ok, str(report)


def test_calls_may_not_queue_what_they_keep():
    assert not verify.function(Queued, x(3, 4)).ok
