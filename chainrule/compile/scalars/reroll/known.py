"""What the tapes of one function became: loops that are compiled once and run with many tables.

Ints are part of a program: a call with other ones is recorded again. Mostly its tape does the same
to other leaves (`table[token]`), and is the known loops with other tables in them. So it is first
rolled up along known families; where every operand of every unit fits their forms, nothing is
compiled. Where rows lay one after the other by accident, and do not now, maps become tables: the
new families fit both.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from time import perf_counter
from typing import Any, final
from weakref import WeakValueDictionary

from chainrule.compile.scalars.reroll.families import rolled
from chainrule.compile.scalars.reroll.family import Families, Family, Slot
from chainrule.compile.scalars.reroll.in_place import Home, in_place
from chainrule.compile.scalars.reroll.program import (
    Code,
    Rolled,
    Straight,
    written,
    written_straight,
)
from chainrule.compile.scalars.reroll.units import Recorded

TRIED = 4
"""Families that a tape of as many operations is compared with."""


@final
class Known:
    """Families and machine code of a function's tapes so far."""

    def __init__(self) -> None:
        self._families: dict[Any, list[Families]] = {}
        self.seconds = 0.0
        """How long it took to compile the latest."""
        self._codes: WeakValueDictionary[Hashable, Code] = WeakValueDictionary()

    def rolled(self, tape: Recorded) -> Rolled | str:
        """The loops of a tape, or why it has none; a `TypeError` names what loops cannot do."""
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
        if code is None:
            start = perf_counter()
            code = self._codes[form] = Code(written(tape, made))
            self.seconds = perf_counter() - start
            alike[:] = [made, *alike[: TRIED - 1]]
        return Rolled(tape, made, code)

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
            code = self._codes[form] = Code(written_straight(tape, made, there))
        return Straight(tape, made, code, there)


def _form(tape: Recorded, made: Families) -> Hashable:
    """All that the code of families depends on: tables and most constants are its inputs."""
    families = tuple([_of_family(tape, f) for f in made.families])
    return tape.room, len(tape.constant_data), tuple(made.results), families


def _of_family(tape: Recorded, f: Family) -> Hashable:
    runs = tuple(
        [
            (
                tuple([tuple([_of_slot(tape, s) for s in t]) for t in r.terms]),
                r.count.form,
                r.extent,
            )
            for r in f.runs
        ]
    )
    return f.op, f.nest.axes, runs, f.strides, f.size, f.units


def _of_slot(tape: Recorded, s: Slot) -> Hashable:
    literal = tape.constant_data[s.at.const].tobytes() if s.literal else None
    return s.source, s.at.form, s.needed, literal
