"""What the tapes of one function became: loops that are compiled once and run with many tables.

Ints are part of a program: a call with other ones is recorded again. Mostly its tape does the same
to other leaves (`table[token]`), and is the known loops with other tables in them. So it is first
rolled up along known families; where every operand of every unit fits their forms, nothing is
compiled. Where rows lay one after the other by accident, and do not now, maps become tables: the
new families fit both.

A tape of another length than those before is compared with what two of these have in common
(`sizes`): where it fits, the same code runs it, for other sizes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from time import perf_counter
from typing import Any, final
from weakref import WeakValueDictionary

from chainrule.compile.loops.check.accesses import SpecError, inside
from chainrule.compile.loops.statements import Loops
from chainrule.compile.scalars.reroll.families import rolled
from chainrule.compile.scalars.reroll.family import Families, Family, Slot
from chainrule.compile.scalars.reroll.in_place_results import Home, in_place
from chainrule.compile.scalars.reroll.program import (
    Code,
    Rolled,
    Straight,
    written,
    written_straight,
)
from chainrule.compile.scalars.reroll.sizes import SHARES, Frame, Frames
from chainrule.compile.scalars.reroll.units import GATHER, Recorded

TRIED = 4
"""Families that a tape of as many operations is compared with."""
FRAMES = 3
"""Frames that a tape is compared with."""
FAILURES = 3
"""After so many tapes that have no frame with the one before, none is looked for."""


@final
class Known:
    """Families and machine code of a function's tapes so far."""

    def __init__(self, *, any_order: bool = False) -> None:
        self.any_order = any_order
        """Whether sums may be added up in any order."""
        self._families: dict[Any, list[Families]] = {}
        self.seconds = 0.0
        """How long it took to compile the latest."""
        self._codes: WeakValueDictionary[Hashable, Code] = WeakValueDictionary()
        self._frames: list[tuple[Frame, Code]] = []
        self._latest: tuple[Recorded, Families] | None = None
        self._failures = 0
        self.why = ""
        """Why the latest tape has a program of its own, if tapes of other lengths were there."""

    @property
    def framed(self) -> bool:
        """Whether there is code for several sizes."""
        return bool(self._frames)

    def in_frame(self, tape: Recorded) -> Rolled | None:
        """The loops of a tape by code that there is for several sizes, if it fits."""
        for frame, code in self._frames:
            made = frame.fit(tape)
            if not isinstance(made, str):
                return Rolled(tape, made, code)
            self.why = made
        return None

    def rolled(self, tape: Recorded, *, alone: bool = False) -> Rolled | str:
        """The loops of a tape, for its size `alone` or not, or why it has none; a `TypeError` names
        what loops cannot do."""
        alike = self._families.setdefault((len(tape.code), len(tape.results)), [])
        wider: Families | None = None
        for families in alike:
            made = rolled(tape, families)
            if isinstance(made, str):
                continue
            if code := self._codes.get(_form(tape, made)):
                return Rolled(tape, made, code)
            wider = wider or made
        made = rolled(tape)
        if isinstance(made, str):
            return made
        if wider and len(wider.tables()) <= len(made.tables()) + len(alike[0].tables()):
            made = wider
        form = _form(tape, made)
        code = self._codes.get(form)
        if code is None and not alone and (found := self._in_new_frame(tape, made)) is not None:
            return found
        if code is None:
            code = self._codes[form] = self._compiled(self._written(tape, made))
            alike[:] = [made, *alike[: TRIED - 1]]
        return Rolled(tape, made, code)

    def common(self, tapes: Sequence[Recorded]) -> list[Rolled] | str:
        """The loops of tapes of several sizes by one code, or why there is none."""
        for frame, code in self._frames:
            if not isinstance(made := _fits(frame, tapes), str):
                return [Rolled(t, m, code) for t, m in zip(tapes, made, strict=True)]
        if len({len(t.code) for t in tapes}) < 2:
            return "they do as many operations, but others"
        small, *_, big = sorted(tapes, key=lambda t: len(t.code))
        ends: list[tuple[Recorded, Families]] = []
        for tape in (small, big):
            made = rolled(tape)
            if isinstance(made, str):
                return made
            ends.append((tape, made))
        if isinstance(found := self._framed(*ends), str):
            return found
        frame, code = self._frames[0]
        made = _fits(frame, tapes)
        if isinstance(made, str):
            return made
        return [Rolled(t, m, code) for t, m in zip(tapes, made, strict=True)]

    def _written(self, tape: Recorded, made: Families) -> tuple[Loops, list[Any]]:
        return written(tape, made, any_order=self.any_order)

    def _compiled(self, loops: tuple[Loops, list[Any]]) -> Code:
        start = perf_counter()
        code = Code(loops, any_order=self.any_order)
        self.seconds = perf_counter() - start
        return code

    def _in_new_frame(self, tape: Recorded, made: Families) -> Rolled | None:
        """The loops of a tape by code for it and for the latest one, if that is of another length
        and they have a frame."""
        latest, self._latest = self._latest, (tape, made)
        if latest is None or self._failures >= FAILURES or len(latest[0].code) == len(tape.code):
            return None
        found = self._framed(latest, (tape, made))
        if isinstance(found, Rolled):
            self._failures, self.why = 0, ""
            return found
        self._failures += 1
        self.why = found
        return None

    def _framed(self, *two: tuple[Recorded, Families]) -> Rolled | str:
        """The loops of the second of two tapes, by new code for both; or why there is none."""
        small, big = sorted(two, key=lambda x: len(x[0].code))
        frames = Frames(*big, small[0])
        why = frames.why
        for share in () if why else SHARES:
            frame = frames.frame(share)
            if isinstance(frame, str):
                return frame
            fits = [frame.fit(tape) for tape, _ in two]
            made = fits[1]
            if isinstance(fits[0], str) or isinstance(made, str):
                return next(x for x in fits if isinstance(x, str))
            loops = self._written(two[1][0], made)
            try:
                inside(loops[0])
            except SpecError as beyond:  # what it reads is not that long
                why = str(beyond)
                continue
            code = self._compiled(loops)
            self._frames = [(frame, code), *self._frames[: FRAMES - 1]]
            return Rolled(two[1][0], made, code)
        return why

    def straight(self, tape: Recorded, homes: Sequence[Home] = ()) -> Straight | str:
        """The loops of a tape without derivatives, or why it has none; results are at their homes
        where they can be."""
        made = rolled(tape)
        if isinstance(made, str):
            return made
        there = in_place(made, homes)
        form = "straight", _form(tape, made), tuple(there.items())
        code = self._codes.get(form)
        if code is None:
            loops = written_straight(tape, made, there, any_order=self.any_order)
            code = self._codes[form] = Code(loops, any_order=self.any_order)
        return Straight(tape, made, code, there)


def _fits(frame: Frame, tapes: Sequence[Recorded]) -> list[Families] | str:
    """The families of tapes by a frame, or why one of them has none."""
    out: list[Families] = []
    for tape in tapes:
        made = frame.fit(tape)
        if isinstance(made, str):
            return made
        out.append(made)
    return out


def _form(tape: Recorded, made: Families) -> Hashable:
    """All that the code of families depends on: tables and most constants are its inputs."""
    families = tuple([_of_family(tape, f) for f in made.families])
    return tape.room, len(tape.constant_data), tuple(made.results), families


def _of_family(tape: Recorded, f: Family) -> Hashable:
    runs = tuple(
        [
            (
                tuple([tuple([_of_slot(tape, f, s) for s in t]) for t in r.terms]),
                r.count.form,
                r.extent,
            )
            for r in f.runs
        ]
    )
    return f.op, f.nest.axes, runs, f.strides, f.size, f.units


def _of_slot(tape: Recorded, f: Family, s: Slot) -> Hashable:
    if f.op == GATHER:  # whose table ints fill anew
        return s.source, s.at.const, s.at.coefficients, s.needed
    literal = tape.constant_data[s.at.const].tobytes() if s.literal else None
    return s.source, s.at.form, s.needed, literal
