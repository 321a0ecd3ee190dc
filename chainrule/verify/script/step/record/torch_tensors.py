"""PyTorch's tensors, as a step that is run again asks of them; numbers that leave, moved."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, cast, final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from chainrule.verify.pytorch import modes
from chainrule.verify.pytorch.door import unseen
from chainrule.verify.pytorch.nested_tensors import tensors_in
from chainrule.verify.script.step.cuts.moved_numbers import Moved, Trial
from chainrule.verify.script.step.cuts.reopened_cuts import Rerun
from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.record.tape import GRAD, Entry, Slot, Tape, with_things
from chainrule.verify.script.step.record.tensors import Exited, Tensors, Values
from chainrule.verify.script.step.record.torch_tape import EXITS

_SMALL = 1 << 16


def values_of(part: Slice, loss: Tensor) -> dict[int, Tensor]:
    """By slot: values of the step run again, with a graph of their own.

    Raises:
        UnlikeError: If the calls do not compute that loss again.
    """
    run = Rerun(part, TorchTensors(), {})
    run.confirm(loss)
    return run.values


@final
class TorchTensors(Tensors):
    """PyTorch's tensors."""

    def leaf(self, x: Any, by: Any = None) -> Any:
        """It shares memory with `x` if it is not moved."""
        value = x.detach() if by is None else x.detach() + by
        return value.requires_grad_()

    def sever(self, x: Any) -> tuple[Any, Any]:
        """A copy; calls are given a view of it, which they may write to."""
        leaf = x.detach().clone().requires_grad_()
        return leaf, leaf.view_as(leaf)

    @contextmanager
    def replaying(self) -> Generator[None]:
        """The random stream is put back."""
        stream = torch.get_rng_state()
        try:
            yield
        finally:
            torch.set_rng_state(stream)

    def call(self, entry: Entry, values: Mapping[int, Any], cut: int | None) -> list[Tensor]:
        """With autograd on or off, as it was."""
        with torch.set_grad_enabled(cut is not None or not entry.cuts):
            return call_again(entry, values, _open(entry, cut))

    def gradients(
        self, ys: Sequence[Any], gs: Sequence[Any] | None, xs: Sequence[Any]
    ) -> Sequence[Any]:
        """By `torch.autograd.grad`."""
        if not ys:
            return [None] * len(xs)
        gs = [torch.ones_like(y) for y in ys] if gs is None else gs
        return torch.autograd.grad(ys, xs, gs, retain_graph=True, allow_unused=True)

    def norm(self, x: Any) -> float:
        """In float64."""
        return float(x.detach().double().square().sum().sqrt())

    def scale(self, x: Any, by: float) -> Any:
        """Without a graph."""
        return x.detach() * by

    def number(self, x: Any) -> float:
        """As `float` gives it."""
        return float(x.detach())

    def has(self, x: Any) -> bool:
        """A tensor of floats."""
        return isinstance(x, Tensor) and x.dtype.is_floating_point

    def values(self, x: Any) -> Values:
        """In float64."""
        return x.detach().double().numpy().copy()

    def linear(
        self, x: Any, slope: Values, exits: Sequence[Exited], share: float
    ) -> tuple[Callable[..., Tensor], float]:
        """In the constant's own dtype."""
        value = torch.as_tensor(x).detach()
        way = torch.as_tensor(share * slope, dtype=value.dtype)

        def number(*now: Tensor) -> Tensor:
            pairs = zip(now, exits, strict=True)
            moved = [
                ((n - torch.as_tensor(row.x)) * torch.as_tensor(row.way)).sum() for n, row in pairs
            ]
            return value + way * sum(moved, torch.zeros(())).to(value.dtype)

        return number, torch.finfo(value.dtype).eps


def call_again(
    entry: Entry, values: Mapping[int, Tensor], function: Callable[..., Any] | None = None
) -> list[Tensor]:
    """What a call makes of other values, or another function in its place."""
    if entry.random is not None:
        torch.set_rng_state(entry.random)
    args, kwargs = _fill(entry.args, values), _fill(entry.kwargs, values)
    low = entry.autocast
    with nullcontext() if low is None else torch.autocast("cpu", dtype=low):
        out = (function or entry.function)(*args, **kwargs)
    return tensors_in(args)[:1] if out is None else tensors_in(out)


def _open(entry: Entry, cut: int | None) -> Callable[..., Any]:
    """The call, or what it would be if it did not cut."""
    if cut is not None and entry.name in ("detach", "data", "detach_", "tensor", "as_tensor"):
        return _pass_on
    if entry.name == GRAD:
        return partial(_derive, create=cut is not None or entry.is_live)
    is_draw = entry.name == "normal" and (cut is not None or not entry.grad)
    return _draw if is_draw else entry.function


def _derive(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    *_: Any,
    create: bool,
    **kwargs: Any,
) -> tuple[Tensor, ...]:
    """The derivative, of a graph that is needed again, with a graph of its own or without."""
    grad: Any = torch.autograd.grad
    kwargs |= {"retain_graph": True, "create_graph": create}
    return grad(outputs, inputs, grad_outputs, **kwargs)


def _draw(mean: Any, std: Any = 1.0, **kwargs: Any) -> Tensor:
    """The same numbers, as a function of mean and deviation, of which at least one is a tensor."""
    zeros, ones = torch.zeros_like(torch.as_tensor(mean)), torch.ones_like(torch.as_tensor(std))
    return mean + std * torch.normal(zeros, ones, **kwargs)


def _pass_on(x: Any, *_: Any, dtype: torch.dtype | None = None, **__: Any) -> Tensor:
    """A copy that keeps the graph; of lists of tensors and numbers, too."""
    if isinstance(x, tuple | list):
        parts = [_pass_on(part, dtype=dtype) for part in cast("Sequence[Any]", x)]
        return torch.stack(parts)
    copy = x.clone() if isinstance(x, Tensor) else torch.as_tensor(x)
    return copy if dtype is None else copy.to(dtype)


def _fill(x: Any, values: Mapping[int, Tensor]) -> Any:
    """Arguments with values in place of slots. Small constants are copied: calls may update them,
    as batch norm does its statistics."""

    def filled(x: Any) -> Any:
        if isinstance(x, Slot):
            return values[x.number]
        is_small = isinstance(x, Tensor) and x.numel() <= _SMALL and not x.requires_grad
        return x.clone() if is_small else x

    return with_things(x, filled)


@final
class _Moves(TorchFunctionMode):
    """Moves what leaves."""

    def __init__(self, moved: Moved) -> None:
        super().__init__()
        self._moved = moved

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The call; what leaves as a number, moved."""
        y = func(*args, **(kwargs or {}))
        exits = getattr(func, "__name__", "") in EXITS and args
        if not exits or not isinstance(args[0], Tensor):
            return y
        with unseen():
            return self._moved.on_exit(args[0], y)


def move(tape: Tape, trial: Trial) -> Moved:
    """What moves numbers from now on, in this copy of the process, if the trial says so."""
    made = Moved(tape, trial, TorchTensors())
    if trial.site:
        modes.push(_Moves(made))
    return made
