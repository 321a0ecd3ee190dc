"""A compiled function of `Value`s: run once to record what it does, then run as a tape.

Arguments of one kind (structure, classes, what is neither number nor int) share what was recorded.
Ints count as data as far as the recording allows: where it says that one has to stay, only
arguments with the same one share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.scalars.explanation import explained
from chainrule.compile.scalars.gathers import Chosen
from chainrule.compile.scalars.ints.failures import OnSymbolsError
from chainrule.compile.scalars.keys import Split, kind_of, split_like
from chainrule.compile.scalars.machine import loops
from chainrule.compile.scalars.record import (
    DependsOnDataError,
    Recorder,
    Recording,
    indices,
    is_number,
)
from chainrule.compile.scalars.reroll.containers import objects_among, reaches_value
from chainrule.compile.scalars.reroll.known_programs import Known
from chainrule.compile.scalars.runs import Runs
from chainrule.compile.scalars.steps.record import StepRecorder, counting_backward
from chainrule.compile.scalars.steps.state import State
from chainrule.compile.scalars.steps.step import Step
from chainrule.compile.scalars.steps.storage import Storages
from chainrule.compile.scalars.steps.update import Updates
from chainrule.compile.scalars.trial_call import other_ints, prove, proven, proven_step
from chainrule.compile.scalars.variants import Kind, Variant, forget_oldest
from chainrule.compile.trace.guards.reachable_state import names_in
from chainrule.compile.trace.guards.watcher import Watcher
from chainrule.compile.trace.variant import MISFIT
from chainrule.engine.tensors import Tensor
from chainrule.errors import TraceError
from chainrule.scalar import Value
from chainrule.tree import Structure, flatten

_MET = 10_000
"""How many kinds of arguments that came once are remembered."""
_PATIENCE = 4
"""Recordings after which arguments of a new kind, or with other ints that have to stay, have to
come twice to be recorded: that takes as long as many runs of the program."""


@final
class Scalars:
    """The compiled forms of a function `f` of Values, by structure and static arguments."""

    def __init__(
        self, f: Callable[..., Any], name: str, retraces: Any, *, any_order: bool = False
    ) -> None:
        self._f = f
        self._name = name
        self._kinds: dict[Any, Kind] = {}
        self._retraces = retraces
        self.known = Known(any_order=any_order)
        self._updates = Updates(any_order=any_order)
        self._storages = Storages()
        self._latest: Variant | None = None
        self._why = ""
        """Why the latest call ran as it is, if it did."""
        self._recorded = 0
        self._calls_backward: bool | None = None
        """Whether it did when it was recorded last."""
        self._met: set[Any] = set()
        """What came once, and was not recorded."""
        self._key: Any = None
        """The key of what the latest variant was given."""
        self._split: Split | None = None
        """Takes arguments apart that are like those, if it can be done quickly."""

    def again(self, args: Sequence[Any]) -> Any:
        """The value of f for arguments like those of the latest call, where all that it read is as
        it was; else `MISFIT`."""
        variant = self._latest
        if variant is None or not variant.proven:
            return MISFIT
        if self._split is not None:
            if (given := self._split(args)) is None:
                return MISFIT
            ints, numbers = given
        else:
            leaves, structure = flatten((list(args), {}))
            if (structure, tuple([kind_of(x) for x in leaves])) != self._key:
                return MISFIT
            ints = [x for x in leaves if type(x) is int]
            numbers = [x for x in leaves if is_number(x)]
        found = variant.found(ints)
        return MISFIT if found is None else variant.call_if_it_stays(numbers, found)

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
        self._split = None
        key = structure, tuple([kind_of(x) for x in leaves])
        ints = [x for x in leaves if type(x) is int]
        try:
            kind = self._kinds.setdefault(key, Kind(len(ints)))
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
            found = self._known_one(variant, leaves, chosen, (args, kwargs))
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
        return self._new(kind, (leaves, structure, ints), key, (args, kwargs))

    def variant_for(self, args: Any, kwargs: Any, others: Iterable[Sequence[int]]) -> Variant:
        """What would run for these arguments: proven for other ints, which may be among `others`,
        or for these alone. Nothing is changed. Raises `TraceError` if f runs as it is."""
        leaves, structure = flatten((list(args), kwargs))
        ints = [x for x in leaves if type(x) is int]
        kind = self._kinds.setdefault((structure, tuple(map(kind_of, leaves))), Kind(len(ints)))
        fits = [
            v for v in kind.of(ints)
            if v.chosen(ints) is not None and v.read.changed() is None
        ]  # fmt: skip
        try:
            if kind.why:
                raise DependsOnDataError(kind.why)
            variant = fits[0] if fits else self._record(kind, leaves, ints, structure)
            if not variant.proven:
                prove(self._f, variant, (leaves, structure), [*others, *other_ints(ints)])
            if not variant.proven:
                variant, _ = self._variant(leaves, structure, symbolic=False)
        except DependsOnDataError as why:
            raise TraceError(f"{self._name} runs as it is, so no program is known: {why}") from None
        return variant

    def _known_one(
        self, variant: Variant, leaves: Sequence[Any], chosen: Chosen, given: tuple[Any, Any]
    ) -> Any:
        """What a variant gives; if it is not proven, it may be now."""
        if variant.proven:
            return variant.call(leaves, chosen)
        proof = proven if variant.step is None else proven_step
        return proof(self._f, *given, variant, lambda: variant.call(leaves, chosen))

    def _new(
        self,
        kind: Kind,
        of: tuple[Sequence[Any], Structure, Sequence[int]],
        key: Any,
        given: tuple[Any, Any],
    ) -> tuple[Any, bool]:
        """The value of f for arguments that no variant is for."""
        leaves, structure, ints = of
        try:
            variant = self._record(kind, leaves, ints, structure)
        except DependsOnDataError as why:
            kind.why = str(why)
            return self._as_it_is(kind, *given)
        self._remember(variant, key, *given)
        forget_oldest(self._kinds)
        chosen = variant.chosen(ints)
        assert chosen is not None, "the ints of a recording meet its conditions"
        return variant.call(leaves, chosen), True

    def _remember(self, variant: Variant, key: Any, args: Any, kwargs: Any) -> None:
        """Let the next call that is like this one go the short way."""
        self._latest, self._key = variant, key
        self._split = None if kwargs else split_like(args)

    def _as_it_is(self, kind: Kind, args: Any, kwargs: Any) -> tuple[Any, bool]:
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
        self, kind: Kind, leaves: Sequence[Any], ints: Sequence[int], structure: Structure
    ) -> Variant:
        """What f does for arguments with these leaves."""
        self._recorded += 1
        if kind.symbolic:
            try:
                variant, fixed = self._variant(leaves, structure, symbolic=True)
            except (OnSymbolsError, TraceError, DependsOnDataError):
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
            if self._calls_backward is False:
                found = self._without_backward(recorder, symbolic, leaves)
            if found is None:
                of = self._f, self._name, leaves, structure, symbolic
                found = StepRecorder(*of).record(notes)
                self._calls_backward = found is not None
        if found is None:
            found = recorder.record(symbolic=symbolic, lines=not self.known.framed)
        if isinstance(found, Recording):
            runs = Runs(found.tape, self.known)
            stays = Watcher(found.read, loops().unchanged, loops().guarded)
        else:
            stays = Watcher(found.read, loops().unchanged, loops().guarded)
            step = Step(found, self.known, self._updates, self._storages, stays)
            runs = step.runs
            chosen = indices(found.check, [*ints, *[c.value for c in found.state.counts]])
            if not all(step.agrees(x, chosen) for x in found.outcomes):
                raise DependsOnDataError(
                    f"{self._name} looks at the data or gradients of Values (a branch, int(), the "
                    "largest of several): for other numbers it does something else than at first"
                )
        counts = step is not None and bool(step.state.counts)
        proven = not counts and (len(found.fixed) == len(ints) or not symbolic)
        args = (runs, found.structure, found.read, stays, ints, found.check, proven, step)
        return Variant(*args), found.fixed

    def _without_backward(
        self, recorder: Recorder, symbolic: bool, leaves: Sequence[Any]
    ) -> Recording | None:
        """What f does, if it calls no `backward`, as in the calls before; else all is as it was."""
        put_back = State([self._f, *objects_among(leaves)]).saved()
        with counting_backward() as calls:
            try:
                found = recorder.record(symbolic=symbolic, lines=not self.known.framed)
            except Exception:
                if not calls:
                    raise
                found = None
        if calls:
            put_back()
            recorder.reach()
        return None if calls else found


def takes(f: Callable[..., Any] | None, leaves: Sequence[Any], *, otherwise: bool = False) -> bool:
    """Whether a call is one of Values: one is among the arguments, or, where these have neither
    tensors nor arrays, f or an object among these reaches one, or it is one `otherwise`."""
    if any(isinstance(x, Value) for x in leaves):
        return True
    if any(isinstance(x, Tensor | np.ndarray | np.generic) for x in leaves):
        return False
    return otherwise or reaches_value(f) or any(map(reaches_value, objects_among(leaves)))
