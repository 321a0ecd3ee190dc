"""What arguments are alike: those of one key share what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from chainrule.compile.scalars.record import is_number


def kind_of(x: Any) -> Any:
    """What a leaf is, as far as the tape depends on it, ints aside."""
    kind = cast("type[object]", type(x))
    return kind if is_number(x) or kind is int else (kind, x)


def short_key(args: Sequence[Any]) -> tuple[Any, list[Any]] | None:
    """A key that is quickly had, and the leaves, of arguments that are numbers, or lists or
    tuples of nothing but ints or floats."""
    key: list[Any] = []
    leaves: list[Any] = []
    for x in args:
        kind = cast("type[object]", type(x))
        if kind is int or kind is float:
            key.append(kind)
            leaves.append(x)
        elif (kind is list or kind is tuple) and (kinds := set(map(type, x))) in _ALIKE:
            key += kind, *kinds, len(x)
            leaves += x
        else:
            return None
    return key, leaves


_ALIKE = ({int}, {float})
