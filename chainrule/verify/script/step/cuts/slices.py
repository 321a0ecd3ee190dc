"""Where the way from parameters to the loss is cut (what for, is told in `purposes`)."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from chainrule.verify.place import Place
from chainrule.verify.script.step.record.tape import (
    GRAD,
    NUMBER,
    Entry,
    Tape,
    Way,
    back,
    every_input,
    forth,
    live_inputs,
)
from chainrule.verify.trees import tree_of_file
from chainrule.verify.user_frames import Frames, is_library, users_line

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
    entries: list[Entry]


class Slice:
    """The part of a tape that a loss depends on."""

    def __init__(self, tape: Tape, loss: int) -> None:
        self.tape = tape
        self.loss = loss
        self.entries = _upstream(tape, loss)
        """In order."""

    @cached_property
    def used(self) -> set[int]:
        """Slots whose graph a backward pass from the loss goes through, and frees."""
        return made(_upstream(self.tape, self.loss, live_inputs))

    @cached_property
    def cuts(self) -> list[Cut]:
        """The user's own cuts, by line."""
        found: dict[tuple[str, str], Cut] = {}
        draws = [e for e in self.entries if e.name == "normal"]
        drawn = {s for e in draws for s in e.inputs}
        for entry in self.entries:
            kind = _kind(entry, drawn) if entry.cuts else ""
            place = _place(entry, kind)
            if place is not None:
                cut = found.setdefault((kind, str(place)), Cut(kind, place, []))
                cut.entries.append(entry)
        numbers = [c for c in found.values() if c.kind == "number"]
        return [self._join(c, found) for c in numbers] or list(found.values())

    def _join(self, number: Cut, cuts: Mapping[Any, Cut]) -> Cut:
        """The cut at which values leave as numbers, with what cut them off before: one cut, which
        is that of `no_grad` or of a draw if it was one of these."""
        above = set(self.above(number))
        before = [c for c in cuts.values() if not above.isdisjoint(c.entries)]
        mine = {*number.entries, *[e for c in before for e in c.entries if e in above]}
        said = [c for c in before if c.kind in ("no_grad", "draw")]
        meant = said[0] if said else number
        return Cut(meant.kind, meant.place, [e for e in self.entries if e in mine])

    def back(self, slots: Iterable[int], way: Way = every_input) -> Iterator[Entry]:
        """Entries that slots come from, the last one first (see `tape.back`)."""
        return back(self.entries, set(slots), way)

    def forth(self, slots: Iterable[int], through: Callable[[Entry], bool] = bool) -> set[int]:
        """Slots, and those that are made of them (see `tape.forth`)."""
        return forth(self.entries, slots, through)

    def behind(self, slots: Iterable[int], way: Way = every_input) -> set[int]:
        """Slots, and those that they come from."""
        need = set(slots)
        deque(back(self.entries, need, way), maxlen=0)
        return need

    def below(self, starts: Iterable[Entry]) -> set[int]:
        """Slots that depend on the results of the entries `starts`."""
        return self.forth(made(starts))

    def above(self, cut: Cut) -> list[Entry]:
        """Entries that the cut values come from."""
        return list(self.back(given(cut.entries)))

    def carries(self, entry: Entry, reached: set[int], lost: set[int]) -> bool:
        """Whether a connected value that comes from the roots `lost`, other than those `reached`,
        goes into the entry."""
        others = [s for s in entry.connected if s not in reached and s not in self.tape.roots]
        return any(self.roots_of(s) & lost for s in others)

    def roots_above(self, cut: Cut) -> set[int]:
        """Roots that the cut values come from."""
        return self.behind(given(cut.entries)) & set(self.tape.roots)

    def connected_roots(self, entry: Entry) -> set[int]:
        """Roots that are connected with an entry's inputs."""
        above = [e for s in entry.connected for e in _upstream(self.tape, s, live_inputs)]
        live = [s for e in above for s in e.connected]
        return {*live, *entry.connected} & set(self.tape.roots)

    def upstream(self, slots: set[int]) -> list[Entry]:
        """Entries that slots come from by ways with a graph."""
        return [e for e in self.back(slots, live_inputs) if e.is_live]

    def live_roots_of(self, slot: int) -> set[int]:
        """Roots that a slot comes from by ways with a graph."""
        live = {s for e in self.upstream({slot}) for s in e.connected}
        return live & set(self.tape.roots)

    def roots_of(self, slot: int) -> set[int]:
        """Roots that a slot comes from."""
        return self.behind({slot}) & set(self.tape.roots)

    def has_steps(self, slot: int) -> bool:
        """Whether a slot comes from a step function, or from whole numbers that were chosen."""
        need = {slot}
        above = back(self.entries, need)
        return any(e.name in STEPS or need.intersection(e.whole) for e in above)

    def acts(self, entry: Entry, reached: set[int]) -> bool:
        """Whether a parameter goes into an entry beside what is followed."""
        return any(s in self.tape.roots and s not in reached for s in entry.connected)


def made(entries: Iterable[Entry]) -> set[int]:
    """Slots of the results of entries."""
    return {s for e in entries for s in e.outputs}


def given(entries: Iterable[Entry]) -> set[int]:
    """Slots that entries are given."""
    return {s for e in entries for s in e.inputs}


def _upstream(tape: Tape, loss: int, way: Way = every_input) -> list[Entry]:
    """The entries that the slot `loss` depends on by those of their inputs that `way` gives, in
    order."""
    final = {tape.group[r] for r in tape.roots}  # roots have their last value already
    need, groups = {loss}, {tape.group[loss]} - final
    found: list[Entry] = []
    for entry in reversed(tape.entries):
        if need.intersection(entry.outputs) or (entry.wrote is not None and entry.wrote in groups):
            found.append(entry)
            slots = list(way(entry))
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
