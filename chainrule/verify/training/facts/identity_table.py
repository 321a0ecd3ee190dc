"""What is known of values while they live: a table by identity that holds none of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, final

_T = TypeVar("_T")


@final
class IdentityTable(Generic[_T]):
    """Rows by value; one is gone when its value is. `changed` is called whenever any comes or
    goes."""

    def __init__(self, changed: Callable[[], object] = lambda: None) -> None:
        self._rows: dict[int, tuple[weakref.ref[Any], _T]] = {}
        self._changed = changed

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, value: Any, row: _T) -> None:
        """Know something of a value, while it lives."""
        key = id(value)
        self._rows[key] = weakref.ref(value, lambda _: self._gone(key)), row
        self._changed()

    def of(self, value: Any) -> _T | None:
        """What is known of it; None if nothing is."""
        row = self._rows.get(id(value))
        return row[1] if row is not None and row[0]() is value else None

    def clear(self) -> None:
        """Forget all."""
        self._rows.clear()

    def _gone(self, key: int) -> None:
        self._rows.pop(key, None)
        self._changed()
