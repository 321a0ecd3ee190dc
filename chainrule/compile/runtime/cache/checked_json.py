"""JSON that may have come from anybody: each value is looked at before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, final

MOST = 1 << 48
"""No size, offset, stride or array in memory is larger: addresses have 48 bits."""


@final
class MalformedError(ValueError):
    """Bytes that are no entry of what was asked for."""


def record(x: Any, names: Sequence[str]) -> dict[str, Any]:
    """`x`, a dictionary with exactly these keys."""
    if not isinstance(x, dict) or set(cast("dict[str, Any]", x)) != set(names):
        raise MalformedError("other fields")
    return cast("dict[str, Any]", x)


def sequence(x: Any, count: int | None = None) -> list[Any]:
    """`x`, a list, of `count` things if that is said."""
    if not isinstance(x, list) or (count is not None and len(cast("list[Any]", x)) != count):
        raise MalformedError("no list of that length")
    return cast("list[Any]", x)


def word(x: Any) -> str:
    """`x`, a text."""
    if not isinstance(x, str):
        raise MalformedError("no text")
    return x


def number(x: Any, least: int = 0) -> int:
    """`x`, an integer that is no less."""
    if type(x) is not int or not least <= x <= MOST:
        raise MalformedError("no number, or a mad one")
    return x
