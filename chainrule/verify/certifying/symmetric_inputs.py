"""Symmetric inputs of which a forward reads one half: Cholesky factors, eigenvalues.

What is above the diagonal is known from what is below it, so that nobody looks at it. Then the
derivative by one element alone says nothing: what counts is that along symmetric directions, and a
backward may give half of it to each of the two. So such a subject is looked at as a function of
half the sum of the matrix and its transpose, and its gradient is made symmetric likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

import numpy as np

from chainrule.verify.measure.points.value_kinds import is_symmetric
from chainrule.verify.subject import Array, Source, Subject, wanted

_Changed: TypeAlias = Callable[[Callable[..., Any]], Subject]
"""From another function to the subject that has it."""


def by_halves(subject: Subject) -> Subject:
    """The subject, as a function of symmetric matrices where its forward reads one half of some."""
    halves = frozenset([k for k in wanted(subject) if _is_half_read(subject, k)])
    return _Symmetric(subject, halves) if halves else subject


class _Symmetric(Subject):
    """A subject whose inputs `halves` are made symmetric before it sees them."""

    def __init__(self, subject: Subject, halves: frozenset[int]) -> None:
        self.subject, self.halves = subject, halves
        self.name, self.kind, self.inputs = subject.name, subject.kind, subject.inputs
        self.place, self.backward_place = subject.place, subject.backward_place

    @property
    def takes_cotangent(self) -> bool:
        """Whether its code gets it, as without."""
        return self.subject.takes_cotangent

    def _made(self, xs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([_symmetrized(x) if k in self.halves else x for k, x in enumerate(xs)])

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """Outputs at the symmetric matrices."""
        return self.subject.forward(self._made(xs))

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """Gradients there, made symmetric."""
        return self._made(self.subject.pull(self._made(xs), gs))

    def interrupted(
        self, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
    ) -> tuple[Array | None, ...] | None:
        """The same with another call in between."""
        found = self.subject.interrupted(self._made(xs), self._made(others), gs)
        return None if found is None else self._made(found)

    def repeated(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """The second of two calls at the symmetric matrices."""
        found = self.subject.repeated(self._made(xs), gs)
        return None if found is None else self._made(found)

    def resumed(
        self, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
    ) -> tuple[Array | None, ...] | None:
        """The same after another call."""
        found = self.subject.resumed(self._made(xs), self._made(others), gs)
        return None if found is None else self._made(found)

    def changes(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[str, ...]:
        """What is written into, as without."""
        return self.subject.changes(self._made(xs), gs)

    def summed(self, xs: Sequence[Any], gs: Sequence[Array]) -> dict[int, tuple[int, ...]]:
        """What the engine sums, as without."""
        return self.subject.summed(self._made(xs), gs)

    def derived(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """What is derived from the forward, made symmetric."""
        found = self.subject.derived(self._made(xs), gs)
        return None if found is None else self._made(found)

    @property
    def source(self) -> Source | None:
        """The same code, changed within subjects like this one."""
        source = self.subject.source
        return None if source is None else self._within(source)

    def _within(self, source: Source) -> Source:
        def within(changed: _Changed) -> _Changed:
            return lambda function: _Symmetric(changed(function), self.halves)

        return replace(
            source,
            replaced=within(source.replaced),
            computed=None if source.computed is None else within(source.computed),
            forward=None if source.forward is None else self._within(source.forward),
        )

    @property
    def fixed(self) -> str:
        """Why sizes cannot change, as without."""
        return self.subject.fixed

    @property
    def own_sizes(self) -> Mapping[int, str]:
        """Lengths that stay, as without."""
        return self.subject.own_sizes


def _symmetrized(x: Any) -> Any:
    """Half the sum of square matrices and their transposes; anything else as it is."""
    if not isinstance(x, np.ndarray):
        return x
    array = cast("Array", x)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        return array
    return np.asarray((array + array.swapaxes(-1, -2)) / 2, array.dtype)


def _is_half_read(subject: Subject, k: int) -> bool:
    """Whether input k is symmetric and the forward is blind to one side of its diagonal."""
    x = subject.inputs[k].value
    if not isinstance(x, np.ndarray) or not is_symmetric(cast("Array", x)):
        return False
    with np.errstate(all="ignore"):
        try:
            here = subject.forward([i.value for i in subject.inputs])
            seen = [_changes_output(subject, k, here, side) for side in (np.tril, np.triu)]
        except Exception:  # as the user's code raises it: of such values it is not meant
            return False
    return seen[0] != seen[1]


def _changes_output(
    subject: Subject, k: int, here: Sequence[Array], side: Callable[..., Array]
) -> bool:
    """Whether outputs change with the elements on one side of the diagonal."""
    x = cast("Array", subject.inputs[k].value)
    beside = side(np.ones_like(x), -1 if side is np.tril else 1)
    moved = np.asarray(x * (1 + beside / 64), x.dtype)
    xs = [moved if i == k else v.value for i, v in enumerate(subject.inputs)]
    there = subject.forward(xs)
    return any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(here, there, strict=True))
