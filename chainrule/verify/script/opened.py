"""How much of each parameter's gradient is lost at each cut: the step run again with cuts open.

Every cut value becomes a variable of its own, so that one backward pass tells both what the
parameters get as it is, and what would have come through each cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from chainrule.verify.pytorch.nested import tensors_in
from chainrule.verify.script.cuts import Cut, Slice
from chainrule.verify.script.entries import GRAD, Entry, Slot

_SMALL = 1 << 16


@dataclass(frozen=True)
class Lost:
    """For one cut: of each root what it gets past the cut, and what is lost there (norms)."""

    cut: int
    kept: Mapping[int, float]
    lost: Mapping[int, float]
    error: float
    """Of the gradient with all cuts open, along itself, against differences of the loss."""


class UnlikeError(RuntimeError):
    """Running the calls again gave another loss."""


def lost_at(part: Slice, cuts: Sequence[Cut], loss: Tensor) -> list[Lost]:
    """For each of `cuts` what is lost there; `loss` is what the script computed.

    Raises:
        UnlikeError: If the calls do not compute that loss again.
    """
    run = _Run(part, {i: n for n, cut in enumerate(cuts) for i in cut.entries})
    again = run.like(loss)
    return run.measured(again, len(cuts), _error(part, run.cut_of))


def values_of(part: Slice, loss: Tensor) -> dict[int, Tensor]:
    """By slot: values of the step run again, with a graph of their own.

    Raises:
        UnlikeError: If the calls do not compute that loss again.
    """
    run = _Run(part, {})
    run.like(loss)
    return run.values


class _Run:
    def __init__(self, part: Slice, cut_of: Mapping[int, int], splits: bool = True) -> None:
        self.part = part
        self.splits = splits
        self.cut_of = cut_of
        self.values: dict[int, Tensor] = {}
        self.roots: dict[int, Tensor] = {}
        self.edges: list[tuple[int, Tensor, Tensor]] = []
        """Number of the cut, the connected value, and the variable that goes on behind it."""
        self.behind: dict[int, int] = {}
        """Slots that calls of a cut have made, or calls of these alone, and the cut's number: one
        value is cut once."""

    def replayed(self, moved: Mapping[int, Tensor] | None = None) -> Tensor:
        """The loss, computed again, with its roots `moved` by so much."""
        for slot, t in self.part.tape.roots.items():
            by = (moved or {}).get(slot)
            value = t.detach() if by is None else t.detach() + by
            self.roots[slot] = value.requires_grad_()
            self.values[slot] = self.roots[slot]
        stream = torch.get_rng_state()
        try:
            for i, entry in zip(self.part.numbers, self.part.entries, strict=True):
                self._call(entry, self.cut_of.get(i))
        finally:
            torch.set_rng_state(stream)
        return self.values[self.part.loss]

    def like(self, loss: Tensor) -> Tensor:
        """The loss, computed again, which must be what the script computed."""
        again = self.replayed()
        if not torch.allclose(again.detach(), loss.detach(), rtol=1e-3, equal_nan=True):
            raise UnlikeError(f"the step run again gives {again.item():.6g}, not {loss.item():.6g}")
        return again

    def _call(self, entry: Entry, cut: int | None) -> None:
        local = dict(self.values) if cut is not None else self.values
        if cut is not None and self.splits and entry.name != GRAD:
            for slot in dict.fromkeys(entry.connected):
                if self.behind.get(slot) == cut:
                    continue
                leaf = self.values[slot].detach().clone().requires_grad_()
                self.edges.append((cut, self.values[slot], leaf))
                local[slot] = leaf.view_as(leaf)
        with torch.set_grad_enabled(cut is not None or not entry.cuts):
            made = made_by(entry, local, _opened(entry, cut))
        sources = {self.behind.get(slot) for slot in entry.inputs}
        behind = cut if cut is not None else sources.pop() if len(sources) == 1 else None
        for slot, t in zip(entry.outputs, made, strict=False):
            apart = cut is not None and self.splits and entry.name == GRAD
            self.values[slot] = self._behind(cut, t) if apart else t
            if behind is not None:
                self.behind[slot] = behind

    def _behind(self, cut: int | None, t: Tensor) -> Tensor:
        """What goes on behind a derivative: what it was taken of and by must stay connected."""
        if cut is None or not t.requires_grad:
            return t
        leaf = t.detach().clone().requires_grad_()
        self.edges.append((cut, t, leaf))
        return leaf.view_as(leaf)

    def measured(self, loss: Tensor, count: int, error: float) -> list[Lost]:
        """Gradients past the cuts, and through each."""
        leaves = [leaf for _, _, leaf in self.edges]
        found = _grads([loss], [torch.ones_like(loss)], [*self.roots.values(), *leaves])
        kept = _norms(self.roots, found[: len(self.roots)])
        bars = found[len(self.roots) :]
        out: list[Lost] = []
        for n in range(count):
            pairs = [
                (a, bar)
                for (cut, a, _), bar in zip(self.edges, bars, strict=True)
                if cut == n and bar is not None and a.requires_grad
            ]
            through = _grads([a for a, _ in pairs], [b for _, b in pairs], [*self.roots.values()])
            out.append(Lost(n, kept, _norms(self.roots, through), error))
        return out


def made_by(
    entry: Entry, values: Mapping[int, Tensor], function: Callable[..., Any] | None = None
) -> list[Tensor]:
    """What a call makes of other values, or another function in its place."""
    if entry.random is not None:
        torch.set_rng_state(entry.random)
    args, kwargs = _filled(entry.args, values), _filled(entry.kwargs, values)
    low = entry.autocast
    with nullcontext() if low is None else torch.autocast("cpu", dtype=low):
        out = (function or entry.function)(*args, **kwargs)
    return tensors_in(args)[:1] if out is None else tensors_in(out)


def _error(part: Slice, cut_of: Mapping[int, int]) -> float:
    """Relative error of the opened gradient: its length against the slope of the loss along it."""

    def loss(moved: Mapping[int, Tensor] | None = None) -> tuple[Tensor, _Run]:
        run = _Run(part, cut_of, splits=False)
        return run.replayed(moved), run

    value, run = loss()
    found = _grads([value], [torch.ones_like(value)], [*run.roots.values()])
    grads = dict(zip(run.roots, found, strict=True))
    given = {slot: g.detach() for slot, g in grads.items() if g is not None}
    length = sum([float(g.double().square().sum()) for g in given.values()]) ** 0.5
    size = sum([float(run.roots[s].detach().double().square().sum()) for s in given]) ** 0.5
    if not length or not size:
        return math.inf
    errors: list[float] = []
    for share in (1e-2, 1e-3):
        h = share * size
        ahead, _ = loss({s: g * (h / length) for s, g in given.items()})
        behind, _ = loss({s: g * (-h / length) for s, g in given.items()})
        slope = (float(ahead.detach()) - float(behind.detach())) / (2 * h)
        errors.append(abs(slope - length) / length)
    return min(errors)


def _opened(entry: Entry, cut: int | None) -> Callable[..., Any]:
    """The call, or what it would be if it did not cut."""
    if cut is not None and entry.name in ("detach", "data", "detach_", "tensor", "as_tensor"):
        return _passed
    if entry.name == GRAD:
        return partial(_derived, create=cut is not None or entry.is_live)
    return entry.function if entry.grad or entry.name != "normal" else _drawn


def _derived(
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


def _drawn(mean: Tensor, std: Tensor, **_: Any) -> Tensor:
    """The same numbers, as a function of mean and deviation."""
    return mean + std * torch.normal(torch.zeros_like(mean), torch.ones_like(std))


def _passed(x: Any, *_: Any, dtype: torch.dtype | None = None, **__: Any) -> Tensor:
    """A copy that keeps the graph; of lists of tensors and numbers, too."""
    if isinstance(x, tuple | list):
        parts = [_passed(part, dtype=dtype) for part in cast("Sequence[Any]", x)]
        return torch.stack(parts)
    copy = x.clone() if isinstance(x, Tensor) else torch.as_tensor(x)
    return copy if dtype is None else copy.to(dtype)


def _grads(
    ys: Sequence[Tensor], gs: Sequence[Tensor], xs: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    if not ys:
        return (None,) * len(xs)
    return torch.autograd.grad(ys, xs, gs, retain_graph=True, allow_unused=True)


def gradients(y: Tensor, xs: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Of a scalar; None for what it does not depend on."""
    return _grads([y], [torch.ones_like(y)], xs) if y.requires_grad else [None] * len(xs)


def _norms(roots: Mapping[int, Tensor], grads: Sequence[Tensor | None]) -> dict[int, float]:
    return {
        slot: 0.0 if g is None else float(g.detach().double().square().sum().sqrt())
        for slot, g in zip(roots, grads, strict=True)
    }


def _filled(x: Any, values: Mapping[int, Tensor]) -> Any:
    """Arguments with values in place of slots. Small constants are copied: calls may update them,
    as batch norm does its statistics."""
    if isinstance(x, Slot):
        return values[x.number]
    if isinstance(x, Tensor):
        return x.clone() if x.numel() <= _SMALL and not x.requires_grad else x
    if isinstance(x, tuple | list):
        items = [_filled(i, values) for i in cast("Sequence[Any]", x)]
        return items if isinstance(x, list) else tuple(items)
    if isinstance(x, dict):
        return {k: _filled(v, values) for k, v in cast("dict[Any, Any]", x).items()}
    return x
