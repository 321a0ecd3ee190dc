"""What a forward keeps for its backward: a copy of what it changes then, another value, or the same
at another time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import cast

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ATOM, as_part
from chainrule.verify.repair.rules.statements import own_copy
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.watch import shape_of

_KEEPERS = ("save_for_backward", "append", "dict", "update")


def kept_copies(scene: Scene) -> Iterator[Edit]:
    """A copy of each array that is kept: on `ctx`, on `self`, in a cache that is returned; or of
    what is written into."""
    copy = "clone" if scene.torch else "copy"
    for node in scene.expressions:
        named = isinstance(node, ast.Name | ast.Attribute) and scene.is_array(node)
        if named and _is_kept(scene, node):
            text = f"{as_part(scene.draft, node, ATOM)}.{copy}()"
            yield scene.put(node, text, "stale", 1.0)
    for edit in own_copy(scene):
        yield Edit(edit.start, edit.end, edit.text, "stale", 1.2, edit.says)


def kept_others(scene: Scene) -> Iterator[Edit]:
    """Another array of the same shape in place of each that is kept: `cache = (z,)` to
    `cache = (p,)`."""
    for node in scene.expressions:
        here, shape = scene.draft.src(node), scene.shape(node)
        if not shape or not isinstance(node, ast.Name | ast.Attribute):
            continue
        if _is_kept(scene, node) or isinstance(scene.draft.parents[node], ast.Assign):
            for name, value in scene.arrays_at(node).items():
                if name != here and name.isidentifier() and shape_of(value) == shape:
                    yield scene.put(node, name, "wrong_value", 1.3)


def kept_at_another_time(scene: Scene) -> Iterator[Edit]:
    """A statement that keeps something, before the one that it follows, or after the next one."""
    for node in scene.draft.nodes:
        block: object = getattr(node, "body", None)
        for a, b in pairwise(cast("list[ast.stmt]", block) if isinstance(block, list) else []):
            if any(isinstance(s, ast.Expr | ast.Assign) and _keeps(s) for s in (a, b)):
                (start, middle), (again, end) = scene.draft.span(a), scene.draft.span(b)
                first, between, second = _parts(scene, start, middle, again, end)
                says = f"`{second}` comes before `{first}`"
                yield Edit(start, end, second + between + first, "stale", 1.3, says)


def _parts(scene: Scene, start: int, middle: int, again: int, end: int) -> tuple[str, str, str]:
    body = scene.draft.body
    return body[start:middle], body[middle:again], body[again:end]


def _keeps(statement: ast.Expr | ast.Assign) -> bool:
    """Whether a statement gives an array a further name, or puts it into something."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))):
            return name in _KEEPERS
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.Assign(value=ast.Name() | ast.Tuple() | ast.Dict() | ast.List()):
            return True
        case _:
            return False


def _is_kept(scene: Scene, node: ast.expr) -> bool:
    parent = scene.draft.parents[node]
    match parent:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            return name in _KEEPERS
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.Tuple() | ast.List() | ast.Dict() | ast.keyword():
            return True
        case _:
            return False
