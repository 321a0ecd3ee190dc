"""Sums over the elements that belong together, where a sum over all was taken: the softmax of a
graph's edges, each over those of one node."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import numpy as np

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ATOM, called, part
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.watch import is_torch, plain, shape_of
from chainrule.verify.repair.wording import forward_texts

_GROUPED = re.compile(r"index_add|scatter_add|scatter_reduce|add\.at|bincount|segment")
"""Who sums so says so in the forward."""
_COST = 1.2


def by_segment(scene: Scene) -> Iterator[Edit]:
    """`e.sum()` to what each element of `e` gets: the sum over those with its index."""
    if not any(_GROUPED.search(t) for t in forward_texts(scene.draft.source)):
        return
    for node in scene.expressions:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "torch"))) if node.args:
                inner = node.args[0]
            case ast.Call(func=ast.Attribute(value=inner)):
                pass
            case _:
                continue
        if called(node) == "sum":
            for index in _indices(scene, inner):
                yield scene.put(node, _summed(scene, inner, index), "wrong_axis", _COST)


def _indices(scene: Scene, node: ast.expr) -> list[str]:
    """Arrays of indices along a value's first axis, in which some come twice."""
    shape = scene.shape(node)
    found = {k: plain(v) for k, v in scene.arrays_at(node).items()}
    return [
        k for k, v in found.items()
        if shape and v is not None and v.dtype.kind in "iu" and shape_of(v) == shape[:1]
        and v.size > len(np.unique(v)) and int(v.min()) >= 0
    ]  # fmt: skip


def _summed(scene: Scene, inner: ast.expr, index: str) -> str:
    here, shape = part(scene.draft.src(inner), ATOM), scene.shape(inner) or ()
    count = f"int({index}.max()) + 1"
    more = f", *{here}.shape[1:]" if len(shape) > 1 else ""
    if is_torch(scene.value(inner)):
        return f"{here}.new_zeros({count}{more}).index_add_(0, {index}, {here})[{index}]"
    if not more and (numpy := scene.dialect.module("numpy")) is not None:
        return f"{numpy}.bincount({index}, {scene.draft.src(inner)})[{index}]"
    return here
