"""What the user calls the tensors that a function reaches by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, cast

_LIMIT = 100_000
"""How many objects are looked at."""


def called(f: Any, wanted: Iterable[Any]) -> dict[int, str]:
    """By id of each object of `wanted` that is found, what to call it: how `f` reaches it from its
    closure, its globals or its owner, or its name in the module that has it as a parameter.

    The shortest way wins, and one without private names over any other.
    """
    left = {id(x) for x in wanted}
    found: dict[int, str] = {}
    seen: set[int] = set()
    queue = [((name,), x) for name, x in _reached(f)]
    private: list[tuple[tuple[str, ...], Any]] = []
    while (queue or private) and left and len(seen) < _LIMIT:
        if not queue:
            queue, private = private, []
        level, queue = queue, []
        for path, x in level:
            for name, part in [(_spoken(path), x), *_named(x)]:
                if id(part) in left:
                    found[id(part)] = name
                    left.discard(id(part))
            if id(x) not in seen:
                seen.add(id(x))
                for name, part in _parts(x):
                    (private if name.startswith("_") else queue).append(((*path, name), part))
    return found


def _spoken(path: tuple[str, ...]) -> str:
    """A path as a name: what lies behind something private is its owner's."""
    words = [w for w in path if w]
    if any(w.startswith("_") for w in words):
        words = [words[0], words[-1]]
    return ".".join([w.strip("_") for w in words])


def _named(x: Any) -> Iterator[tuple[str, Any]]:
    """The parameters and buffers of a module."""
    for members in ("named_parameters", "named_buffers"):
        found: Any = getattr(x, members, None)
        if not isinstance(x, type) and callable(found):
            yield from cast("Iterator[tuple[str, Any]]", found())


def _reached(f: Any) -> Iterator[tuple[str, Any]]:
    """What the code of `f` names: its owner, its closure, the globals that it uses."""
    owner = getattr(f, "__self__", None)
    if owner is not None:
        yield "", owner
        f = getattr(f, "__func__", f)
    code = getattr(f, "__code__", None)
    if code is None:
        yield "", f
        return
    for name, cell in zip(code.co_freevars, getattr(f, "__closure__", None) or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # nothing in it yet
            continue
    known: Mapping[str, Any] = getattr(f, "__globals__", {})
    yield from [(name, known[name]) for name in code.co_names if name in known]


def _parts(x: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, by name."""
    if isinstance(x, str | bytes | int | float | type | ModuleType):
        return
    if isinstance(x, Mapping):
        pairs = cast("Mapping[Any, Any]", x).items()
        yield from [(str(k), v) for k, v in pairs if isinstance(k, str | int)]
    elif isinstance(x, list | tuple | set | frozenset):
        yield from [(str(i), v) for i, v in enumerate(cast("Iterable[Any]", x))]
    elif hasattr(x, "__code__"):
        yield from _reached(x)
    elif hasattr(x, "__dict__"):
        yield from cast("dict[str, Any]", vars(x)).items()
