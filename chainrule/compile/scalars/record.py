"""Recording a function of `Value`s: it runs once on Values of its own, and then for other numbers,
which tells whether it looks at them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from math import cos, isclose, isfinite, isnan, sin
from typing import Any, final

import numpy as np

from chainrule.compile.scalars.gathers import Chosen
from chainrule.compile.scalars.ints.failures import OnSymbolsError, on_symbols
from chainrule.compile.scalars.ints.subscripts import seeing
from chainrule.compile.scalars.ints.symbolic import Check, Steps, SymbolicInt
from chainrule.compile.scalars.lines import Lines, noting_lines
from chainrule.compile.scalars.reads import Reads
from chainrule.compile.scalars.reroll.containers import stands
from chainrule.compile.scalars.tape import Tape
from chainrule.compile.trace.guards.guards import Guards
from chainrule.compile.trace.guards.notes import Notes
from chainrule.compile.trace.guards.random_state import refuse_draws
from chainrule.compile.trace.guards.reachable_state import all_readings
from chainrule.engine.op import Array
from chainrule.errors import TraceError
from chainrule.scalar import Value
from chainrule.transforms.replay import note_random_state
from chainrule.tree import Structure, flatten

_FACTORS = (-0.9, 1.7, -2.3)
"""Factors by which numbers are moved to see whether f does the same for others."""


@final
@dataclass(frozen=True, slots=True)
class Recording:
    """What f did: its tape, the structure of what it returned, and what it can read beside Values.
    `check` tells for which other ints it would do the same; `fixed` are those ints, by their
    number, that have to stay."""

    tape: Tape
    structure: Structure
    read: Guards
    check: Check | None
    fixed: frozenset[int]


@final
@dataclass(frozen=True, slots=True)
class _Run:
    """One run of f: what it was given and what it returned, and what it did with its ints."""

    given: Sequence[Any]
    numbers: Sequence[float]
    found: Any
    steps: Steps
    lines: Lines

    @property
    def results(self) -> Sequence[Any]:
        """What it returned, in order."""
        return flatten(self.found)[0]


@final
@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What f gave for other numbers than at first: those of what it was given, and, by `id`, those
    of its state."""

    results: Sequence[Any]
    given: Sequence[float]
    state: Mapping[int, float]


def is_number(x: Any) -> bool:
    """Whether a leaf is one of the numbers that f is compiled for."""
    return isinstance(x, Value) or type(x) is float


class DependsOnDataError(Exception):
    """What a function does depends on the numbers that it has: no recording is right for others."""


@final
class Recorder:
    """Records `f` for arguments of one structure, with these `leaves`."""

    def __init__(
        self, f: Callable[..., Any], name: str, leaves: Sequence[Any], structure: Structure
    ) -> None:
        self._f = f
        self._name = name
        self._leaves = leaves
        self._structure = structure
        self._ints = [x for x in leaves if type(x) is int]
        self._notes: Notes | None = None

    def record(self, *, symbolic: bool, lines: bool = True) -> Recording:
        """Run f on Values of its own in place of those that it is given, and of floats; on symbols
        in place of ints, if these are `symbolic`. `lines` of the program are noted, which takes
        longer than the run."""
        symbolic = symbolic and bool(self._ints)
        notes = self._notes or self.reach()
        self._notes = None
        with seeing(notes.functions) if symbolic else nullcontext():
            with note_random_state() as chance:
                run = self._run(None, symbolic=symbolic, noting=lines)
            refuse_draws(chance)
            guards = notes.finish()
            _, shape = flatten(run.found)
            self._refuse(run.results)
            inputs = [v for v in run.given if isinstance(v, Value)]
            args, kwargs = self._structure.unflatten(run.given)
            where = stands({"function": self._f, "arguments": args, "keywords": kwargs})
            seen = Reads(inputs, run.results, where, run.lines)
            others = [
                self._elsewhere(seen, x, symbolic=symbolic, compare=True) for x in _FACTORS[:-1]
            ]
        others.append(self._elsewhere(seen, _FACTORS[-1], symbolic=False, compare=not symbolic))
        maxima, certain = seen.maxima()
        tried = [] if certain else [Tape(seen, where, {})]  # right only if they drop out
        tape = Tape(seen, where, maxima)
        check = run.steps.compiled() if symbolic else None
        chosen = indices(check, self._ints)
        for each in (*tried, tape):
            self._check(each, [v.data for v in inputs], chosen, run.results)
            for other in others:
                if other is not None:
                    self._agrees(each, chosen, other)
        return Recording(tape, shape, guards, check, frozenset(run.steps.fixed))

    def _run(
        self, numbers: Sequence[float] | None, *, symbolic: bool, noting: bool = False
    ) -> _Run:
        """f for these numbers, or for those of its arguments."""
        steps = Steps()
        numbers = numbers if numbers is not None else self.numbers()
        left, given = iter(numbers), list[Any]()
        number = count()
        for x in self._leaves:
            if is_number(x):
                given.append(Value(next(left)))
            elif symbolic and type(x) is int:
                i = next(number)
                given.append(SymbolicInt(steps, f"a[{i}]", x, i))
            else:
                given.append(x)
        args, kwargs = self._structure.unflatten(given)
        lines: Lines = {}
        with on_symbols(symbolic), noting_lines(lines) if noting else nullcontext():
            found = self._f(*args, **kwargs)
        return _Run(given, numbers, found, steps, lines)

    def reach(self) -> Notes:
        """Notes of all that f can read."""
        self._notes = all_readings([self._f, *[x for x in self._leaves if not is_number(x)]])
        return self._notes

    def numbers(self) -> list[float]:
        """The numbers among the arguments."""
        return [x.data if isinstance(x, Value) else x for x in self._leaves if is_number(x)]

    def _refuse(self, results: Sequence[Any]) -> None:
        for y in results:
            if not isinstance(y, Value):
                raise TraceError(
                    f"jit: {self._name} is a function of Values and also returns {y!r}, which "
                    "would be the same at every call: return Values only, and compute numbers "
                    "from their data outside"
                )
            if hasattr(y, "_epoch"):
                raise TraceError(
                    f"jit: {self._name} calls backward on its result, which would happen only "
                    "while it is traced: return the Value, and call backward on that"
                )

    def _elsewhere(
        self, seen: Reads, factor: float, *, symbolic: bool, compare: bool
    ) -> Elsewhere | None:
        """What f gives for other numbers, which `seen` may `compare` while they are there; None if
        it is not for them."""
        other = [_moved(x, i, factor) for i, x in enumerate(self.numbers())]
        with _state_moved(seen.state, factor):
            numbers_there = {id(v): v.data for v in seen.state}
            try:
                results = self._run(other, symbolic=symbolic).results
            except (ArithmeticError, ValueError):
                return None
            except OnSymbolsError as error:
                if isinstance(error.__cause__, ArithmeticError | ValueError):
                    return None
                raise
            if seen.open and compare:
                seen.compare([y for y in results if isinstance(y, Value)])
            found = [getattr(y, "data", y) for y in results]  # the state's own is put back
        return Elsewhere(found, other, numbers_there)

    def _agrees(self, tape: Tape, chosen: Chosen, other: Elsewhere) -> None:
        """The tape must give what f gives for other numbers, too: else f looked at their data."""
        state = [other.state.get(id(v), v.data) for v in tape.state]
        found = tape.run(np.array([*other.given, *state], np.float64), chosen)[0]
        for y, z in zip(other.results, found, strict=False):
            if isfinite(y) and isfinite(z) and not isclose(y, z, rel_tol=1e-6, abs_tol=1e-12):
                raise DependsOnDataError(
                    f"{self._name} looks at the data of Values (a branch, the largest of several, "
                    f"int()): for other numbers it gives {y}, and what it did at first gives {z}. "
                    "Written with Values (relu, abs, clip, ...), it would be compiled"
                )

    def _check(
        self, tape: Tape, numbers: Sequence[float], chosen: Chosen, results: Sequence[Value]
    ) -> None:
        """The tape must give what f gave: else f changed the numbers that it used."""
        for y, again in zip(results, tape.run(_numbers(tape, numbers), chosen)[0], strict=True):
            if not (isclose(y.data, again, rel_tol=1e-9) or (isnan(y.data) and isnan(again))):
                raise TraceError(
                    f"jit: {self._name} returned {y.data}, and {again} when what it did was done "
                    "again: it changes data of Values that it uses, which jit cannot see. Do that "
                    "outside"
                )


def indices(check: Check | None, ints: Sequence[int]) -> Chosen:
    """The indices of the gathers for the ints of a recording."""
    found = () if check is None else check(ints)
    assert found is not None, "the ints of a recording meet its conditions"
    try:
        return np.array(found, np.int64)
    except OverflowError as cause:
        raise OnSymbolsError from cause


def _numbers(tape: Tape, given: Sequence[float]) -> Array:
    """The numbers of all leaves."""
    return np.array([*given, *[v.data for v in tape.state]], np.float64)


def _moved(x: float, i: int, factor: float) -> float:
    """Number `i` as another one; the factors differ, so that no order among numbers stays."""
    return factor * (1 + 0.31 * sin(i + factor)) * x + 0.01 * cos(7 * i)


@contextmanager
def _state_moved(state: Sequence[Value], factor: float) -> Generator[None]:
    """Within it these Values have other numbers."""
    were = [v.data for v in state]
    try:
        for i, v in enumerate(state):
            v.data = _moved(v.data, i + 1, factor)
        yield
    finally:
        for v, x in zip(state, were, strict=True):
            v.data = x
