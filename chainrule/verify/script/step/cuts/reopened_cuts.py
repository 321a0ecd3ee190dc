"""How much of each parameter's gradient is lost at each cut: the step run again with cuts open.

Every cut value becomes a variable of its own, so that one backward pass tells both what the
parameters get as it is, and what would have come through each cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from chainrule.verify.script.step.cuts.slices import Cut, Slice
from chainrule.verify.script.step.record.tape import GRAD, Entry
from chainrule.verify.script.step.record.tensors import Tensors

_ALIKE = 1e-3
"""Relative difference that the loss of the step run again may have."""
_SHARES = (1e-2, 1e-3)
"""How far parameters are moved along a gradient, relative to their size."""


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


@final
class Rerun:
    """The calls that a loss depends on, made again.

    Args:
        part: What is run.
        tensors: How its calls are made.
        cut_of: By entry: the cut that it belongs to, which is open.
        splits: Whether what goes on behind an open cut is a variable of its own.
    """

    def __init__(
        self, part: Slice, tensors: Tensors, cut_of: Mapping[Entry, int], splits: bool = True
    ) -> None:
        self.part = part
        self.tensors = tensors
        self.splits = splits
        self.cut_of = cut_of
        self.values: dict[int, Any] = {}
        self.roots: dict[int, Any] = {}
        self.edges: list[tuple[int, Any, Any]] = []
        """Number of the cut, the connected value, and the variable that goes on behind it."""
        self.behind: dict[int, int] = {}
        """Slots that calls of a cut have made, or calls of these alone, and the cut's number: one
        value is cut once."""

    def replay(self, moved: Mapping[int, Any] | None = None) -> Any:
        """The loss, computed again, with its roots `moved` by so much."""
        for slot, t in self.part.tape.roots.items():
            self.roots[slot] = self.values[slot] = self.tensors.leaf(t, (moved or {}).get(slot))
        with self.tensors.replaying():
            for entry in self.part.entries:
                self._call(entry, self.cut_of.get(entry))
        return self.values[self.part.loss]

    def confirm(self, loss: Any) -> Any:
        """The loss, computed again, which must be what the script computed.

        Raises:
            UnlikeError: If it is another one.
        """
        again = self.replay()
        now, then = self.tensors.number(again), self.tensors.number(loss)
        both_nan = math.isnan(now) and math.isnan(then)
        if not both_nan and not math.isclose(now, then, rel_tol=_ALIKE, abs_tol=1e-8):
            raise UnlikeError(f"the step run again gives {now:.6g}, not {then:.6g}")
        return again

    def _call(self, entry: Entry, cut: int | None) -> None:
        """Run a call of the tape again, through a cut that is opened if there is one."""
        local = dict(self.values) if cut is not None else self.values
        if cut is not None and self.splits and entry.name != GRAD:
            for slot in dict.fromkeys(entry.connected):
                if self.behind.get(slot) == cut:
                    continue
                local[slot] = self._sever(cut, self.values[slot])
        made = self.tensors.call(entry, local, cut)
        sources = {self.behind.get(slot) for slot in entry.inputs}
        behind = cut if cut is not None else sources.pop() if len(sources) == 1 else None
        for slot, t in zip(entry.outputs, made, strict=False):
            # What a derivative was taken of and by must stay connected.
            derives = self.splits and entry.name == GRAD and t.requires_grad
            self.values[slot] = t if cut is None or not derives else self._sever(cut, t)
            if behind is not None:
                self.behind[slot] = behind

    def _sever(self, cut: int, t: Any) -> Any:
        """What goes on behind a cut in place of a connected value."""
        leaf, passed = self.tensors.sever(t)
        self.edges.append((cut, t, leaf))
        return passed

    def measure(self, loss: Any, count: int, error: float) -> list[Lost]:
        """Gradients past the cuts, and through each."""
        leaves = [leaf for _, _, leaf in self.edges]
        found = self.tensors.gradients([loss], None, [*self.roots.values(), *leaves])
        kept = self._norms(found[: len(self.roots)])
        bars = found[len(self.roots) :]
        out: list[Lost] = []
        for n in range(count):
            pairs = [
                (a, bar)
                for (cut, a, _), bar in zip(self.edges, bars, strict=True)
                if cut == n and bar is not None and a.requires_grad
            ]
            ys, gs = [a for a, _ in pairs], [b for _, b in pairs]
            through = self.tensors.gradients(ys, gs, [*self.roots.values()])
            out.append(Lost(n, kept, self._norms(through), error))
        return out

    def _norms(self, grads: Sequence[Any]) -> dict[int, float]:
        pairs = zip(self.roots, grads, strict=True)
        return {slot: 0.0 if g is None else self.tensors.norm(g) for slot, g in pairs}

    def error(self) -> float:
        """Relative error of the opened gradient: its length against the slope of the loss along
        it, from runs of their own."""
        tensors, (value, run) = self.tensors, self._move({})
        found = tensors.gradients([value], None, [*run.roots.values()])
        given = {slot: g for slot, g in zip(run.roots, found, strict=True) if g is not None}
        length = math.hypot(*[tensors.norm(g) for g in given.values()])
        size = math.hypot(*[tensors.norm(run.roots[s]) for s in given])
        if not length or not size:
            return math.inf
        errors: list[float] = []
        for h in [share * size for share in _SHARES]:
            scales = [by / length for by in (h, -h)]
            steps = [{s: tensors.scale(g, by) for s, g in given.items()} for by in scales]
            ahead, behind = [tensors.number(self._move(step)[0]) for step in steps]
            errors.append(abs((ahead - behind) / (2 * h) - length) / length)
        return min(errors)

    def _move(self, by: Mapping[int, Any]) -> tuple[Any, Rerun]:
        """The loss at other roots, with the cuts open, and the run that made it."""
        run = Rerun(self.part, self.tensors, self.cut_of, splits=False)
        return run.replay(by), run


def measure_cuts(tensors: Tensors, part: Slice, cuts: Sequence[Cut], loss: Any) -> list[Lost]:
    """For each of `cuts` what is lost there; `loss` is what the script computed.

    Raises:
        UnlikeError: If the calls do not compute that loss again.
    """
    run = Rerun(part, tensors, {e: n for n, cut in enumerate(cuts) for e in cut.entries})
    again = run.confirm(loss)
    return run.measure(again, len(cuts), run.error())
