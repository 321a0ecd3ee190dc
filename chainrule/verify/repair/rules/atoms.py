"""An atom where another of the same observed type belongs: an array of its shape, a size."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import called
from chainrule.verify.repair.code.syntax import names_in
from chainrule.verify.repair.rule_costs import FAR, LIKELY, RARE, USUAL
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import is_count, plain, shape_of

_MAKERS = ("zeros", "empty", "ones", "full", "new_zeros", "broadcast_to")
"""Functions that are given a whole shape."""


def other_array(scene: Scene) -> Iterator[Edit]:
    """Another named array of the same shape; another cotangent, if it is a number."""
    functions = {n.func for n in scene.draft.nodes if isinstance(n, ast.Call)}
    for node in scene.expressions:
        here, shape = scene.draft.src(node), scene.shape(node)
        if node in functions or isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare):
            continue
        for name in scene.arrays_like(node) if shape else ():
            if name != here:
                far = FAR - RARE if "[" in name or "." in name else 0.0
                yield scene.put(node, name, _code(scene, node, name), USUAL + far)
        for name in scene.cotangents - {here} if here in scene.cotangents else ():
            if shape == shape_of(scene.watched.names.get(name)) == ():
                yield scene.put(node, name, "wrong_value", LIKELY)


def _code(scene: Scene, node: ast.expr, name: str) -> str:
    """What it is called if a name belongs where a node stands."""
    held, inside = plain(scene.value(node)), names_in(node)
    if isinstance(node, ast.Call) and called(node) in ("abs", "fabs", "absolute"):
        return "one_sided" if name in inside else "wrong_value"
    once = scene.watched.turns[scene.draft.index[node]] == 1
    if once and held is not None and not np.any(held):
        return "dropped"
    made = isinstance(node, ast.Call) and not inside & (set(scene.arrays) - scene.cotangents)
    if not made or name not in scene.cotangents:
        return "wrong_value"
    ones = isinstance(node, ast.Call) and called(node).endswith("_like")
    return "not_linear" if name in inside and not ones else "ignores_cotangent"


def other_size(scene: Scene) -> Iterator[Edit]:
    """A size that is written into the code, that is computed, or that is not the one meant."""
    for node in scene.expressions:
        value, parent = scene.value(node), scene.draft.parents[node]
        match node:
            case ast.Constant(value=int()) if isinstance(value, int) and abs(value) > 1:
                code = "size"
            case ast.Subscript(value=ast.Attribute(attr="shape")) | ast.Attribute(attr="size"):
                code = "factor"
            case ast.Name() if is_count(value) and not isinstance(parent, ast.Compare):
                code = "factor"
            case ast.Call(func=ast.Name(id="len")):
                code = "factor"
            case ast.BinOp() if is_count(value) and not isinstance(parent, ast.BinOp):
                code = "size"
            case _:
                continue
        for text in scene.extents:
            yield scene.put(node, text, code, RARE + (FAR - RARE) * ("shape" not in text))
    yield from _whole_shapes(scene)


def _whole_shapes(scene: Scene) -> Iterator[Edit]:
    """The shape of an array for lengths that are put together: `zeros((n, 2 * m))`."""
    for node in scene.expressions:
        match node:
            case ast.Call(args=[ast.Tuple(elts=lengths) as shape, *_]) if called(node) in _MAKERS:
                for name, value in scene.arrays_at(node).items():
                    if len(shape_of(value) or ()) == len(lengths):
                        yield scene.put(shape, f"{name}.shape", "size", USUAL)
            case _:
                continue
