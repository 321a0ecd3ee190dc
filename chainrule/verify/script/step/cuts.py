"""Where the way from parameters to the loss is cut (what for, is told in `purposes`)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from chainrule.verify.place import Place
from chainrule.verify.script.step.tape import GRAD, NUMBER, Entry, Tape
from chainrule.verify.trees import tree_of_file
from chainrule.verify.where import Frames, is_library, users_line

STEPS = {"round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "frac", "fix"}
"""Calls whose float result is flat almost everywhere."""


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

    def __init__(self, tape: Tape, loss: int) -> None:
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
        draws = [e for e in self.entries if e.name == "normal"]
        drawn = {s for e in draws for s in e.inputs}
        for i in self.numbers:
            entry = self.tape.entries[i]
            kind = _kind(entry, drawn) if entry.cuts else ""
            place = _place(entry, kind)
            if place is not None:
                cut = found.setdefault((kind, str(place)), Cut(kind, place, []))
                cut.entries.append(i)
        numbers = [c for c in found.values() if c.kind == "number"]
        return [self._join(c, found) for c in numbers] or list(found.values())

    def _join(self, number: Cut, cuts: Mapping[Any, Cut]) -> Cut:
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

    def carries(self, entry: Entry, reached: set[int], lost: set[int]) -> bool:
        """Whether a connected value that comes from the roots `lost`, other than those `reached`,
        goes into the entry."""
        others = [s for s in entry.connected if s not in reached and s not in self.tape.roots]
        return any(self.roots_of(s) & lost for s in others)

    def roots_above(self, cut: Cut) -> set[int]:
        """Roots that the cut values come from."""
        slots = {s for i in cut.entries for s in self.tape.entries[i].inputs}
        return {r for s in slots for r in self.roots_of(s)}

    def connected_roots(self, entry: Entry) -> set[int]:
        """Roots that are connected with an entry's inputs."""
        live = [
            s for x in entry.connected for i in _upstream(self.tape, x, _live)
            for s in self.tape.entries[i].connected
        ]  # fmt: skip
        return {*live, *entry.connected} & set(self.tape.roots)

    def upstream(self, slots: set[int]) -> list[Entry]:
        """Entries that slots come from by ways with a graph."""
        need, found = set(slots), list[Entry]()
        for entry in reversed(self.entries):
            if entry.is_live and not need.isdisjoint(entry.outputs):
                need.update(entry.connected)
                found.append(entry)
        return found

    def live_roots_of(self, slot: int) -> set[int]:
        """Roots that a slot comes from by ways with a graph."""
        live = {s for e in self.upstream({slot}) for s in e.connected}
        return live & set(self.tape.roots)

    def roots_of(self, slot: int) -> set[int]:
        """Roots that a slot comes from."""
        need = {slot}
        for i in reversed(self.numbers):
            entry = self.tape.entries[i]
            if need.intersection(entry.outputs):
                need.update(entry.inputs)
        return need & set(self.tape.roots)

    def has_steps(self, slot: int) -> bool:
        """Whether a slot comes from a step function, or from whole numbers that were chosen."""
        need = {slot}
        for entry in reversed(self.entries):
            if not need.isdisjoint(entry.outputs):
                if entry.name in STEPS or need.intersection(entry.whole):
                    return True
                need.update(entry.inputs)
        return False

    def acts(self, entry: Entry, reached: set[int]) -> bool:
        """Whether a parameter goes into an entry beside what is followed."""
        return any(s in self.tape.roots and s not in reached for s in entry.connected)


def _live(entry: Entry) -> Sequence[int]:
    return entry.connected if entry.is_live else ()


def _upstream(
    tape: Tape, loss: int, way: Callable[[Entry], Sequence[int]] = lambda e: e.inputs
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
        return "draw" if draws and autograd_switch(entry.frames) is None else "no_grad"
    if entry.name in ("detach", "detach_", "data"):
        return entry.name.rstrip("_")
    if entry.name in ("tensor", "as_tensor", "asarray", "new_tensor"):
        return "tensor"
    return "draw" if entry.name == "normal" else ""


def _place(entry: Entry, kind: str) -> Place | None:
    """Where the user cut; None for calls that have no derivative, and for cuts of libraries."""
    if not kind or not entry.frames:
        return None
    if kind == "no_grad":
        return autograd_switch(entry.frames)
    if kind == "draw":
        return users_line(entry.frames)
    return None if is_library(entry.frames[0][0].co_filename) else users_line(entry.frames)


_OFF = ("no_grad", "inference_mode", "set_grad_enabled")


def autograd_switch(frames: Frames) -> Place | None:
    """Where the user switched autograd off; None if a library did.

    The innermost place counts: a `with` around the call or the decorator of its function. If none
    is to be seen, it is the line of the call.
    """
    for code, line in frames:
        found = _around(code.co_filename, line)
        if found is not None:
            if is_library(code.co_filename):
                return None
            return Place(code.co_filename, found, code.co_qualname)
    return users_line(frames)


def _around(file: str, line: int) -> int | None:
    """Line of the innermost `with` or decorator of the file that switches autograd off there."""
    inside = [(end - first, at) for first, end, at in _switches(file) if first <= line <= end]
    return min(inside)[1] if inside else None


@lru_cache(maxsize=256)
def _switches(file: str) -> tuple[tuple[int, int, int], ...]:
    """First line, last line, and line of the switch, of all regions in which autograd is off."""
    found: list[tuple[int, int, int]] = []
    for node in ast.walk(tree_of_file(file)):
        if isinstance(node, ast.With):
            makers = [item.context_expr for item in node.items]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            makers = node.decorator_list
        else:
            continue
        for maker in makers:
            if any(name in ast.unparse(maker) for name in _OFF):
                found.append((node.lineno, node.end_lineno or node.lineno, maker.lineno))
    return tuple(found)
