"""Slips of whole statements: `=` for `+=`, one too many, indices that come twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import ADD, as_operand, removal
from chainrule.verify.repair.code.syntax import (
    bases,
    elements,
    replaces_unread,
    writes,
)
from chainrule.verify.repair.rule_costs import LIKELY, RARE, SHOWN, USUAL
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import is_torch, plain

SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}
"""How `+=` and its like are written without an assignment."""


def assignment_signs(scene: Scene) -> Iterator[Edit]:
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
                    cost = SHOWN if replaces_unread(scene.draft, node, name) else LIKELY
                    yield _operator(scene, target, value, "+=", "overwritten", cost, says)
                    text = f"{name} + {as_operand(scene.draft, value, ADD + 1)}"
                    yield scene.put(value, text, "overwritten", RARE)
            case ast.For(target=target):
                assigned |= _names(target)
            case ast.AugAssign(target=target, value=value):
                anew = "extra_term" if bases(target) & assigned else "not_reset"
                minus = isinstance(node.op, ast.Sub)  # A sign that stands there is seen.
                for other, code, cost in (
                    ("=", anew, LIKELY),
                    ("+=", "sign", SHOWN if minus else LIKELY),
                    ("-=", "sign", LIKELY),
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


def statements_too_much(scene: Scene) -> Iterator[Edit]:
    """A statement too much: one that changes a value once more, or throws it away."""
    for node in scene.draft.statements:
        match node:
            case ast.AugAssign(op=ast.Mult() | ast.Div() | ast.Pow()):
                yield removal(scene.draft, node, "factor", USUAL)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if scene.is_array(value):
                inside = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
                held = plain(scene.value(value))
                if name in inside:
                    nothing = held is not None and not np.any(held)
                    bent = "not_linear" if name in scene.cotangents else "wrong_value"
                    yield removal(scene.draft, node, "dropped" if nothing else bent, USUAL)
            case ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign(target=ast.Subscript()):
                yield removal(scene.draft, node, "region", RARE)
            case _:
                continue


def _operator(
    scene: Scene, target: ast.expr, value: ast.expr, text: str, code: str, cost: float, says: str
) -> Edit:
    """The edit of what stands between a target and a value (and may be followed by `(`)."""
    start, end = scene.draft.span(target)[1], scene.draft.span(value)[0]
    between = scene.draft.body[start:end]
    sign = between.index("=")
    first = next(i for i, c in enumerate(between) if not c.isspace())
    return Edit(start + first, start + sign + 1, text, code, cost, says)


def equal_indices(scene: Scene) -> Iterator[Edit]:
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
            yield Edit(start, end, text, "overwritten", USUAL, says)


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
