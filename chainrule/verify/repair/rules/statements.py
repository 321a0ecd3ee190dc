"""Slips of whole statements: `=` for `+=`, results that go nowhere, indices that come twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, as_part, removed
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import bases, elements, writes
from chainrule.verify.repair.uses import replaces_unread
from chainrule.verify.repair.watch import is_torch, plain, shape_of

SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}
"""How `+=` and its like are written without an assignment."""
_UNREAD = 0.2
"""How unlikely `=` for `+=` is where it throws away a value that nobody has read."""
_MINUS, _OTHER = 0.6, 0.95
"""How unlikely a wrong `-=` is: a sign that stands there is seen; another operator."""


def added(scene: Scene) -> Iterator[Edit]:
    """`=` to `+=` and back, `+=` to `-=`."""
    assigned = set[str]()
    for node in scene.draft.statements:
        match node:
            case ast.Assign(targets=[target], value=value):
                name = scene.draft.src(target)
                again = name in assigned or not isinstance(target, ast.Name)
                assigned |= {*_names(target), name}
                if again and not isinstance(target, ast.Tuple | ast.List):
                    says = f"`{name} =` becomes `{name} +=`"
                    cost = _UNREAD if replaces_unread(scene.draft, node, name) else 1.0
                    yield _operator(scene, target, value, "+=", "overwritten", cost, says)
                    text = f"{name} + {as_part(scene.draft, value, ADD + 1)}"
                    yield scene.put(value, text, "overwritten", 1.6)
            case ast.For(target=target):
                assigned |= _names(target)
            case ast.AugAssign(target=target, value=value):
                anew = "extra_term" if bases(target) & assigned else "not_reset"
                stands = _MINUS if isinstance(node.op, ast.Sub) else _OTHER
                for other, code, cost in (
                    ("=", anew, _OTHER),
                    ("+=", "sign", stands),
                    ("-=", "sign", _OTHER),
                ):
                    says = f"the assignment to `{scene.draft.src(target)}` becomes `{other}`"
                    yield _operator(scene, target, value, other, code, cost, says)
            case _:
                continue


def _names(target: ast.expr) -> set[str]:
    """Names that an assignment gives: those of a tuple, one by one."""
    return {
        n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def thrown_away(scene: Scene) -> Iterator[Edit]:
    """A result that goes nowhere: `d.index_add(0, i, g)` to `d.index_add_(0, i, g)`, or to
    `d = d.index_add(0, i, g)` where nothing is changed in place."""
    for node in scene.draft.statements:
        match node:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) as call
            ):
                pass
            case _:
                continue
        if attr.endswith("_") or not scene.shape(call) or not scene.is_array(call):
            continue
        held = scene.watched.names.get(name)
        if shape_of(held) != scene.shape(call):
            continue
        end = scene.draft.span(call.func)[1]
        says = f"what `{scene.draft.src(call)}` gives is kept"
        if hasattr(held, f"{attr}_"):
            yield Edit(end, end, "_", "dropped", 0.9, says)
        start = scene.draft.span(call)[0]
        yield Edit(start, start, f"{name} = ", "dropped", 0.95, says)


def changed_copy(scene: Scene) -> Iterator[Edit]:
    """What is added to a copy that nobody reads: `rows = d[i]; rows += g` to `d[i] += g`, where `i`
    is an array."""
    copies: dict[str, ast.expr] = {}
    for node in scene.draft.statements:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() as value):
                if any(map(scene.shape, elements(value.slice))):
                    copies[name] = value
            case ast.AugAssign(target=ast.Name(id=name) as target) if (
                name in copies and name in scene.unread
            ):
                yield scene.put(target, scene.draft.src(copies[name]), "dropped", 0.8)
            case _:
                continue


def left_out(scene: Scene) -> Iterator[Edit]:
    """A statement too much: one that changes a value once more, or throws it away."""
    for node in scene.draft.statements:
        match node:
            case ast.AugAssign(op=ast.Mult() | ast.Div() | ast.Pow()):
                yield removed(scene.draft, node, "factor", 1.1)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if scene.is_array(value):
                inside = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
                held = plain(scene.value(value))
                if name in inside:
                    nothing = held is not None and not np.any(held)
                    bent = "not_linear" if name in scene.cotangents else "wrong_value"
                    yield removed(scene.draft, node, "dropped" if nothing else bent, 1.2)
            case ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign(target=ast.Subscript()):
                yield removed(scene.draft, node, "region", 1.5)
            case _:
                continue


def unused(scene: Scene) -> Iterator[Edit]:
    """A gradient that is computed and not used: `layer.backward(dh)` for
    `dx += layer.backward(dh)`."""
    for node in scene.draft.statements:
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        shape, (start, _) = scene.shape(node.value), scene.draft.span(node)
        for name, value in scene.arrays_at(node.value).items():
            if shape and name.isidentifier() and shape_of(value) == shape:
                held = plain(value)
                nothing = held is not None and not np.any(held)
                code = "dropped" if nothing else "missing_term"
                for sign, cost in (("+=", 0.9), ("=", 1.0)):
                    says = f"what `{scene.draft.src(node.value)}` gives is used"
                    yield Edit(start, start, f"{name} {sign} ", code, cost, says)


def _operator(
    scene: Scene, target: ast.expr, value: ast.expr, text: str, code: str, cost: float, says: str
) -> Edit:
    """The edit of what stands between a target and a value (and may be followed by `(`)."""
    start, end = scene.draft.span(target)[1], scene.draft.span(value)[0]
    between = scene.draft.body[start:end]
    sign = between.index("=")
    first = next(i for i, c in enumerate(between) if not c.isspace())
    return Edit(start + first, start + sign + 1, text, code, cost, says)


def whole(scene: Scene) -> Iterator[Edit]:
    """An array that is not read in place of a change of some elements: `d[i, t] -= 1` to
    `d -= q`."""
    for node in scene.draft.statements:
        match node:
            case ast.AugAssign(target=ast.Subscript(value=ast.Name() as base)) if (
                type(node.op) in SIGNS
            ):
                shape = scene.shape(base)
            case _:
                continue
        for name in scene.unread:
            if shape and shape_of(scene.watched.names.get(name)) == shape:
                start, end = scene.draft.span(node)
                text = f"{base.id} {SIGNS[type(node.op)]}= {name}"
                yield Edit(start, end, text, "wrong_value", 1.4, f"it becomes `{text}`")


def scattered(scene: Scene) -> Iterator[Edit]:
    """Contributions of equal indices, of which only the last one stays: `dw[i] += g`."""
    numpy = scene.dialect.module("numpy")
    for node, target, value in writes(scene.draft.statements):
        arrays = [e for e in elements(target.slice) if scene.shape(e)]
        sliced = any(isinstance(n, ast.Slice) for n in ast.walk(target.slice))
        if sliced and not arrays:
            continue  # A slice has no index twice.
        array, where = scene.draft.src(target.value), scene.draft.src(target.slice)
        what, (start, end) = scene.draft.src(value), scene.draft.span(node)
        says = f"equal indices in `{array}[{where}]` are added up"
        if scene.dialect.torch and (axis := _only_axis(scene, target)) is not None:
            index = next(scene.draft.src(e) for e in arrays)
            texts = [f"{array}.index_add_({axis}, {index}, {what})"]
        elif sliced and scene.dialect.torch:
            texts = []
        elif scene.dialect.torch or is_torch(scene.value(target.value)):
            texts = [
                f"{array}.index_put_(({where},), {what}, accumulate=True)",
                f"{array}.index_add_(0, {where}, {what})",
            ]
        elif numpy is not None:
            inner = f"({where})" if isinstance(target.slice, ast.Tuple) else where
            inner = f"{numpy}.s_[{where}]" if sliced else inner
            texts = [f"{numpy}.add.at({array}, {inner}, {what})"]
        else:
            texts = []
        for text in texts:
            yield Edit(start, end, text, "overwritten", 1.2, says)


def _only_axis(scene: Scene, target: ast.Subscript) -> int | None:
    """The axis along which a row of indices goes, where all others are whole: -1 for `[..., i]`;
    None for a single index, or several."""
    parts = elements(target.slice)
    rows = [k for k, e in enumerate(parts) if len(scene.shape(e) or ()) == 1]
    others = [ast.unparse(e) for k, e in enumerate(parts) if k not in rows]
    if len(rows) != 1 or not others or any(o not in (":", "...") for o in others):
        return None
    before = [ast.unparse(e) for e in parts[: rows[0]]]
    return rows[0] - len(parts) if "..." in before else rows[0]


_ADDING = {
    "scatter": "scatter_add",
    "scatter_": "scatter_add_",
    "index_copy": "index_add",
    "index_copy_": "index_add_",
}


def added_up(scene: Scene) -> Iterator[Edit]:
    """Calls that put values in places, of which equal ones should add up: `scatter_` becomes
    `scatter_add_`, and `index_put_` gets `accumulate=True`."""
    for node in scene.draft.nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr="index_put_" | "index_put" | "_index_put")):
                if not any(k.arg == "accumulate" for k in node.keywords):
                    end = scene.draft.span(node)[1] - 1
                    says = "equal indices are added up"
                    yield Edit(end, end, ", accumulate=True", "overwritten", 1.0, says)
            case ast.Call(func=ast.Attribute(attr=name)) if name in _ADDING:
                end = scene.draft.span(node.func)[1]
                says = f"`{name}` becomes `{_ADDING[name]}`"
                yield Edit(end - len(name), end, _ADDING[name], "overwritten", 1.0, says)
            case _:
                continue
