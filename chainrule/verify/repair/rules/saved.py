"""What a forward keeps for its backward and then changes: a copy is kept instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ATOM, as_part
from chainrule.verify.repair.rules.statements import own_copy
from chainrule.verify.repair.scene import Scene

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
