"""The traces of a function, by what they were made for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, final

from chainrule.compile.runtime.backend import without_gc
from chainrule.compile.runtime.call.arguments import Given
from chainrule.compile.runtime.call.dynamic_axes import record_sized
from chainrule.compile.runtime.call.sized_program import Sized
from chainrule.compile.runtime.native_program import Native
from chainrule.compile.trace.variant import Variant

_MOST = 16
"""How many traces for arguments of one kind are remembered: the latest ones."""


@final
class Traces:
    """Variants by the key of what they are given, the latest first; none of a key that nobody has
    asked for. It is true once a key was asked for."""

    def __init__(self, f: Callable[..., Any], name: str) -> None:
        self._f, self._name = f, name
        self._by_key: dict[Any, list[Variant]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def of(self, given: Given) -> list[Variant]:
        """Those for such arguments; the list is kept."""
        return self._by_key.setdefault(given.key(), [])

    def known(self, given: Given) -> Sequence[Variant]:
        """The same, where nothing is kept."""
        return self._by_key.get(given.key(), ())

    def record(self, given: Given) -> Variant:
        """A new variant for these arguments."""
        began = perf_counter()
        with without_gc():
            variant = record_sized(self._name, given.leaves, given.axes, given.call(self._f))
        variant.seconds = perf_counter() - began
        return variant


def put_first(variants: list[Variant], variant: Variant) -> None:
    """Remember a new variant; older ones give their memory back: the first step of a training is
    often one of its own."""
    older = [v for v in variants if not v.is_gone][: _MOST - 1]
    variants[:] = [variant, *older]
    for v in older:
        if isinstance(v.run, Native | Sized):
            v.run.forget()
