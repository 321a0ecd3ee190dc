"""A compiled function of `Value`s: run once to record what it does, then run as a tape."""

# Results are put into the graph by what Value keeps to itself.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import cos, isclose, isfinite, isnan, sin
from typing import Any, cast, final

import numpy as np

from chainrule.compile.scalars.machine import loops
from chainrule.compile.scalars.reads import Reads
from chainrule.compile.scalars.reroll.containers import reaches_value, stands
from chainrule.compile.scalars.reroll.known import Known
from chainrule.compile.scalars.results import result_of
from chainrule.compile.scalars.runs import Runs
from chainrule.compile.scalars.tape import Tape
from chainrule.compile.trace.guards.guards import Guards
from chainrule.compile.trace.guards.random_state import refuse_draws
from chainrule.compile.trace.guards.reach import all_readings
from chainrule.compile.trace.guards.watcher import watcher
from chainrule.compile.trace.variant import MISFIT
from chainrule.errors import TraceError
from chainrule.op import Array
from chainrule.replay import note_random_state
from chainrule.scalar import Value
from chainrule.tensors import Tensor
from chainrule.tree import Structure, flatten

_KEPT = 15
"""How many older tapes are remembered for arguments of one kind."""
_KINDS = 100
"""How many kinds of arguments are remembered: each document of a training run may be one."""


@final
@dataclass(frozen=True, slots=True)
class Variant:
    """What runs for one structure of arguments, and the structure of what it returns."""

    runs: Runs
    structure: Structure
    read: Guards
    """What the function can read beside Values."""
    stays: Callable[[], bool]
    """Whether all of that is certainly as it was: asked by machine code."""

    def call(self, leaves: Sequence[Any]) -> Any:
        """The function's value for arguments with these leaves."""
        traced = [x for x in leaves if isinstance(x, Value) or type(x) is float]
        data, slopes = self.runs.run([x.data if isinstance(x, Value) else x for x in traced])
        given = [x for x in traced if isinstance(x, Value)]
        if len(given) < len(traced):  # floats have no gradients
            places = [i for i, x in enumerate(traced) if isinstance(x, Value)]
            places += range(len(traced), self.runs.tape.leaves)
            slopes = slopes.take(places, axis=1)
        state = self.runs.state
        out = [result_of(y, given, state, d) for y, d in zip(data.tolist(), slopes, strict=True)]
        return self.structure.unflatten(out)


_FACTORS = (-0.9, 1.7, -2.3)
"""Factors by which numbers are moved to see whether f does the same for others."""


@final
@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What f gave for other numbers than at first: those of what it was given, and, by `id`, those
    of its state."""

    results: Sequence[Any]
    given: Sequence[float]
    state: Mapping[int, float]


@final
class Scalars:
    """The compiled forms of a function `f` of Values, by structure and static arguments."""

    def __init__(self, f: Callable[..., Any], name: str, retraces: Any) -> None:
        self._f = f
        self._name = name
        self._variants: dict[Any, list[Variant]] = {}
        self._retraces = retraces
        self._known = Known()
        self._latest: Variant | None = None
        self._key: Any = None
        """The key of what the latest variant was given."""

    def again(self, args: Sequence[Any]) -> Any:
        """The value of f for arguments like those of the latest call, where all that it read is as
        it was; else `MISFIT`."""
        variant = self._latest
        if variant is None or not variant.stays():
            return MISFIT
        leaves, structure = flatten((list(args), {}))
        if (structure, tuple([_kind(x) for x in leaves])) != self._key:
            return MISFIT
        return variant.call(leaves)

    def stays(self) -> bool:
        """Whether all that the latest call could read is certainly as it was."""
        return self._latest is not None and self._latest.stays()

    def runs(self) -> Runs:
        """What the latest call ran."""
        assert self._latest is not None, f"{self._name} was never called"
        return self._latest.runs

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, bool]:
        """The value of f, and whether it was traced for it."""
        leaves, structure = flatten((list(args), kwargs))
        key = structure, tuple([_kind(x) for x in leaves])
        try:
            variants = self._variants.setdefault(key, [])
        except TypeError as cause:
            raise TraceError(
                f"jit: {self._name} is given an argument that is neither a Value, a number nor "
                f"hashable ({cause})"
            ) from cause
        for variant in variants:
            if variant.stays() or variant.read.changed() is None:
                self._latest, self._key = variant, key
                return variant.call(leaves), False
        if variants and (change := variants[0].read.changed()) is not None:
            self._retraces.note_change(self._name, *change)
        variant = self._record(leaves, structure)
        self._latest, self._key = variant, key
        variants[:] = [variant, *[v for v in variants if v.read.alive][:_KEPT]]
        if len(self._variants) > _KINDS:
            del self._variants[next(iter(self._variants))]
        return variant.call(leaves), True

    def _record(self, leaves: Sequence[Any], structure: Structure) -> Variant:
        """Run f once, on Values of its own in place of those that it is given, and of floats."""
        given = [
            Value(x.data if isinstance(x, Value) else x) if _is_number(x) else x for x in leaves
        ]
        args, kwargs = structure.unflatten(given)
        notes = all_readings([self._f, *[x for x in leaves if not _is_number(x)]])
        with note_random_state() as chance:
            found = self._f(*args, **kwargs)
        refuse_draws(chance)
        guards = notes.finish()
        results, shape = flatten(found)
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
        inputs = [v for v in given if isinstance(v, Value)]
        where = stands({"function": self._f, "arguments": args, "keywords": kwargs})
        seen = Reads(inputs, results, where)
        others = [self._elsewhere(seen, leaves, structure, factor) for factor in _FACTORS]
        maxima, certain = seen.maxima()
        tried = [] if certain else [Tape(seen, where, {})]  # right only if they drop out
        tape = Tape(seen, where, maxima)
        for each in (*tried, tape):
            self._check(each, [v.data for v in inputs], results)
            for other in others:
                if other is not None:
                    self._agrees(each, other)
        stays = watcher(guards, loops().unchanged, loops().guarded)
        return Variant(Runs(tape, self._known), shape, guards, stays)

    def _elsewhere(
        self, seen: Reads, leaves: Sequence[Any], structure: Structure, factor: float
    ) -> Elsewhere | None:
        """What f gives for other numbers, which `seen` looks at while they are there; None if it is
        not for them."""
        numbers = [x.data if isinstance(x, Value) else x for x in leaves if _is_number(x)]
        other = [_moved(x, i, factor) for i, x in enumerate(numbers)]
        left = iter(other)
        given = [Value(next(left)) if _is_number(x) else x for x in leaves]
        args, kwargs = structure.unflatten(given)
        with _state_moved(seen.state, factor):
            numbers_there = {id(v): v.data for v in seen.state}
            try:
                results = flatten(self._f(*args, **kwargs))[0]
            except (ArithmeticError, ValueError):
                return None
            if seen.open:
                seen.compare([y for y in results if isinstance(y, Value)])
        return Elsewhere(results, other, numbers_there)

    def _agrees(self, tape: Tape, other: Elsewhere) -> None:
        """The tape must give what f gives for other numbers, too: else f looked at their data."""
        state = [other.state.get(id(v), v.data) for v in tape.state]
        found = tape.run(np.array([*other.given, *state], np.float64))[0]
        pairs = [(getattr(y, "data", y), z) for y, z in zip(other.results, found, strict=False)]
        for y, z in pairs:
            if isfinite(y) and isfinite(z) and not isclose(y, z, rel_tol=1e-6, abs_tol=1e-12):
                raise TraceError(
                    f"jit: {self._name} looks at the data of Values (a branch, the largest of "
                    f"several, int()): for other numbers it gives {y}, and what it did at first "
                    f"gives {z}. Write that with Values (relu, abs, clip, ...), or leave out jit"
                )

    def _check(self, tape: Tape, numbers: Sequence[float], results: Sequence[Value]) -> None:
        """The tape must give what f gave: else f changed the numbers that it used."""
        for y, again in zip(results, tape.run(_numbers(tape, numbers))[0], strict=True):
            if not (isclose(y.data, again, rel_tol=1e-9) or (isnan(y.data) and isnan(again))):
                raise TraceError(
                    f"jit: {self._name} returned {y.data}, and {again} when what it did was done "
                    "again: it changes data of Values that it uses, which jit cannot see. Do that "
                    "outside"
                )


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


def _is_number(x: Any) -> bool:
    return isinstance(x, Value) or type(x) is float


def _kind(x: Any) -> Any:
    """What a leaf is, as far as the tape depends on it."""
    kind = cast("type[object]", type(x))
    return kind if _is_number(x) else (kind, x)


def takes(f: Callable[..., Any] | None, leaves: Sequence[Any], *, otherwise: bool = False) -> bool:
    """Whether a call is one of Values: one is among the arguments, or, where these have neither
    tensors nor arrays, f reaches one by itself, or it is one `otherwise`."""
    if any(isinstance(x, Value) for x in leaves):
        return True
    if any(isinstance(x, Tensor | np.ndarray | np.generic) for x in leaves):
        return False
    return otherwise or reaches_value(f)
