"""What arguments are alike: those of one key share what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

from chainrule.compile.scalars.record import is_number

Split = Callable[[Sequence[Any]], "tuple[list[int], list[float]] | None"]
"""Of arguments like those that it was made for their ints and their floats; None of others."""


def kind_of(x: Any) -> Any:
    """What a leaf is, as far as the tape depends on it, ints aside: an object that may change is
    itself, however equal another one is."""
    kind = cast("type[object]", type(x))
    if is_number(x) or kind is int:
        return kind
    return (kind, x, id(x)) if hasattr(x, "__dict__") else (kind, x)


def split_like(args: Sequence[Any]) -> Split | None:
    """What takes arguments apart quickly that are like these: numbers, or lists or tuples of
    nothing but ints or floats; None if one is anything else."""
    key: list[tuple[Any, ...]] = []
    for x in args:
        kind = cast("type[object]", type(x))
        if kind is int or kind is float:
            key.append((kind,))
        elif (kind is list or kind is tuple) and (kinds := set(map(type, x))) in _ALIKE:
            key.append((kind, *kinds, len(x)))
        else:
            return None
    return _written(tuple(key))


@lru_cache(maxsize=256)
def _written(key: tuple[tuple[Any, ...], ...]) -> Split:
    """The function for arguments of a key: their kinds, and of what contains several also the kind
    and the number of these."""
    names = [f"x{i}" for i in range(len(key))]
    tests: list[str] = []
    parts: dict[Any, list[str]] = {int: [], float: []}
    for name, (kind, *inner) in zip(names, key, strict=True):
        tests.append(f"type({name}) is {kind.__name__}")
        if inner:
            each, n = inner
            tests += [f"len({name}) == {n}", f"set(map(type, {name})) == {each.__name__}s"]
        parts[inner[0] if inner else kind].append(f"*{name}" if inner else name)
    lines = [
        "def split(args):",
        f"    if len(args) != {len(key)}: return None",
        *([f"    {', '.join(names)}, = args"] if names else []),
        f"    if not ({' and '.join(tests) or True}): return None",
        f"    return [{', '.join(parts[int])}], [{', '.join(parts[float])}]",
    ]
    space: dict[str, Any] = {"ints": {int}, "floats": {float}}
    exec(compile("\n".join(lines), "<arguments>", "exec"), space)
    return space["split"]


_ALIKE = ({int}, {float})
