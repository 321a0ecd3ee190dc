"""Any function of tensors, or a module, with PyTorch's own derivative of it, as a subject."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chainrule.verify.ledger import Skipped
from chainrule.verify.place import Place
from chainrule.verify.pytorch.convert import Array, plain, tensor_like, to_numpy, to_torch
from chainrule.verify.pytorch.derivation import cuts_in, derivative
from chainrule.verify.pytorch.derivatives import Mode, derived, pulled
from chainrule.verify.pytorch.flat_arguments import (
    Call,
    call_of,
    coefficients_call,
    floats_in,
    module_call,
    wanted_arguments,
)
from chainrule.verify.pytorch.observing.function_calls import Capture, capturing
from chainrule.verify.pytorch.replays import Replay
from chainrule.verify.pytorch.sources import backward_of, source_of_function
from chainrule.verify.subject import Input, Source, Subject
from chainrule.verify.user_code import place_of

COLUMNS = 12
"""Forward mode takes one sweep for each number that goes in: where there are more, a few random
directions stand for them."""
_EACH = 2
_NESTED = 2
"""Forward mode inside forward mode is looked at once: each further level doubles its cost."""


def subject_of_call(
    f: Any, args: Sequence[Any], *, order: int = 1, mode: Mode = "reverse", name: str | None = None
) -> Subject:
    """`f(*args)` and PyTorch's derivative of it of order `order`.

    Order k compares the derivative of order k with differences of the one of order k - 1, so that
    the first order that is wrong is the one that is blamed. `mode` says which of PyTorch's ways is
    taken: "reverse" (autograd.grad), "func" (torch.func.vjp), "forward" (torch.func.jvp, nested).
    A gradient is expected for the float tensors that require one; if none does, for all.

    Raises `ConfigError` if there is nothing to differentiate.
    """
    call = _call(f, args)
    return _subject(replace(call, name=name or call.name), order, mode)


def subjects_of_call(
    f: Any, args: Sequence[Any], *, order: int = 1, skipped: list[Skipped] | None = None
) -> list[Subject]:
    """Functions that users define inside `f`; all orders up to `order`, by autograd; then by
    `torch.func`, in reverse and in forward mode, where PyTorch has it (real numbers only).

    The one that should be read first comes first. What is left out is noted in `skipped`.
    """
    left_out = [] if skipped is None else skipped
    call = replace(_call(f, args), replay=Replay.of(list(args)))
    inside, own = _functions_in(call)
    modes: list[Mode] = ["reverse"]
    if not own and not isinstance(f, torch.nn.Module):  # hooks are there for autograd
        modes.append("func")
        if not any(call.args[i].is_complex() for i in _moved(call)):
            modes.append("forward")
    most = {"reverse": order, "func": order, "forward": min(order, _NESTED)}
    subjects = [_subject(call, k, mode) for mode in modes for k in range(1, most[mode] + 1)]
    if most["forward"] > 1 and "forward" in modes:
        subjects.append(_subject(_with_zeros(call), most["forward"], "forward"))
    left_out += inside.skipped
    return [*inside.subjects(), *[s for s in subjects if _runs(s, left_out)]]


def _functions_in(call: Call) -> tuple[Capture, bool]:
    """Calls of user-defined `Function`s while `call` runs; whether there are any."""
    replay = call.replay or Replay.of(call.args)
    moved = _moved(call)
    args = [
        (x.detach().clone().requires_grad_(i in moved).clone() if isinstance(x, Tensor) else x)
        for i, x in enumerate(call.args)
    ]
    with capturing() as capture, torch.enable_grad(), replay.running(args), suppress(Exception):
        call.run(args)
    return capture, bool(capture.calls)


def _runs(subject: CallSubject, skipped: list[Skipped]) -> bool:
    """Whether PyTorch has this derivative; autograd's first is looked at in any case."""
    if subject.mode == "reverse" and subject.order == 1:
        return True
    xs = [x.value for x in subject.inputs]
    try:
        subject.pull(xs, [np.ones_like(y) for y in subject.forward(xs)])
    except Exception as error:
        why = f"PyTorch does not compute it: {error}".splitlines()[0]
        skipped.append(Skipped(subject.name, why[:200]))
        return False
    return True


def _call(f: Any, args: Sequence[Any]) -> Call:
    return module_call(f, args) if isinstance(f, torch.nn.Module) else call_of(f, args)


def _subject(call: Call, order: int, mode: Mode) -> CallSubject:
    moved = _moved(call)
    if mode == "forward" and sum([call.args[i].numel() for i in moved]) > COLUMNS:
        call = coefficients_call(call, moved, each=_EACH, name="directions")
    return CallSubject(call, order, mode)


def _with_zeros(call: Call) -> Call:
    """The call with every third element 0. Along fixed directions other points are not tried by
    themselves, and zeros are where nested derivatives are written wrongly."""
    args = list(call.args)
    for i in _moved(call):
        args[i] = args[i].detach().clone(memory_format=torch.contiguous_format)
        args[i].view(-1)[1::3] = 0
    return replace(call, args=tuple(args), name=f"{call.name} at zeros", replay=Replay.of(args))


def _moved(call: Call) -> list[int]:
    return [i for i, w in enumerate(wanted_arguments(call)) if w]


class CallSubject(Subject):
    """A call with one of PyTorch's derivatives of it. See `subject_of_call`."""

    def __init__(self, call: Call, order: int, mode: Mode) -> None:
        self.call, self.order = call, order
        self.mode: Mode = mode
        self._replay = call.replay or Replay.of(call.args)
        self.name = call.name + _suffix(order, mode)
        self.kind = call.kind if order == 1 and mode == "reverse" else "derivative in PyTorch"
        self.place, self.backward_place = call.place, call.backward_place
        if order > 1 and call.function is not None:  # what is differentiated is the backward
            self.place = place_of(getattr(call.function, backward_of(call.function)))
        want = wanted_arguments(call)
        self.inputs = tuple(
            [Input(n, plain(x), w) for n, x, w in zip(call.names, call.args, want, strict=True)]
        )
        self._sizes = {_shapes([x.value for x in self.inputs])}
        self._wanted = [i for i, w in enumerate(want) if w]
        self._hold = call.hold if order == 1 else None
        self._run = derived(call.run, self._wanted, mode, order - 1)

    @property
    def fixed(self) -> str:
        """Why no other shapes are tried."""
        return self.call.fixed

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """The derivative of the order below (the function itself for order 1)."""
        args = self._tensors(xs)
        with torch.enable_grad(), self._replay.running(args):  # It may differentiate inside.
            ys = self._run(args)
        found = tuple([to_numpy(y) for y in ys])
        self._fits(xs, found)
        return found

    def _fits(self, xs: Sequence[Any], ys: Sequence[Array]) -> None:
        """Raise what the derivative raises at sizes other than the captured ones: a function that
        holds tensors of its own does not fit there, even if its forward runs."""
        shapes = _shapes(xs)
        if shapes not in self._sizes:
            self.pull(xs, [np.ones_like(y) for y in ys])
            self._sizes.add(shapes)

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """PyTorch's derivative."""
        args, given = self._tensors(xs), [to_torch(g) for g in gs]
        with self._replay.running(args):
            found = pulled(self._again, args, self._wanted, self.mode, given, self._hold)
        out: list[Array | None] = [None] * len(xs)
        for i, b in zip(self._wanted, found, strict=True):
            out[i] = None if b is None else to_numpy(b)
        return tuple(out)

    def _again(self, args: Sequence[Any]) -> list[Tensor]:
        """A run from where random streams stood: forward mode takes several."""
        with self._replay.streams.replayed():
            return self._run(args)

    def derived(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """What PyTorch derives where the graph is whole; only for the first order."""
        if self.order > 1:
            return None
        wanted = [x.wanted for x in self.inputs]
        return derivative(self._run, self._tensors(xs), wanted, gs, self._replay)

    def cuts(self, xs: Sequence[Any]) -> tuple[Place, ...]:
        """The user's lines that take values off the graph of the first order."""
        wanted = [x.wanted for x in self.inputs]
        run = self.call.run
        return () if self.order > 1 else cuts_in(run, self._tensors(xs), wanted, self._replay)

    @property
    def source(self) -> Source | None:
        """The code of a user's backward, of which this is a derivative."""
        function = self.call.function
        if self.order == 1 or function is None:
            return None
        return source_of_function(function, self._changed)

    def _changed(self, function: Any) -> Subject:
        """The same of a function with other code."""

        def run(xs: Sequence[Any]) -> list[Tensor]:
            return floats_in(function.apply(*xs))

        changed = copy(self)
        changed.call = replace(self.call, function=function, run=run)
        changed._run = derived(run, self._wanted, self.mode, self.order - 1)
        return changed

    def _tensors(self, xs: Sequence[Any]) -> list[Any]:
        return [tensor_like(x, like) for x, like in zip(xs, self.call.args, strict=True)]


def _shapes(xs: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([getattr(x, "shape", None) for x in xs])


_WAYS: dict[Mode, str] = {
    "reverse": "",
    "func": " by torch.func",
    "forward": " in forward mode",
    "dual": ", its jvp",
}


def _suffix(order: int, mode: Mode) -> str:
    way = _WAYS[mode]
    if mode == "dual" or (order == 1 and not way):
        return way
    return f", derivative of order {order}{way}"
