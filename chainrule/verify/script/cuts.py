"""Where the way from parameters to the loss is cut, and what a cut is there for.

A cut on the way is no mistake by itself: targets, weights and stopped gradients are cut on purpose.
What tells them apart is where the value goes: into the loss only, or back into the network, where
parameters act on it together with values that are connected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from chainrule.verify.place import Place
from chainrule.verify.script.entries import GRAD, NUMBER, Calls, Entry, Slot
from chainrule.verify.script.regions import switched_off
from chainrule.verify.where import is_library, users_line

STEPS = {"round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "frac", "fix"}
"""Calls whose float result is flat almost everywhere."""
AFFINE = {
    "add", "sub", "neg", "sum", "mean", "__radd__", "__rsub__", "__add__", "__sub__", "add_",
    "sub_", "reshape", "view", "squeeze", "unsqueeze", "stack", "cat", "to", "float", "double",
    "clone", "detach", "data", "concat", "astype", "permute_dims", "broadcast_to", "sum_to",
}  # fmt: skip
"""Calls that add their arguments, or pass them on."""
ELEMENTWISE = AFFINE - {"sum", "mean", "stack", "cat", "concat", "sum_to", "detach", "data"}
"""Those of them that keep each element to itself."""
ALIKE = {"detach", "detach_", "data", "tensor", "as_tensor", "clone"}
"""Calls that give the values that they are given."""
SILENT = ("tensor", "number")
"""Kinds of cuts that do not say that they cut."""
SCALING = {"mul", "div", "__rmul__", "__mul__", "__truediv__", "mul_", "div_", "true_divide"}


@dataclass(eq=False)
class Cut:
    """All cuts of one kind at one line of the user's."""

    kind: str
    """`detach`, `data`, `tensor`, `grad` for derivatives, `number` for values that left as numbers,
    `no_grad` for calls while autograd was off, or `draw` for a library's draw of normal numbers
    while it had switched it off.
    """
    place: Place
    entries: list[int]
    """Numbers of the entries."""


class Slice:
    """The part of a tape that a loss depends on."""

    def __init__(self, tape: Calls, loss: int) -> None:
        self.tape = tape
        self.loss = loss
        self.numbers = _upstream(tape, loss)

    @property
    def entries(self) -> list[Entry]:
        """In order."""
        return [self.tape.entries[i] for i in self.numbers]

    @cached_property
    def used(self) -> set[int]:
        """Slots whose graph a backward pass from the loss goes through, and frees."""
        live = _upstream(self.tape, self.loss, _live)
        return {s for i in live for s in self.tape.entries[i].outputs}

    @cached_property
    def cuts(self) -> list[Cut]:
        """The user's own cuts, by line."""
        found: dict[tuple[str, str], Cut] = {}
        draws = [e for e in self.entries if e.name == "normal" and not e.grad]
        drawn = {s for e in draws for s in e.inputs}
        for i in self.numbers:
            entry = self.tape.entries[i]
            kind = _kind(entry, drawn) if entry.cuts else ""
            place = _place(entry, kind)
            if place is not None:
                cut = found.setdefault((kind, str(place)), Cut(kind, place, []))
                cut.entries.append(i)
        numbers = [c for c in found.values() if c.kind == "number"]
        return [self._joined(c, found) for c in numbers] or list(found.values())

    def _joined(self, number: Cut, cuts: Mapping[Any, Cut]) -> Cut:
        """The cut at which values leave as numbers, with what cut them off before: one cut, which
        is that of `no_grad` or of a draw if it was one of these."""
        above = set(self.above(number))
        before = [c for c in cuts.values() if any(self.tape.entries[i] in above for i in c.entries)]
        entries = [i for c in before for i in c.entries if self.tape.entries[i] in above]
        said = [c for c in before if c.kind in ("no_grad", "draw")]
        meant = said[0] if said else number
        return Cut(meant.kind, meant.place, sorted({*entries, *number.entries}))

    def below(self, starts: Sequence[int]) -> set[int]:
        """Slots that depend on the results of the entries `starts`."""
        reached = {s for i in starts for s in self.tape.entries[i].outputs}
        for i in self.numbers:
            entry = self.tape.entries[i]
            if i > min(starts) and reached.intersection(entry.inputs):
                reached.update(entry.outputs)
        return reached

    def above(self, cut: Cut) -> list[Entry]:
        """Entries that the cut values come from."""
        need = {s for i in cut.entries for s in self.tape.entries[i].inputs}
        found: list[Entry] = []
        for i in reversed(self.numbers):
            entry = self.tape.entries[i]
            if i < max(cut.entries) and need.intersection(entry.outputs):
                found.append(entry)
                need.update(entry.inputs)
        return found

    def is_step(self, cut: Cut) -> bool:
        """Whether a step function lies before the cut, or is cut: its slope is made up then.

        What is copied without a word on its graph makes up nothing: it counts if all ways lead
        over steps.
        """
        if cut.kind in SILENT:
            return not self._smooth.intersection(
                [s for i in cut.entries for s in self.tape.entries[i].inputs]
            )
        before = [*self.above(cut), *[self.tape.entries[i] for i in cut.entries]]
        return any(not e.is_float or e.name in STEPS for e in before)

    @cached_property
    def _smooth(self) -> set[int]:
        """Slots that come from roots by a way without steps."""
        found = set(self.tape.roots)
        for entry in self.entries:
            if entry.is_float and entry.name not in STEPS and found.intersection(entry.inputs):
                found.update(entry.outputs)
        return found

    def is_bare(self, cut: Cut) -> bool:
        """Whether a parameter itself is cut off, where targets and weights are computed values."""
        slots = {s for i in cut.entries for s in self.tape.entries[i].connected}
        return cut.kind != "no_grad" and slots <= set(self.tape.roots)

    def is_inside(self, cut: Cut) -> bool:
        """Whether the cut value meets a connected one before parameters act on both."""
        reached = self.below(cut.entries)
        lost = self.roots_above(cut)
        mixed: set[int] = set()
        for i in self.numbers:
            entry = self.tape.entries[i]
            if mixed.intersection(entry.inputs):
                if any(s in self.tape.roots and s not in mixed for s in entry.connected):
                    return True
                mixed.update(entry.outputs)
            elif reached.intersection(entry.inputs) and self.carries(entry, reached, lost):
                mixed.update(entry.outputs)
        return False

    def carries(self, entry: Entry, reached: set[int], lost: set[int]) -> bool:
        """Whether a connected value that comes from the roots `lost`, other than those `reached`,
        goes into the entry."""
        others = [s for s in entry.connected if s not in reached and s not in self.tape.roots]
        return any(self._roots_of(s) & lost for s in others)

    def roots_above(self, cut: Cut) -> set[int]:
        """Roots that the cut values come from."""
        slots = {s for i in cut.entries for s in self.tape.entries[i].inputs}
        return {r for s in slots for r in self._roots_of(s)}

    def connected_roots(self, entry: Entry) -> set[int]:
        """Roots that are connected with an entry's inputs."""
        live = [
            s for x in entry.connected for i in _upstream(self.tape, x, _live)
            for s in self.tape.entries[i].connected
        ]  # fmt: skip
        return {*live, *entry.connected} & set(self.tape.roots)

    def _roots_of(self, slot: int) -> set[int]:
        need = {slot}
        for i in reversed(self.numbers):
            entry = self.tape.entries[i]
            if need.intersection(entry.outputs):
                need.update(entry.inputs)
        return need & set(self.tape.roots)

    def is_added(self, cut: Cut) -> bool:
        """Whether the cut values make a term that is only added to the loss.

        Such a term changes no gradient at all. What is computed from cut values alone may be
        anything; where it meets connected ones, it is added, and so on up to the loss.
        """
        pure = {s for i in cut.entries for s in self.tape.entries[i].outputs}
        silent = set[int]() if cut.kind in SILENT else self._silent
        mixed: set[int] = set()
        for i, entry in zip(self.numbers, self.entries, strict=True):
            if i <= min(cut.entries) or not (pure | mixed).intersection(entry.inputs):
                continue
            if silent.intersection(entry.inputs):
                return False  # it would be no number, were it not for another cut
            if not entry.is_live or pure.issuperset(entry.connected):
                pure.update(entry.outputs)
            elif entry.name in AFFINE or (entry.name in SCALING and mixed.issuperset(entry.inputs)):
                mixed.update(entry.outputs)
            else:
                return False
        return self.loss in mixed and not self.is_offset(cut)

    @cached_property
    def _silent(self) -> set[int]:
        """Slots of what was computed from values that were cut without a word, alone."""
        starts = [i for c in self.cuts if c.kind in SILENT for i in c.entries]
        found = {s for i in starts for s in self.tape.entries[i].outputs}
        for entry in self.entries:
            if not entry.is_live and found.intersection(entry.inputs):
                found.update(entry.outputs)
        return found

    def added_numbers(self) -> list[tuple[Place, str, float, float]]:
        """Numbers that left and are added to the loss: where, how, value, factor."""
        constants = [x for e in self.entries if e.name in AFFINE for x in _numbers(e.args)]
        found: list[tuple[Place, str, float, float]] = []
        for place, how, value in _taken_out(self.tape):
            factors = [k for x in constants if (k := _factor(x, value)) is not None]
            if factors and self._only_added(value):
                found.append((place, how, value, factors[0]))
        return found

    def _only_added(self, value: float) -> bool:
        """Whether all calls that were given the number, times a factor, just add it to the loss."""
        given = [
            i
            for i, e in zip(self.numbers, self.entries, strict=True)
            if any(_factor(x, value) is not None for x in _numbers(e.args))
        ]
        reached = self.below(given) if given else set[int]()
        after = [e for i, e in zip(self.numbers, self.entries, strict=True) if i in given]
        after += [e for e in self.entries if reached.intersection(e.inputs)]
        return bool(given) and all(e.name in AFFINE for e in after)

    def is_derivative(self, cut: Cut) -> bool:
        """Whether derivatives go straight into the loss, as those of an equation do, or of a
        penalty: no parameter acts on what is made of them, as on a sample that was moved along."""
        reached = self.below(cut.entries)
        behind = [e for e in self.entries if e.is_live and reached.intersection(e.inputs)]
        return cut.kind == "grad" and not any(self.acts(e, reached) for e in behind)

    def acts(self, entry: Entry, reached: set[int]) -> bool:
        """Whether a parameter goes into an entry beside what is followed."""
        return any(s in self.tape.roots and s not in reached for s in entry.connected)

    def differentiated(self, cut: Cut) -> set[int]:
        """Roots of what derivatives were taken by."""
        asked: list[Any] = [self.tape.entries[i].args[1] for i in cut.entries]
        slots = [s for row in asked for s in ([row] if isinstance(row, Slot) else row)]
        return {r for s in slots if isinstance(s, Slot) for r in self._roots_of(s.number)}

    def is_offset(self, cut: Cut) -> bool:
        """Whether the cut value is added to what it was cut from, or taken from it, element by
        element: that gives a value a gradient which is not its own, on purpose."""
        if any(self.tape.entries[i].name not in ALIKE for i in cut.entries):
            return False
        made = self._passed_on({s for i in cut.entries for s in self.tape.entries[i].outputs})
        cut_off = {s for i in cut.entries for s in self.tape.entries[i].inputs}
        source = self._passed_on(cut_off, {*cut.entries})
        return any(
            e.is_live
            and e.name in ELEMENTWISE
            and not made.isdisjoint(e.inputs)
            and not source.isdisjoint(e.connected)
            for e in self.entries
            if not made.issuperset(e.inputs)
        )

    def _passed_on(self, slots: set[int], but: Collection[int] = ()) -> set[int]:
        """Slots, and those of sums of them with something else."""
        found = set(slots)
        for i in self.numbers:
            entry = self.tape.entries[i]
            if i not in but and entry.name in ELEMENTWISE and found.intersection(entry.inputs):
                found.update(entry.outputs)
        return found


def _live(entry: Entry) -> Sequence[int]:
    return entry.connected if entry.is_live else ()


def _upstream(
    tape: Calls, loss: int, way: Callable[[Entry], Sequence[int]] = lambda e: e.inputs
) -> list[int]:
    """Numbers of the entries that the slot `loss` depends on by those of their inputs that `way`
    gives, in order."""
    final = {tape.group[r] for r in tape.roots}  # roots have their last value already
    need, groups = {loss}, {tape.group[loss]} - final
    found: list[int] = []
    for i in range(len(tape.entries) - 1, -1, -1):
        entry = tape.entries[i]
        if need.intersection(entry.outputs) or (entry.wrote is not None and entry.wrote in groups):
            found.append(i)
            slots = way(entry)
            need.update(slots)
            groups.update([g for s in slots if (g := tape.group[s]) not in final])
    return found[::-1]


def _kind(entry: Entry, drawn: set[int]) -> str:
    if entry.name in (NUMBER, GRAD):
        return "number" if entry.name == NUMBER else "grad"
    if not entry.grad:
        draws = entry.name == "normal" or not drawn.isdisjoint(entry.outputs)
        return "draw" if draws and switched_off(entry.frames) is None else "no_grad"
    if entry.name in ("detach", "detach_", "data"):
        return entry.name.rstrip("_")
    return "tensor" if entry.name in ("tensor", "as_tensor", "asarray", "new_tensor") else ""


def _place(entry: Entry, kind: str) -> Place | None:
    """Where the user cut; None for calls that have no derivative, and for cuts of libraries."""
    if not kind or not entry.frames:
        return None
    if kind == "no_grad":
        return switched_off(entry.frames)
    if kind == "draw":
        return users_line(entry.frames)
    return None if is_library(entry.frames[0][0].co_filename) else users_line(entry.frames)


def _taken_out(tape: Calls) -> list[tuple[Place, str, float]]:
    """Numbers that left by a line of the user's: each one, and the sum of a line's."""
    by: dict[tuple[str, str], tuple[Place, list[float]]] = {}
    for exit_ in tape.exits:
        place = users_line(exit_.frames)
        if isinstance(exit_.value, float) and place is not None:
            by.setdefault((str(place), exit_.how), (place, []))[1].append(exit_.value)
    found: list[tuple[Place, str, float]] = []
    for (_, how), (place, numbers) in by.items():
        found += [(place, how, n) for n in dict.fromkeys([*numbers, sum(numbers)])]
    return found


def _numbers(args: Any) -> list[float]:
    """Floats among the arguments of a call."""
    items = cast("Sequence[Any]", args)
    return [x for x in items if isinstance(x, float) and math.isfinite(x) and x]


def _factor(x: float, value: float) -> float | None:
    """The number of few digits by which `value` must be multiplied to give x; None if none."""
    if not value or not math.isfinite(value) or _short(value) == value:
        return None  # a number of few digits is met by chance
    factor = x / value
    return _short(factor) if math.isclose(factor, _short(factor), rel_tol=1e-14) else None


def _short(x: float) -> float:
    return float(f"{x:.4g}")
