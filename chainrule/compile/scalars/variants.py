"""What was recorded of a function, by the arguments that it was recorded for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.compile.scalars.gathers import Chosen, as_chosen
from chainrule.compile.scalars.ints.symbolic import Check
from chainrule.compile.scalars.results import result_of
from chainrule.compile.scalars.runs import Runs
from chainrule.compile.scalars.steps.step import Step
from chainrule.compile.trace.guards.guards import Guards
from chainrule.compile.trace.variant import MISFIT
from chainrule.scalar import Value
from chainrule.tree import Structure

_KEPT = 15
"""How many older tapes are remembered for arguments of one kind."""
_KINDS = 100
"""How many kinds of arguments are remembered: each document of a training run may be one."""


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

    def found(self, ints: Sequence[int]) -> tuple[int, ...] | None:
        """What its condition gives for these ints, None if it does something else for them."""
        if self.check is None:
            return () if tuple(ints) == self.ints else None
        if self.step is not None and self.step.state.counts:
            ints = [*ints, *[c.value for c in self.step.state.counts]]
            if set(map(type, ints)) != {int}:
                return None
        return self.check(ints)

    def chosen(self, ints: Sequence[int]) -> Chosen | None:
        """The same as an array, which begins with the indices of its gathers."""
        return as_chosen(self.found(ints))

    def call_if_it_stays(self, numbers: Sequence[Any], found: tuple[int, ...]) -> Any:
        """What `call` gives for leaves of which these are the `numbers`, if all that f reads is
        certainly as it was; else `MISFIT`."""
        if self.step is not None:
            return self.step.call_if_it_stays(numbers, found)
        chosen = as_chosen(found)
        return MISFIT if chosen is None or not self.stays() else self.call(numbers, chosen)

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
class Kind:
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
        forget_oldest(self.variants)

    def take_apart(self) -> None:
        """Let all ints stay what they are."""
        self.symbolic = False
        self.fixed = tuple(range(self.ints))
        self.variants = {}


def forget_oldest(by_kind: dict[Any, Any]) -> None:
    """Keep no more than so many kinds."""
    if len(by_kind) > _KINDS:
        del by_kind[next(iter(by_kind))]
