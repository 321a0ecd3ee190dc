"""What an object of the user's holds: its arrays, by the way that leads to each.

A `Way` is how an array is reached from the object: `.W`, `.params['W']`, `.layers[0].W`. It works
for the object and for copies of it alike.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np

_DEPTH = 6
"""How far down it is looked."""


@dataclass(frozen=True)
class Way:
    """Steps from an object to something in it: (True, "W") for an attribute, (False, key)."""

    steps: tuple[tuple[bool, Any], ...] = ()

    def attribute(self, name: str) -> Way:
        """On to an attribute."""
        return Way((*self.steps, (True, name)))

    def item(self, key: Any) -> Way:
        """On to an entry of a dict or list."""
        return Way((*self.steps, (False, key)))

    def then(self, other: Way) -> Way:
        """On along another way."""
        return Way((*self.steps, *other.steps))

    @property
    def parent(self) -> Way:
        """The way to what holds it."""
        return Way(self.steps[:-1])

    @property
    def last(self) -> Any:
        """The name or key of the last step."""
        return self.steps[-1][1]

    def get(self, root: Any) -> Any:
        """What is there; raises `LookupError` or `AttributeError` if nothing is."""
        for by_name, key in self.steps:
            root = getattr(root, key) if by_name else root[key]
        return root

    def find(self, root: Any) -> Any:
        """What is there, None if nothing is."""
        try:
            return self.get(root)
        except (LookupError, AttributeError, TypeError):
            return None

    def put(self, root: Any, value: Any) -> None:
        """Put `value` there; a tuple on the way is replaced by another one."""
        holder = self.parent.get(root)
        by_name, key = self.steps[-1]
        if isinstance(holder, tuple):
            self.parent.put(root, _replaced(cast("tuple[Any, ...]", holder), key, value))
        elif by_name:
            setattr(holder, key, value)
        else:
            holder[key] = value

    def __str__(self) -> str:
        parts = [f".{key}" if by_name else f"[{key!r}]" for by_name, key in self.steps]
        return "".join(parts).removeprefix(".")


def _replaced(old: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    """The tuple, or named tuple, with another entry."""
    entries = [*old[:index], value, *old[index + 1 :]]
    make: Any = getattr(old, "_make", tuple)
    return make(entries)


def attributes(x: Any) -> dict[str, Any]:
    """The attributes that the object `x` keeps, in order; its slots too."""
    kept: dict[str, Any] = dict(getattr(x, "__dict__", {}))
    for cls in type(cast(object, x)).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if name not in ("__dict__", "__weakref__") and hasattr(x, name):
                kept.setdefault(name, getattr(x, name))
    return kept


def is_object(x: Any) -> bool:
    """Whether `x` is an object of a class that somebody wrote, with something in it."""
    plain = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType, np.ndarray)
    foreign = type(x).__module__.split(".")[0] in ("numpy", "builtins", "scipy", "chainrule")
    return not isinstance(x, plain) and not foreign and hasattr(x, "__dict__")


def walk(root: Any) -> Iterator[tuple[Way, Any]]:
    """Everything below `root`, with the way to it; each container once, arrays every time."""
    yield from _walk(root, Way(), set(), 0)


def _walk(x: Any, way: Way, seen: set[int], depth: int) -> Iterator[tuple[Way, Any]]:
    if depth > _DEPTH or id(x) in seen:
        return
    parts = list(_parts(x, way))
    if parts:
        seen.add(id(x))
    for there, part in parts:
        yield there, part
        yield from _walk(part, there, seen, depth + 1)


def _parts(x: Any, way: Way) -> Iterator[tuple[Way, Any]]:
    if isinstance(x, dict):
        entries = cast("dict[Any, Any]", x)
        yield from ((way.item(k), v) for k, v in entries.items() if isinstance(k, str | int))
    elif isinstance(x, list | tuple):
        yield from ((way.item(i), v) for i, v in enumerate(cast("list[Any]", x)))
    elif is_object(x):
        yield from ((way.attribute(k), v) for k, v in attributes(x).items())


def duplicate(x: Any, but: Iterable[Any] = ()) -> Any:
    """A deep copy of an object; where Python cannot copy a part (a lock, a file), that is shared.

    So are the parts in `but`: arrays, say, in whose places others are put at once.
    """
    shared = {id(part): part for part in but}
    try:
        return copy.deepcopy(x, dict(shared))
    except Exception:
        shared |= {id(part): part for _, part in walk(x) if _is_stuck(part)}
        return copy.deepcopy(x, shared)


def _is_stuck(x: Any) -> bool:
    if isinstance(x, dict | list | tuple) or is_object(x):
        return False  # its parts are asked one by one
    try:
        copy.deepcopy(x)
    except Exception:
        return True
    return False
