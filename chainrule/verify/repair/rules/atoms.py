"""One value where another belongs: another name of the same shape or kind, another order."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

import numpy as np

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.fit import called
from chainrule.verify.repair.code.syntax import names_in
from chainrule.verify.repair.prior import FAR, LIKELY, RARE, SHOWN, USUAL
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


def other_order(scene: Scene) -> Iterator[Edit]:
    """Two of the returned gradients, or of the values unpacked or put together, exchanged."""
    for node in scene.draft.nodes:
        code, cost = "wrong_value", USUAL
        match node:
            case ast.Return(value=ast.Tuple() | ast.List() as group):
                code = "wrong_input"
            case ast.Lambda(body=ast.Tuple() as group):
                code = "wrong_input"
            case ast.Assign(targets=[ast.Tuple() | ast.List() as group]):
                cost = RARE  # The forward puts them together so, as a rule.
            case ast.Call(args=[ast.Tuple() | ast.List() as group, *_]):
                if not all(map(scene.shape, group.elts)):
                    continue
            case _:
                continue
        yield from _exchanges(scene, group.elts, code, cost)


def _exchanges(scene: Scene, parts: list[ast.expr], code: str, cost: float) -> Iterator[Edit]:
    texts = [scene.draft.src(e) for e in parts]
    spans = [scene.draft.span(e) for e in parts]
    for i, k in itertools.combinations(range(min(len(texts), 8)), 2):
        between = scene.draft.body[spans[i][1] : spans[k][0]]
        text = texts[k] + between + texts[i]
        says = f"`{texts[i]}` and `{texts[k]}` change places"
        yield Edit(spans[i][0], spans[k][1], text, code, cost, says)
    if len(texts) == 3:
        for order in ((1, 2, 0), (2, 0, 1)):
            text = ", ".join([texts[i] for i in order])
            yield Edit(spans[0][0], spans[2][1], text, code, cost, f"the order becomes {text}")


def unread_values(scene: Scene) -> Iterator[Edit]:
    """What is computed, or taken out of what was saved, and never read, combined with what it fits
    to: `p * dp` to `p * (dp - inner)`."""
    names = {k: scene.watched.names.get(k) for k in sorted(scene.unread)}
    names = {k: v for k, v in names.items() if shape_of(v) or isinstance(v, float)}
    places = [n for n in scene.expressions if names and scene.flows(n) and _is_operand(scene, n)]
    for (name, value), node in itertools.product(names.items(), places):
        small, large = shape_of(value) or (), scene.shape(node) or ()
        if len(small) > len(large) or not all(
            n in (1, m) for n, m in zip(reversed(small), reversed(large), strict=False)
        ):
            continue
        here, parent = scene.draft.src(node), scene.draft.parents[node]
        same = [k for k, v in scene.arrays_at(node).items() if shape_of(v) == large]
        rows = [(f"{here} {sign} {name}", "missing_term", 0.0) for sign in "-+"]
        rows += [
            (f"{here} {sign} {k} * {name}", "missing_term", 0.4)
            for sign in "-+" for k in same if k not in (name, here)
        ]  # fmt: skip
        rows += [(f"{here} {sign} {name}", "factor", 0.1) for sign in "*/"]
        for text, code, more in rows:
            inside = isinstance(parent, ast.BinOp | ast.UnaryOp)
            yield scene.put(node, f"({text})" if inside else text, code, SHOWN + more)


def _is_operand(scene: Scene, node: ast.expr) -> bool:
    """Whether it is a name, a call or a term of which something is computed."""
    parent = scene.draft.parents[node]
    match node:
        case ast.Attribute() | ast.Call() | ast.Subscript() | ast.Name(ctx=ast.Load()):
            simple = True
        case ast.BinOp(op=ast.Mult() | ast.Div()):
            simple = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add | ast.Sub)
        case _:
            simple = False
    inside = isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Assign | ast.Return | ast.Tuple)
    return simple and inside
