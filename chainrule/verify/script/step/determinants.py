"""Logarithms of determinants that a loss is made of, measured.

A module that gives a value of its input's shape, and one number for each example, may say by how
much it stretches space there. If that is the logarithm of its Jacobian's determinant, or the
negative, its sign in the loss is known: a density falls where space is stretched, so that a loss
falls with that logarithm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast, final

import torch
from torch import Tensor

from chainrule.verify.pytorch.door import unseen
from chainrule.verify.pytorch.modules import NOTHING, Listener
from chainrule.verify.script.sandbox.fork import in_copy
from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.links import Links
from chainrule.verify.script.step.record.tape import Entry, Slot
from chainrule.verify.script.step.spots import Spot, spots_at

_MOST, _DIMENSIONS = 16, 16
_NEAR = 1e-3
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
        for call, (said, slope) in zip(calls, signs, strict=True):
            slot: int | None = part.tape.slot(call.number)
            made = links.maker.get(slot) if slot is not None else None
            if slot is None or made is None or said * slope <= 0:
                continue
            entry = made if said < 0 else _taken_off(links, slot) or made
            is_own = "the negative of what" if said < 0 else "what"
            says = f"this is {is_own} the logarithm of its Jacobian's determinant was measured to "
            says += "be, and the loss grows with that logarithm, which it should fall with"
            advice = "turn the sign of the logarithm of the determinant"
            yield from spots_at("sign", entry, says, advice)


def _signs(call: _Call, loss: Tensor) -> tuple[int, int]:
    """1 or -1 if a number is the logarithm of the determinant or the negative, 0 of anything else;
    and the sign of the loss's derivative by it."""
    with torch.enable_grad():
        x = call.x.requires_grad_()
        y = call.module(x)[0]
        rows = [torch.autograd.grad(c.sum(), x, retain_graph=True)[0] for c in y.unbind(1)]
        found = torch.stack(rows, 1).det().abs().log()
        given: Any = torch.autograd.grad(loss, call.number, retain_graph=True, allow_unused=True)
        slope: Tensor | None = given[0]
    said = call.number.detach()
    scale = float(found.abs().max())
    if slope is None or not scale > _NEAR:
        return 0, 0
    sign = 1 if float((found - said).abs().max()) < _NEAR * (1 + scale) else 0
    sign -= float((found + said).abs().max()) < _NEAR * (1 + scale)
    return sign, 1 if bool((slope > 0).all()) else -1 if bool((slope < 0).all()) else 0


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
