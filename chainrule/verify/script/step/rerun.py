"""How much of each parameter's gradient is lost at each cut: the step run again with cuts open.

Every cut value becomes a variable of its own, so that one backward pass tells both what the
parameters get as it is, and what would have come through each cut.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from chainrule.verify.script.step.cuts import Cut, Slice
from chainrule.verify.script.step.entries import GRAD, Entry

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


class Rerun(abc.ABC):
    """The calls that a loss depends on, made again; what is asked of a library's tensors is left
    open here.

    Args:
        part: What is run.
        cut_of: By number of an entry: the cut that it belongs to, which is open.
        splits: Whether what goes on behind an open cut is a variable of its own.
    """

    def __init__(self, part: Slice, cut_of: Mapping[int, int], splits: bool = True) -> None:
        self.part = part
        self.splits = splits
        self.cut_of = cut_of
        self.values: dict[int, Any] = {}
        self.roots: dict[int, Any] = {}
        self.edges: list[tuple[int, Any, Any]] = []
        """Number of the cut, the connected value, and the variable that goes on behind it."""
        self.behind: dict[int, int] = {}
        """Slots that calls of a cut have made, or calls of these alone, and the cut's number: one
        value is cut once."""

    @abc.abstractmethod
    def leaf(self, x: Any, by: Any = None) -> Any:
        """A variable of its own with the value of `x`, moved `by` so much."""

    @abc.abstractmethod
    def severed(self, x: Any) -> Any:
        """A leaf with the value of `x` that shares no memory with it."""

    @abc.abstractmethod
    def passed(self, leaf: Any) -> Any:
        """What calls are given in place of a leaf."""

    @abc.abstractmethod
    def made(self, entry: Entry, values: Mapping[int, Any], cut: int | None) -> Sequence[Any]:
        """What a call makes of values; it is open if it belongs to a cut."""

    @abc.abstractmethod
    def grads(
        self, ys: Sequence[Any], gs: Sequence[Any] | None, xs: Sequence[Any]
    ) -> Sequence[Any]:
        """Gradients of `ys`, whose own are `gs` (of one number, 1); None for what they do not
        depend on."""

    @abc.abstractmethod
    def norm(self, x: Any) -> float:
        """Euclidean norm of a tensor."""

    @abc.abstractmethod
    def scaled(self, x: Any, by: float) -> Any:
        """A gradient, multiplied."""

    @abc.abstractmethod
    def number(self, x: Any) -> float:
        """The one number in a tensor."""

    def replayed(self, moved: Mapping[int, Any] | None = None) -> Any:
        """The loss, computed again, with its roots `moved` by so much."""
        for slot, t in self.part.tape.roots.items():
            self.roots[slot] = self.values[slot] = self.leaf(t, (moved or {}).get(slot))
        for i, entry in zip(self.part.numbers, self.part.entries, strict=True):
            self._call(entry, self.cut_of.get(i))
        return self.values[self.part.loss]

    def like(self, loss: Any) -> Any:
        """The loss, computed again, which must be what the script computed.

        Raises:
            UnlikeError: If it is another one.
        """
        again = self.replayed()
        now, then = self.number(again), self.number(loss)
        both_nan = math.isnan(now) and math.isnan(then)
        if not both_nan and not math.isclose(now, then, rel_tol=_ALIKE, abs_tol=1e-8):
            raise UnlikeError(f"the step run again gives {now:.6g}, not {then:.6g}")
        return again

    def _call(self, entry: Entry, cut: int | None) -> None:
        local = dict(self.values) if cut is not None else self.values
        if cut is not None and self.splits and entry.name != GRAD:
            for slot in dict.fromkeys(entry.connected):
                if self.behind.get(slot) == cut:
                    continue
                leaf = self.severed(self.values[slot])
                self.edges.append((cut, self.values[slot], leaf))
                local[slot] = self.passed(leaf)
        made = self.made(entry, local, cut)
        sources = {self.behind.get(slot) for slot in entry.inputs}
        behind = cut if cut is not None else sources.pop() if len(sources) == 1 else None
        for slot, t in zip(entry.outputs, made, strict=False):
            apart = cut is not None and self.splits and entry.name == GRAD
            self.values[slot] = self._behind(cut, t) if apart else t
            if behind is not None:
                self.behind[slot] = behind

    def _behind(self, cut: int | None, t: Any) -> Any:
        """What goes on behind a derivative: what it was taken of and by must stay connected."""
        if cut is None or not t.requires_grad:
            return t
        leaf = self.severed(t)
        self.edges.append((cut, t, leaf))
        return self.passed(leaf)

    def measured(self, loss: Any, count: int, error: float) -> list[Lost]:
        """Gradients past the cuts, and through each."""
        leaves = [leaf for _, _, leaf in self.edges]
        found = self.grads([loss], None, [*self.roots.values(), *leaves])
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
            through = self.grads(ys, gs, [*self.roots.values()])
            out.append(Lost(n, kept, self._norms(through), error))
        return out

    def _norms(self, grads: Sequence[Any]) -> dict[int, float]:
        pairs = zip(self.roots, grads, strict=True)
        return {slot: 0.0 if g is None else self.norm(g) for slot, g in pairs}

    def error(self) -> float:
        """Relative error of the opened gradient: its length against the slope of the loss along
        it, from runs of their own."""
        value, run = self._moved({})
        found = self.grads([value], None, [*run.roots.values()])
        given = {slot: g for slot, g in zip(run.roots, found, strict=True) if g is not None}
        length = math.hypot(*[self.norm(g) for g in given.values()])
        size = math.hypot(*[self.norm(run.roots[s]) for s in given])
        if not length or not size:
            return math.inf
        errors: list[float] = []
        for h in [share * size for share in _SHARES]:
            steps = [{s: self.scaled(g, by / length) for s, g in given.items()} for by in (h, -h)]
            ahead, behind = [self.number(self._moved(step)[0]) for step in steps]
            errors.append(abs((ahead - behind) / (2 * h) - length) / length)
        return min(errors)

    def _moved(self, by: Mapping[int, Any]) -> tuple[Any, Self]:
        """The loss at other roots, with the cuts open, and the run that made it."""
        run = type(self)(self.part, self.cut_of, splits=False)
        return run.replayed(by), run


def lost_in(kind: type[Rerun], part: Slice, cuts: Sequence[Cut], loss: Any) -> list[Lost]:
    """For each of `cuts` what is lost there; `loss` is what the script computed.

    Raises:
        UnlikeError: If the calls do not compute that loss again.
    """
    run = kind(part, {i: n for n, cut in enumerate(cuts) for i in cut.entries})
    again = run.like(loss)
    return run.measured(again, len(cuts), run.error())
