"""What holds several values where another of its kind belongs: the cache of another call, say."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.reach import atoms
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import is_simple
from chainrule.verify.repair.watch import shape_of

_MOST = 12
"""Others of a kind that are tried."""
_DEPTH = 3


def other_record(scene: Scene) -> Iterator[Edit]:
    """Another tuple, list, dict or object with arrays of the same shapes: `right_cache` to
    `left_cache`, `self.second` to `self.first`."""
    read = [n for n in scene.expressions if is_simple(n) and _is_record(scene.value(n))]
    if not read:
        return
    simple = [(scene.draft.src(n), scene.value(n)) for n in read]
    known = dict(atoms(scene.draft, scene.watched.names, simple, scene.unread))
    known = {k: v for k, v in known.items() if _is_record(v)}
    for node in read:
        held, here = scene.value(node), scene.draft.src(node)
        others = [k for k, v in known.items() if k != here and v is not held and _alike(v, held)]
        for name in others[:_MOST]:
            yield scene.put(node, name, "wrong_value", 1.1 + 0.2 * (not isinstance(node, ast.Name)))


def _is_record(value: Any) -> bool:
    """Whether a value holds arrays, and is none."""
    return shape_of(value) is None and any(shape_of(v) for v in _held(value))


def _held(value: Any) -> Sequence[Any]:
    """What a value holds."""
    match value:
        case tuple() | list():
            return cast("Sequence[Any]", value)
        case Mapping():
            return list(cast("Mapping[Any, Any]", value).values())
        case type() | ModuleType():
            return ()
        case _:
            kept = getattr(value, "__dict__", None)
            return list(cast("dict[str, Any]", kept).values()) if isinstance(kept, dict) else ()


def _alike(a: Any, b: Any, depth: int = 0) -> bool:
    """Whether two values hold the same kinds of things, as far as they are looked into."""
    if type(a) is not type(b) or shape_of(a) != shape_of(b):
        return False
    if shape_of(a) is not None or depth == _DEPTH:
        return True
    some, others = _held(a), _held(b)
    pairs = zip(some, others, strict=False)
    return len(some) == len(others) and all(_alike(x, y, depth + 1) for x, y in pairs)
