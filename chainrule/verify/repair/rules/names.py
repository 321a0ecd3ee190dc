"""One value where another belongs: other names, other orders."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.watch import shape_of


def other_name(scene: Scene) -> Iterator[Edit]:
    """Another named array of the same shape."""
    called = {n.func for n in scene.draft.nodes if isinstance(n, ast.Call)}
    for node in scene.expressions:
        if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript) or node in called:
            continue
        here, shape = scene.draft.src(node), scene.shape(node)
        if shape is None or (here not in scene.arrays and here not in scene.numbers):
            continue
        for name, value in (scene.arrays if here in scene.arrays else scene.numbers).items():
            if name != here and shape_of(value) == shape:
                yield scene.put(node, name, "wrong_value", 1.3 + 0.3 * (not name.isidentifier()))


def other_order(scene: Scene) -> Iterator[Edit]:
    """Two of the returned gradients, or of the values unpacked, exchanged."""
    for node in scene.draft.nodes:
        match node:
            case ast.Return(value=ast.Tuple() | ast.List() as value):
                yield from _exchanged(scene, value, "wrong_input")
            case ast.Lambda(body=ast.Tuple() as value):
                yield from _exchanged(scene, value, "wrong_input")
            case ast.Assign(targets=[ast.Tuple() | ast.List() as value]):
                yield from _exchanged(scene, value, "wrong_value")
            case _:
                continue


def _exchanged(scene: Scene, value: ast.Tuple | ast.List, code: str) -> Iterator[Edit]:
    texts = [scene.draft.src(e) for e in value.elts]
    if len(texts) < 2 or len(texts) > 8:
        return
    start, end = scene.draft.span(value.elts[0])[0], scene.draft.span(value.elts[-1])[1]
    between = scene.draft.body[start:end]
    if "(" in between and _crossing(between):
        return
    orders = [list(texts) for _ in range(0)]
    for i, j in itertools.combinations(range(len(texts)), 2):
        order = list(texts)
        order[i], order[j] = order[j], order[i]
        orders.append(order)
    if len(texts) == 3:
        orders += [[texts[1], texts[2], texts[0]], [texts[2], texts[0], texts[1]]]
    for order in orders:
        yield Edit(start, end, ", ".join(order), code, 1.2, f"the order becomes {', '.join(order)}")


def _crossing(text: str) -> bool:
    """Whether parentheses in a stretch of text do not match: it begins or ends inside some."""
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return True
    return depth != 0
