"""Logarithms of determinants that a loss is made of, measured.

A module that gives a value of its input's shape, and one number for each example, may say by how
much it stretches space there. If that is the logarithm of its Jacobian's determinant, or the
negative, its sign in the loss is known: a density falls where space is stretched, so that a loss
falls with that logarithm. If it is a sum of other numbers than those whose sum, over some of their
columns, is that logarithm, it was to be the sum of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast, final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from chainrule.verify.place import Place
from chainrule.verify.pytorch.door import unseen
from chainrule.verify.pytorch.modules import NOTHING, Listener
from chainrule.verify.script.sandbox.fork import in_copy
from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.links import Links
from chainrule.verify.script.step.record.tape import Entry, Slot
from chainrule.verify.script.step.spots import Spot, spots_at
from chainrule.verify.user_frames import Line, here, placed

_MOST, _DIMENSIONS = 16, 16
_NEAR = 1e-3
_COLUMNS, _VALUES, _ROWS = 8, 200, 8
_ADDS = {
    "add", "sub", "__add__", "__sub__", "__radd__", "stack", "sum", "view", "squeeze", "reshape",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of a module: its input, and the number for each example that it gave."""

    module: Any
    x: Tensor
    number: Tensor


@final
class Determinants(Listener):
    """Notes calls of such modules in the step that is recorded."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def enters(self, module: Any, inputs: tuple[Any, ...]) -> Any:
        """A copy of the input, if it is rows of few numbers."""
        x = inputs[0] if len(inputs) == 1 else None
        if not isinstance(x, Tensor) or len(self._calls) >= _MOST or not torch.is_grad_enabled():
            return NOTHING
        with unseen():
            fits = x.is_floating_point() and x.dim() == 2 and len(x) > 1
            return x.detach().clone() if fits and 1 < x.shape[1] <= _DIMENSIONS else NOTHING

    def leaves(self, module: Any, token: Any, output: Any) -> None:
        """Note the call, if it gave a value like its input and one number for each row."""
        rows = cast("tuple[Any, ...]", output) if isinstance(output, tuple) else ()
        if token is NOTHING or len(rows) != 2 or not all(isinstance(y, Tensor) for y in rows):
            return
        y, number = rows
        with unseen():
            fits = y.shape == token.shape and number.shape == token.shape[:1]
            if fits and number.requires_grad:
                self._calls.append(_Call(module, token, number))

    def spots(self, part: Slice, loss: Tensor) -> Iterator[Spot]:
        """Those whose sign in a loss is wrong."""
        calls, self._calls = self._calls, []
        if not calls or loss.numel() != 1:
            return
        signs = in_copy(lambda: [_signs(call, loss) for call in calls])
        links = Links(part)
        for call, (said, slope, columns) in zip(calls, signs, strict=True):
            slot: int | None = part.tape.slot(call.number)
            made = links.maker.get(slot) if slot is not None else None
            if slot is not None and columns and slope:
                yield from _other_columns(links, slot, columns)
            if slot is None or made is None or said * slope <= 0:
                continue
            entry = made if said < 0 else _taken_off(links, slot) or made
            is_own = "the negative of what" if said < 0 else "what"
            says = f"this is {is_own} the logarithm of its Jacobian's determinant was measured to "
            says += "be, and the loss grows with that logarithm, which it should fall with"
            advice = "turn the sign of the logarithm of the determinant"
            yield from spots_at("sign", entry, says, advice)


@final
class _Values(TorchDispatchMode):
    """Notes rows of few numbers that are computed, and the lines that do it."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.found: list[tuple[Tensor, Line | None]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        y = func(*args, **(kwargs or {}))
        rows = isinstance(y, Tensor) and y.dim() == 2 and y.is_floating_point()
        if rows and y.shape[1] <= _COLUMNS and len(self.found) < _VALUES:
            self.found.append((y.detach(), here()))
        return y


@dataclass(frozen=True)
class _Columns:
    """Columns of a value that add up to the logarithm, or to its negative."""

    chosen: tuple[int, ...]
    count: int
    place: Place | None


def _columns(values: _Values, found: Tensor) -> _Columns | None:
    """Where the logarithm is a sum over columns; of many rows no chance makes them agree."""
    near = _NEAR * (found - found.mean()).abs().max()
    if len(found) < _ROWS or not near > 0:
        return None
    for value, at in values.found:
        every = range(value.shape[1])
        for chosen in [c for n in every for c in combinations(every, n + 1)]:
            total = value[:, list(chosen)].sum(1)
            if len(total) == len(found) and any(
                bool(((s * total - found).abs() <= near).all()) for s in (1, -1)
            ):
                return _Columns(chosen, value.shape[1], placed(at))
    return None


def _other_columns(links: Links, slot: int, columns: _Columns) -> Iterator[Spot]:
    """The number is a sum, but not that one."""
    entry = links.made_by(slot, {"neg", "mul", "__mul__", "__rmul__"})
    if entry is None or entry.name not in ("sum", "mean"):
        return
    some = f"columns {list(columns.chosen)} of {columns.count}"
    which = "all columns" if len(columns.chosen) == columns.count else some
    says = "this is not the logarithm of its Jacobian's determinant, which was measured: that is "
    says += f"the sum over {which} of the value made at {columns.place}"
    yield from spots_at("wrong_value", entry, says, "sum the logarithms that the output is made of")


def _signs(call: _Call, loss: Tensor) -> tuple[int, int, _Columns | None]:
    """1 or -1 if a number is the logarithm of the determinant or the negative, 0 of anything else;
    the sign of the loss's derivative by it; of anything else, the columns that it should sum."""
    with torch.enable_grad():
        x = call.x.requires_grad_()
        with _Values() as values:
            y = call.module(x)[0]
        rows = [torch.autograd.grad(c.sum(), x, retain_graph=True)[0] for c in y.unbind(1)]
        found = torch.stack(rows, 1).det().abs().log()
        given: Any = torch.autograd.grad(loss, call.number, retain_graph=True, allow_unused=True)
        slope: Tensor | None = given[0]
    said = call.number.detach()
    scale = float(found.abs().max())
    if slope is None or not scale > _NEAR:
        return 0, 0, None
    sign = 1 if float((found - said).abs().max()) < _NEAR * (1 + scale) else 0
    sign -= float((found + said).abs().max()) < _NEAR * (1 + scale)
    way = 1 if bool((slope > 0).all()) else -1 if bool((slope < 0).all()) else 0
    even = way and float((slope - slope.mean()).abs().max()) <= _NEAR * float(slope.abs().max())
    return sign, way, _columns(values, found) if even and not sign else None


def _taken_off(links: Links, slot: int) -> Entry | None:
    """The call that takes off what a value is only added to before."""
    reached = {slot}
    for entry in links.entries:
        if not reached.isdisjoint(entry.inputs) and entry.name in _ADDS:
            last = entry.args[-1] if entry.args else None
            if (
                entry.name in ("sub", "__sub__")
                and isinstance(last, Slot)
                and last.number in reached
            ):
                return entry
            reached.update(entry.outputs)
    return None
