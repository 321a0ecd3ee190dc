"""What a traced function writes: a later call must find there what it left, or do it again."""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CellType
from typing import Any, final

from chainrule.compile.trace.guards.cells import content
from chainrule.compile.trace.guards.places import (
    ABSENT,
    Answer,
    Closure,
    Expected,
    Items,
    Names,
    Reading,
    Source,
)


@final
class Written:
    """Places by holder and key; of a cell the key is None."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, Any], tuple[Any, Reading]] = {}

    def has(self, holder: Any, key: Any) -> bool:
        """Whether a place was written."""
        return (id(holder), key) in self._places

    def add(self, holder: Any, key: Any, reading: Reading) -> None:
        """A place is about to be written."""
        self._places.setdefault((id(holder), key), (holder, reading))

    def sources(
        self, changes: Callable[[Any], bool], expect: Callable[[Any, Reading], Expected]
    ) -> Iterator[Source]:
        """What is there now, as places to compare. Of values that cannot change there is none;
        `expect` says what is expected of one."""
        for (_, key), (holder, reading) in self._places.items():
            value = _value_at(holder, key)
            if changes(value):
                yield _place(holder, key, value, expect(value, reading))


def _value_at(holder: Any, key: Any) -> Any:
    if isinstance(holder, CellType):
        return content(holder)
    if isinstance(holder, dict):
        return holder.get(key, ABSENT)
    if isinstance(holder, list):
        return holder[key] if key < len(holder) else ABSENT
    return getattr(holder, key, ABSENT)


def _place(holder: Any, key: Any, value: Any, e: Expected) -> Source:
    if isinstance(holder, CellType):
        return Closure(holder, e)
    if isinstance(holder, dict):
        return Names(holder, {key: e})
    if isinstance(holder, list):
        n = len(holder)
        return Items(holder, n, e.reading, {key % n: e} if n else {})
    return Answer(lambda: getattr(holder, key, ABSENT), value, e.reading)
