"""Which elements a case holds for: comparisons, masks, the two sides of a `where`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from chainrule.verify.repair.code.dialect import forward_texts
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.fit import ADD, MUL, UNARY, as_part, number
from chainrule.verify.repair.prior import FAR, LIKELY, RARE, USUAL
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import plain

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
                    a, b = as_part(scene.draft, left, 6), as_part(scene.draft, right, 6)
                    code = "region" if other == _OPPOSITE[here] else "one_sided"
                    yield scene.put(node, f"{a} {other} {b}", code, USUAL)
                yield from _other_bounds(scene, right)
                yield from _between(scene, node, here)
            case ast.Name() | ast.Attribute() if _is_bool(scene, node):
                yield scene.put(node, f"~{as_part(scene.draft, node, UNARY)}", "region", RARE)
            case _:
                continue


def _between(scene: Scene, node: ast.Compare, sign: str) -> Iterator[Edit]:
    """Two bounds where one is compared with: `x < high` to `(x < high) & (x > low)`."""
    bound, left = node.comparators[0], as_part(scene.draft, node.left, 6)
    back, here = {"<": ">", ">": "<"}.get(sign[0]), scene.value(bound)
    if back is None or not scene.is_array(node.left) or not isinstance(here, int | float):
        return
    names = {k: LIKELY for k in scene.numbers if k != scene.draft.src(bound)}
    known = {number(c): USUAL for c in sorted(_compared(scene) - {float(here)})}
    for other, cost in {**known, **names}.items():
        text = f"({scene.draft.src(node)}) & ({left} {back}{sign[1:]} {other})"
        yield scene.put(node, text, "one_sided", cost)


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
            yield scene.put(bound, f"{as_part(scene.draft, bound, ADD)} {off}", "region", USUAL)
    for name in scene.numbers:
        if name != scene.draft.src(bound):
            yield scene.put(bound, name, "region", USUAL)
            yield scene.put(bound, f"-{name}", "region", USUAL)


def _is_of_numbers(scene: Scene, left: ast.expr, right: ast.expr) -> bool:
    """Whether elements of arrays are compared, not options or sizes."""
    return any(scene.is_array(e) for e in (left, right))


def _is_bool(scene: Scene, node: ast.expr) -> bool:
    return str(getattr(scene.value(node), "dtype", "")).endswith("bool")


def masks(scene: Scene) -> Iterator[Edit]:
    """A mask of zeros and ones where one side has a slope; a mask that is missing."""
    module = scene.dialect.library
    for node in scene.expressions:
        if _is_bool(scene, node) and module is not None and not isinstance(node, ast.Name):
            for s in scene.numbers:
                mask = scene.draft.src(node)
                yield scene.put(node, f"{module}.where({mask}, 1.0, {s})", "one_sided", FAR)
        match node:
            case ast.Call(args=[_, a, b], func=ast.Attribute(attr="where")) if module is not None:
                yield from [e for case in (a, b) for e in _with_sign(scene, node, case, module)]
            case _:
                pass
    for node in scene.roots:
        for name, value in scene.arrays_at(node).items():
            if name not in scene.cotangents and scene.shape(node) == tuple(value.shape):
                here = as_part(scene.draft, node, MUL)
                yield scene.put(node, f"{here} * ({name} > 0)", "region", FAR)
                for other, same in scene.arrays_at(node).items():
                    if name < other and _coincide(value, same):
                        yield scene.put(node, f"{here} * ({name} == {other})", "region", FAR)
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                    yield scene.put(node.right, f"({name} > 0)", "region", FAR)


def _coincide(a: Any, b: Any) -> bool:
    """Whether two arrays of one shape are equal in some places, and not in others."""
    one, other = plain(a), plain(b)
    if one is None or other is None or one.shape != other.shape or one.dtype.kind != "f":
        return False
    same = one == other
    return bool(np.any(same) and not np.all(same) and np.any(one[same]))


def _with_sign(scene: Scene, node: ast.expr, case: ast.expr, module: str) -> Iterator[Edit]:
    """A number that one case of a `where` gives for both signs: of `abs`, of a clipped value."""
    if scene.shape(case) != ():
        return
    for name, value in scene.arrays_at(node).items():
        if scene.shape(node) == tuple(value.shape) and name not in scene.cotangents:
            text = f"{as_part(scene.draft, case, MUL)} * {module}.sign({name})"
            yield scene.put(case, text, "one_sided", RARE)
