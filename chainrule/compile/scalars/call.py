"""A compiled function of `Value`s: run once to record what it does, then run as a tape.

Arguments of one kind (structure, classes, what is neither number nor int) share what was recorded.
Ints count as data as far as the recording allows: where it says that one has to stay, only
arguments with the same one share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, final

import numpy as np

from chainrule.compile.scalars.explained import explained
from chainrule.compile.scalars.gathers import NONE, Chosen
from chainrule.compile.scalars.ints.symbolic import Check
from chainrule.compile.scalars.machine import loops
from chainrule.compile.scalars.proof import proven, proven_step
from chainrule.compile.scalars.record import DependsOnDataError, Recorder, indices, is_number
from chainrule.compile.scalars.reroll.containers import reaches_value
from chainrule.compile.scalars.reroll.known import Known
from chainrule.compile.scalars.results import result_of
from chainrule.compile.scalars.runs import Runs
from chainrule.compile.scalars.steps.record import StepRecorder
from chainrule.compile.scalars.steps.step import Step
from chainrule.compile.scalars.steps.update import Updates
from chainrule.compile.trace.guards.guards import Guards
from chainrule.compile.trace.guards.reach import names_in
from chainrule.compile.trace.guards.watcher import watcher
from chainrule.compile.trace.variant import MISFIT
from chainrule.engine.tensors import Tensor
from chainrule.errors import TraceError
from chainrule.scalar import Value
from chainrule.tree import Structure, flatten

_KEPT = 15
"""How many older tapes are remembered for arguments of one kind."""
_KINDS = 100
"""How many kinds of arguments are remembered: each document of a training run may be one."""


_MET = 10_000
"""How many kinds of arguments that came once are remembered."""
_PATIENCE = 4
"""Recordings after which arguments of a new kind, or with other ints that have to stay, have to
come twice to be recorded: that takes as long as many runs of the program."""


@final
@dataclass(slots=True)
class Variant:
    """What runs for one structure of arguments, and the structure of what it returns."""

    runs: Runs
    structure: Structure
    read: Guards
    """What the function can read beside Values."""
    stays: Callable[[], bool]
    """Whether all of that is certainly as it was: asked by machine code."""
    ints: tuple[int, ...]
    """Those of the recording."""
    check: Check | None
    proven: bool
    """Whether it gave what f gives for other ints than those of the recording."""
    step: Step | None = None
    """What runs if it is a whole step."""

    def chosen(self, ints: Sequence[int]) -> Chosen | None:
        """The indices of its gathers for these ints, None if it does something else for them."""
        if self.check is None:
            return NONE if tuple(ints) == self.ints else None
        found = self.check(ints)
        try:
            return None if found is None else np.array(found, np.int64)
        except OverflowError:  # an int that is larger than all indices
            return None

    def call(self, leaves: Sequence[Any], chosen: Chosen) -> Any:
        """The function's value for arguments with these leaves."""
        if self.step is not None:
            return self.step.call([x for x in leaves if type(x) is float], chosen)
        traced = [x for x in leaves if isinstance(x, Value) or type(x) is float]
        numbers = [x.data if isinstance(x, Value) else x for x in traced]
        data, slopes = self.runs.run(numbers, chosen)
        given = [x for x in traced if isinstance(x, Value)]
        if len(given) < len(traced):  # floats have no gradients
            places = [i for i, x in enumerate(traced) if isinstance(x, Value)]
            places += range(len(traced), self.runs.tape.leaves)
            slopes = slopes.take(places, axis=1)
        state = self.runs.state
        out = [result_of(y, given, state, d) for y, d in zip(data.tolist(), slopes, strict=True)]
        return self.structure.unflatten(out)


@final
@dataclass(slots=True)
class _Kind:
    """The variants for arguments of one kind, by the ints that have to stay; `fixed` are the
    numbers of these. Where ints are not `symbolic`, these are all."""

    ints: int
    symbolic: bool = True
    why: str = ""
    """Why the function runs as it is for these, if it does."""
    fixed: tuple[int, ...] = ()
    variants: dict[tuple[int, ...], list[Variant]] = field(
        default_factory=dict[tuple[int, ...], list[Variant]]
    )

    def key(self, ints: Sequence[int]) -> tuple[int, ...]:
        """Those that have to stay."""
        return tuple([ints[i] for i in self.fixed])

    def of(self, ints: Sequence[int]) -> list[Variant]:
        """The variants for these ints."""
        return self.variants.get(self.key(ints), [])

    def add(self, variant: Variant, ints: Sequence[int], fixed: frozenset[int]) -> None:
        """Remember a variant that these ints led to."""
        if not fixed <= set(self.fixed):  # what was recorded before is found by other ints now
            self.fixed = tuple(sorted({*self.fixed, *fixed}))
            self.variants = {}
        key = self.key(ints)
        before = self.variants.get(key, ())
        self.variants[key] = [variant, *[v for v in before if v.read.alive][:_KEPT]]
        if len(self.variants) > _KINDS:
            del self.variants[next(iter(self.variants))]

    def take_apart(self) -> None:
        """Let all ints stay what they are."""
        self.symbolic = False
        self.fixed = tuple(range(self.ints))
        self.variants = {}


@final
class Scalars:
    """The compiled forms of a function `f` of Values, by structure and static arguments."""

    def __init__(self, f: Callable[..., Any], name: str, retraces: Any) -> None:
        self._f = f
        self._name = name
        self._kinds: dict[Any, _Kind] = {}
        self._retraces = retraces
        self._known = Known()
        self._updates = Updates()
        self._latest: Variant | None = None
        self._why = ""
        """Why the latest call ran as it is, if it did."""
        self._recorded = 0
        self._met: set[Any] = set()
        """What came once, and was not recorded."""
        self._key: Any = None
        """The key of what the latest variant was given."""
        self._short: Any = None
        """Its short key, if it has one."""

    def again(self, args: Sequence[Any]) -> Any:
        """The value of f for arguments like those of the latest call, where all that it read is as
        it was; else `MISFIT`."""
        variant = self._latest
        if variant is None or not variant.proven or not variant.stays():
            return MISFIT
        short = _short(args)
        if short is not None:
            key, leaves = short
            if key != self._short:
                return MISFIT
        else:
            leaves, structure = flatten((list(args), {}))
            if (structure, tuple([_kind(x) for x in leaves])) != self._key:
                return MISFIT
        chosen = variant.chosen([x for x in leaves if type(x) is int])
        return MISFIT if chosen is None else variant.call(leaves, chosen)

    def stays(self) -> bool:
        """Whether all that the latest call could read is certainly as it was."""
        return bool(self._why) or (self._latest is not None and self._latest.stays())

    def runs(self) -> Runs:
        """What the latest call ran."""
        assert self._latest is not None, f"{self._name} was never called"
        return self._latest.runs

    def explained(self) -> str:
        """What the latest call ran, in words."""
        if self._why:
            return f"{self._name} runs as it is: {self._why}"
        step = None if self._latest is None else self._latest.step
        text = explained(self._name, self.runs(), None if step is None else step.update)
        if self._met:
            text += f"\n{len(self._met):,} kinds of arguments came once, and ran as they are"
        return text

    def variants(self) -> Iterator[Variant]:
        """All that is remembered."""
        for kind in self._kinds.values():
            for found in kind.variants.values():
                yield from found

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, bool]:
        """The value of f, and whether it was traced for it."""
        leaves, structure = flatten((list(args), kwargs))
        self._short = None
        key = structure, tuple([_kind(x) for x in leaves])
        ints = [x for x in leaves if type(x) is int]
        try:
            kind = self._kinds.setdefault(key, _Kind(len(ints)))
        except TypeError as cause:
            raise TraceError(
                f"jit: {self._name} is given an argument that is neither a Value, a number nor "
                f"hashable ({cause})"
            ) from cause
        if kind.why:
            return self._as_it_is(kind, args, kwargs)
        self._why = ""
        variants = kind.of(ints)
        for variant in variants:
            chosen = variant.chosen(ints)
            if chosen is None or not (variant.stays() or variant.read.changed() is None):
                continue
            if variant.proven:
                self._remember(variant, key, args, kwargs)
                return variant.call(leaves, chosen), False
            proof = proven if variant.step is None else proven_step
            found = proof(
                self._f, args, kwargs, variant, lambda v=variant, c=chosen: v.call(leaves, c)
            )
            if variant.proven:
                self._remember(variant, key, args, kwargs)
                return found, False
            kind.take_apart()
            if variant.step is not None:
                return found, False
            break
        if not variants and self._is_new((key, kind.key(ints))):
            return self._f(*args, **kwargs), False
        if variants and (change := variants[0].read.changed()) is not None:
            self._retraces.note_change(self._name, *change)
        try:
            variant = self._record(kind, leaves, ints, structure)
        except DependsOnDataError as why:
            kind.why = str(why)
            return self._as_it_is(kind, args, kwargs)
        self._remember(variant, key, args, kwargs)
        if len(self._kinds) > _KINDS:
            del self._kinds[next(iter(self._kinds))]
        chosen = variant.chosen(ints)
        assert chosen is not None, "the ints of a recording meet its conditions"
        return variant.call(leaves, chosen), True

    def _remember(self, variant: Variant, key: Any, args: Any, kwargs: Any) -> None:
        """Let the next call that is like this one go the short way."""
        self._latest, self._key = variant, key
        short = None if kwargs else _short(args)
        self._short = None if short is None else short[0]

    def _as_it_is(self, kind: _Kind, args: Any, kwargs: Any) -> tuple[Any, bool]:
        self._latest, self._why = None, kind.why
        return self._f(*args, **kwargs), False

    def _is_new(self, key: Any) -> bool:
        """Whether arguments come for the first time, and are rather not recorded."""
        new = self._recorded >= _PATIENCE and key not in self._met
        if new:
            self._met.add(key)
        elif len(self._met) > _MET:
            self._met.clear()
        return new

    def _record(
        self, kind: _Kind, leaves: Sequence[Any], ints: Sequence[int], structure: Structure
    ) -> Variant:
        """What f does for arguments with these leaves."""
        self._recorded += 1
        if kind.symbolic and ints:
            try:
                variant, fixed = self._variant(leaves, structure, symbolic=True)
            except Exception:  # whatever a program may do to what is no int
                variant, fixed = self._variant(leaves, structure, symbolic=False)
                kind.take_apart()
        else:
            variant, fixed = self._variant(leaves, structure, symbolic=False)
        kind.add(variant, ints, fixed)
        return variant

    def _variant(
        self, leaves: Sequence[Any], structure: Structure, *, symbolic: bool
    ) -> tuple[Variant, frozenset[int]]:
        """What f does, and the numbers of the ints that have to stay."""
        ints = tuple([x for x in leaves if type(x) is int])
        recorder = Recorder(self._f, self._name, leaves, structure)
        notes = recorder.reach()
        found = step = None
        if any("backward" in names_in(f.__code__) for f in notes.functions):
            found = StepRecorder(self._f, self._name, leaves, structure, symbolic).record(notes)
        if found is None:
            found = recorder.record(symbolic=symbolic)
            runs = Runs(found.tape, self._known)
        else:
            step = Step(found, self._known, self._updates)
            runs = step.runs
            chosen = indices(found.check, ints)
            if not all(step.agrees(x, chosen) for x in found.outcomes):
                raise DependsOnDataError(
                    f"{self._name} looks at the data or gradients of Values (a branch, int(), the "
                    "largest of several): for other numbers it does something else than at first"
                )
        stays = watcher(found.read, loops().unchanged, loops().guarded)
        proven = len(found.fixed) == len(ints) or not symbolic
        args = (runs, found.structure, found.read, stays, ints, found.check, proven, step)
        return Variant(*args), found.fixed


def _kind(x: Any) -> Any:
    """What a leaf is, as far as the tape depends on it, ints aside."""
    kind = cast("type[object]", type(x))
    return kind if is_number(x) or kind is int else (kind, x)


def _short(args: Sequence[Any]) -> tuple[Any, list[Any]] | None:
    """A key that is quickly had, and the leaves, of arguments that are numbers or lists of ints."""
    key: list[Any] = []
    leaves: list[Any] = []
    for x in args:
        kind = cast("type[object]", type(x))
        if kind is int or kind is float:
            key.append(kind)
            leaves.append(x)
        elif kind is list and set(map(type, x)) == {int}:
            key.append(len(x))
            leaves += x
        else:
            return None
    return key, leaves


def takes(f: Callable[..., Any] | None, leaves: Sequence[Any], *, otherwise: bool = False) -> bool:
    """Whether a call is one of Values: one is among the arguments, or, where these have neither
    tensors nor arrays, f reaches one by itself, or it is one `otherwise`."""
    if any(isinstance(x, Value) for x in leaves):
        return True
    if any(isinstance(x, Tensor | np.ndarray | np.generic) for x in leaves):
        return False
    return otherwise or reaches_value(f)
