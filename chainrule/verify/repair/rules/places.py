"""Where values come from and go to: slices that change places, permutations that are to be undone,
the other one of a pair."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import UNARY, part
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.syntax import elements, is_sum, names_in, writes
from chainrule.verify.repair.watch import plain
from chainrule.verify.subject import Array

_MOST = 4096
"""Indices that are looked through for an order."""


def exchanged_slices(scene: Scene) -> Iterator[Edit]:
    """What is written where it should be read, and the reverse: `dx[j:] += g[:n - j]` to
    `dx[:n - j] += g[j:]`, the transposed of the same."""
    for node, target, value in writes(scene.draft.statements):
        for read in [n for n in ast.walk(value) if isinstance(n, ast.Subscript)]:
            here, there = scene.draft.src(target.slice), scene.draft.src(read.slice)
            if here == there or not scene.flows(read):
                continue
            (start, end), first = scene.draft.span(node), scene.draft.span(target.slice)
            second = scene.draft.span(read.slice)
            body = scene.draft.body
            text = body[start : first[0]] + there + body[first[1] : second[0]] + here
            says = f"`{here}` and `{there}` change places"
            yield Edit(start, end, text + body[second[1] : end], "transposed", 1.1, says)


def exchanged_values(scene: Scene) -> Iterator[Edit]:
    """What two statements of one form write, each in the place of the other: `d[i] += g * w` and
    `d[j] += g * (1 - w)`, say."""
    for a, b in pairwise(scene.draft.statements):
        first, second = _written(a), _written(b)
        if first is None or second is None or first[0] != second[0]:
            continue
        texts = [scene.draft.src(v) for v in (first[1], second[1])]
        if texts[0] == texts[1] or is_sum(first[1]) or is_sum(second[1]):
            continue  # More can be wrong with a sum than its place.
        (start, end), (low, high) = scene.draft.span(first[1]), scene.draft.span(second[1])
        text = texts[1] + scene.draft.body[end:low] + texts[0]
        says = f"`{texts[0]}` and `{texts[1]}` change places"
        yield Edit(start, high, text, "wrong_value", 1.3, says)


def _written(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """What a statement writes into, and how, and what it writes."""
    match statement:
        case ast.AugAssign(target=ast.Subscript(value=base), op=op, value=value):
            return f"{ast.unparse(base)} {type(op).__name__}", value
        case ast.Assign(targets=[ast.Subscript(value=base)], value=value):
            return ast.unparse(base), value
        case ast.Expr(value=ast.Call(func=function, args=[*before, value])) if before:
            return f"{ast.unparse(function)} {len(before)}", value
        case _:
            return None


def undone(scene: Scene) -> Iterator[Edit]:
    """A permutation that is applied where it is to be undone: `g[order]` to `g[argsort(order)]`."""
    for node in scene.expressions:
        parent = scene.draft.parents.get(node)
        if not isinstance(node, ast.Name | ast.Attribute) or not _permutes(scene, node):
            continue
        if isinstance(parent, ast.Subscript | ast.Call | ast.Tuple | ast.keyword):
            for text in _inverses(scene, node):
                yield scene.put(node, text, "transposed", 1.1)


def _inverses(scene: Scene, node: ast.expr) -> Iterator[str]:
    """What undoes an order along the last axis, or the first."""
    here, several = scene.draft.src(node), len(scene.shape(node) or ()) > 1
    module = scene.dialect.module("numpy", "chainrule")
    if scene.dialect.torch:
        yield from [f"{here}.argsort({axis})" for axis in ((-1, 0) if several else (-1,))]
    elif module is not None:
        yield f"{module}.argsort({here})"
        yield from [f"{module}.argsort({here}, axis=0)"] if several else []


def _permutes(scene: Scene, node: ast.expr) -> bool:
    """Whether a value is an order of something: each index once along the last axis."""
    value = plain(scene.value(node))
    if value is None or value.dtype.kind not in "iu" or value.size > _MOST:
        return False
    return any(_is_order(value, axis) for axis in range(value.ndim))


def _is_order(value: Array, axis: int) -> bool:
    """Whether there is each index once along an axis, not in their order."""
    rows: Array = np.moveaxis(value, axis, -1).reshape(-1, value.shape[axis])
    each = all(sorted(row) == list(range(len(row))) for row in rows.tolist())
    return len(rows) > 0 and each and any(row != sorted(row) for row in rows.tolist())


def of_the_other(scene: Scene) -> Iterator[Edit]:
    """What the other one of a pair gets: `d[i] += f`, and `d[j] -= f` as well."""
    for node, target, _ in writes(scene.draft.statements):
        turns = scene.watched.turns[scene.draft.index[target.value]]
        if not isinstance(node, ast.AugAssign) or turns < 2:
            continue
        counters = set(scene.counters)
        for index in elements(target.slice):
            if not isinstance(index, ast.Name) or index.id not in counters:
                continue
            for other in sorted(counters - {index.id} - names_in(target.value)):
                yield from _also(scene, node, index, other)


def of_the_others(scene: Scene) -> Iterator[Edit]:
    """The same for many pairs at once: `np.add.at(d, i, f)`, and `np.add.at(d, j, -f)` as well."""
    for node in scene.draft.statements:
        match node:
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(attr="at" | "index_add_"),
                    args=[_, index, value],
                )
            ):
                pass
            case _:
                continue
        here, shape = scene.draft.src(index), scene.shape(index)
        others = [k for k, v in scene.arrays_at(index).items() if _is_index(v, shape) and k != here]
        (start, end), (first, last) = scene.draft.span(node), scene.draft.span(index)
        at, to = scene.draft.span(value)
        body, indent = scene.draft.body, " " * node.col_offset
        for other, sign in product(others, ("-", "")):
            what = sign + (part(body[at:to], UNARY) if sign else body[at:to])
            text = body[start:first] + other + body[last:at] + what + body[to:end]
            yield Edit(end, end, f"\n{indent}{text}", "overwritten", 1.3, f"`{text}` is added")


def _is_index(value: object, shape: Shape | None) -> bool:
    x = plain(value)
    return x is not None and x.dtype.kind in "iu" and x.shape == shape and x.ndim > 0


def _also(scene: Scene, node: ast.AugAssign, index: ast.Name, other: str) -> Iterator[Edit]:
    (start, end), (first, last) = scene.draft.span(node), scene.draft.span(index)
    body = scene.draft.body
    left = body[start:first] + other + body[last : scene.draft.span(node.target)[1]]
    value = scene.draft.src(node.value)
    indent = " " * node.col_offset
    for sign in ("-=", "+="):
        text = f"{left} {sign} {value}"
        says = f"`{text}` is added"
        yield Edit(end, end, f"\n{indent}{text}", "overwritten", 1.5, says)
