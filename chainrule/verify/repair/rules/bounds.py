"""Bounds and whole numbers: one more, one less, another one; what elements are compared with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from chainrule.verify.repair.code.dialect import forward_texts
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import ADD, UNARY, as_operand, called, number
from chainrule.verify.repair.rule_costs import RARE, USUAL
from chainrule.verify.repair.rules.combined_values import is_bool
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import is_count, plain

_OPERATORS: Final[dict[type[ast.cmpop], str]] = {
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_OPPOSITE = {">": "<", ">=": "<", "<": ">", "<=": ">", "==": "!=", "!=": "=="}
_NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?![\w.])")


def other_index(scene: Scene) -> Iterator[Edit]:
    """Another whole number in an index or in the bounds of a slice; bounds of a loop, or an array
    of indices, that are one too large, or one too small."""
    inside = {
        e for n in scene.draft.nodes if isinstance(n, ast.Subscript) for e in ast.walk(n.slice)
    }
    loops = {
        a
        for n in scene.expressions
        if isinstance(n, ast.Call) and called(n) == "range"
        for a in n.args[:2]
    }
    names = [k for k, v in scene.watched.names.items() if is_count(v)]
    for node in scene.expressions:
        value = plain(scene.value(node))
        if value is None or value.dtype.kind != "i":
            continue
        here, within = scene.draft.src(node), node in inside
        several = value.ndim and isinstance(scene.draft.parents[node], ast.Tuple)
        sums = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)
        if several or ((within or sums or node in loops) and not value.ndim):
            yield from [scene.put(node, t, "wrong_value", RARE) for t in _one_off(scene, node)]
        if within and not value.ndim:
            near = [f"{i} {sign} 1" for i in scene.counters for sign in "-+"]
            for text in [*names, *(near if isinstance(node, ast.Constant) else [])]:
                if text != here:
                    yield scene.put(node, text, "wrong_value", RARE)


def _one_off(scene: Scene, bound: ast.expr) -> list[str]:
    here = as_operand(scene.draft, bound, ADD)
    match bound:
        case ast.Constant(value=int() as n):
            return [str(n - 1), str(n + 1)]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as n)):
            return [str(1 - n), str(-1 - n)]
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=ast.Constant(value=int())):
            return [scene.draft.src(left), f"{here} - 1", f"{here} + 1"]
        case _:
            return [f"{here} - 1", f"{here} + 1"]


def comparisons(scene: Scene) -> Iterator[Edit]:
    """Other comparisons; a mask turned over."""
    for node in scene.expressions:
        match node:
            case ast.Compare(ops=[op], left=left, comparators=[right]) if type(
                op
            ) in _OPERATORS and _is_of_numbers(scene, left, right):
                here = _OPERATORS[type(op)]
                for other in _OPERATORS.values():
                    if other == here:
                        continue
                    a, b = (
                        as_operand(scene.draft, left, 6),
                        as_operand(scene.draft, right, 6),
                    )
                    code = "region" if other == _OPPOSITE[here] else "one_sided"
                    yield scene.put(node, f"{a} {other} {b}", code, USUAL)
                yield from _other_bounds(scene, right)
            case ast.Name() | ast.Attribute() if is_bool(scene, node):
                yield scene.put(node, f"~{as_operand(scene.draft, node, UNARY)}", "region", RARE)
            case _:
                continue


def _compared(scene: Scene) -> set[float]:
    """Numbers that forward or backward write out, and their negatives; 0 and 1."""
    texts = "\n".join([scene.draft.body, *forward_texts(scene.draft.source)])
    known = {float(n) for n in _NUMBER.findall(texts)} | {0.0, 1.0}
    return {s * n for n in known for s in (1, -1)}


def _other_bounds(scene: Scene, bound: ast.expr) -> Iterator[Edit]:
    """Another number to compare with: one that forward or backward compare with, too, or its
    negative."""
    here = scene.value(bound)
    if scene.shape(bound) != () or not isinstance(here, int | float):
        return
    for c in sorted(_compared(scene) - {float(here)}):
        yield scene.put(bound, number(c), "region", USUAL)
    if isinstance(here, int) and not isinstance(bound, ast.Constant):
        for off in ("- 1", "+ 1"):  # The last index, or how many there are.
            yield scene.put(bound, f"{as_operand(scene.draft, bound, ADD)} {off}", "region", USUAL)
    for name in scene.numbers:
        if name != scene.draft.src(bound):
            yield scene.put(bound, name, "region", USUAL)
            yield scene.put(bound, f"-{name}", "region", USUAL)


def _is_of_numbers(scene: Scene, left: ast.expr, right: ast.expr) -> bool:
    """Whether elements of arrays are compared, not options or sizes."""
    return any(scene.is_array(e) for e in (left, right))
