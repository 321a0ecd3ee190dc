"""Whether anybody meant a backward for the point at which it was tried, if it is wrong there.

Nobody did where sizes fit by chance, where the forward is clipped (1 / max(x, tiny) at x < 0), and
where a forward that turns round until nothing changes (a fixed point, a root) does not get there.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.verify.measure.noise import Base
from chainrule.verify.measure.points.sizes import renamed_points
from chainrule.verify.measure.probes import Probe
from chainrule.verify.measure.run import Point, Run, UnusableError, is_array, norm
from chainrule.verify.subject import Source
from chainrule.verify.trees import tree_of


def read(run: Run, base: Base, point: Point) -> bool:
    """Whether the forward reads the ends of axes at a point of other sizes, if it does as captured:
    there, or at lengths near those. A fifth gate, of which a cell of four takes no notice, is
    nobody's size, nor are values of more times than there are; rows that no index chose prove
    nothing."""
    if any(is_array(x) and x.dtype.kind in "iu" for x in base.xs):
        return True
    changed = _lengths_changed(base, point)
    for k in run.wanted:
        old, new = base.xs[k].shape, point.xs[k].shape
        for axis in [i for i in range(len(old)) if reads_end(run, base.xs, k, i)]:
            if not reads_end(run, point.xs, k, axis) and not any(
                reads_end(run, near.xs, k, axis)
                for m in _near(old[axis], new[axis])
                for near in renamed_points(run, base, {**changed, old[axis]: m})
            ):
                return False
    return True


def padded_alike(run: Run, base: Base, point: Point) -> bool:
    """Whether outputs are as long as inputs there, where they are as captured because something is
    padded: `padding=1` is for windows of three, and for no others."""
    source = run.subject.source
    if source is None or "pad" not in source.forward_text:
        return True
    try:
        made = run.forward(point.xs)
    except UnusableError:
        return True
    before = [n for x in base.xs if is_array(x) for n in x.shape]
    after = [n for x in point.xs if is_array(x) for n in x.shape]
    if len(before) != len(after):
        return True
    for old, new in zip(base.ys, made, strict=True):
        for n, m in zip(old.shape, new.shape, strict=False):
            same = [b for a, b in zip(before, after, strict=True) if a == n]
            if same and m not in same:
                return False
    return True


def _lengths_changed(base: Base, point: Point) -> dict[int, int]:
    """Which lengths a point has in place of others."""
    pairs = zip(base.xs, point.xs, strict=True)
    both = [(x.shape, y.shape) for x, y in pairs if is_array(x) and x.ndim == y.ndim]
    return {n: m for old, new in both for n, m in zip(old, new, strict=True) if n != m}


def _near(n: int, m: int) -> list[int]:
    """Lengths near one that another was changed to."""
    return [k for k in (m + 1, m + 2, m + 3) if k != n]


def reads_end(run: Run, xs: Sequence[Any], k: int, axis: int) -> bool:
    """Whether the last entry of an input's axis matters to the forward."""
    x, moved = xs[k], np.array(xs[k])
    end = np.take(x, [-1], axis=axis)
    np.moveaxis(moved, axis, -1)[..., -1:] = np.moveaxis(end * 1.25 + 0.01, axis, -1)
    try:
        before, after = [run.forward([*xs[:k], v, *xs[k + 1 :]]) for v in (x, moved)]
    except UnusableError:
        return True  # it was looked at, at least
    return any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def leaves_remainder(run: Run) -> bool:
    """Whether the forward's code says what becomes of what is left over: `x[: n // k * k]` cuts it
    off, `x[i : i + k] for i in range(0, n, k)` is a shorter piece, and `(n - k) // s + 1` windows
    leave it out. It is then made for all lengths."""
    source = run.subject.source
    nodes = [] if source is None else list(ast.walk(tree_of(source.forward_text)))
    whole = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv) for n in nodes)
    cut = [n.upper for n in nodes if isinstance(n, ast.Slice)]
    cuts = whole and any(isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult) for e in cut)
    return cuts or any(_goes_in_pieces(n) or counts_windows(n) for n in nodes)


def counts_windows(node: ast.AST) -> bool:
    """Whether it says how many windows there are, by a division that rounds, and one more."""
    match node:
        case (
            ast.BinOp(left=ast.BinOp(op=ast.FloorDiv()), op=ast.Add(), right=ast.Constant(value=1))
            | ast.BinOp(
                left=ast.Constant(value=1), op=ast.Add(), right=ast.BinOp(op=ast.FloorDiv())
            )
        ):
            return True
        case _:
            return False


def _goes_in_pieces(node: ast.AST) -> bool:
    """Whether it is a loop over the beginnings of pieces, which slices take out."""
    match node:
        case ast.For(
            target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[_, _, _])
        ):
            pass
        case _:
            return False
    pieces = [n.lower for n in ast.walk(node) if isinstance(n, ast.Slice)]
    return any(isinstance(e, ast.Name) and e.id == name for e in pieces)


_FAR_LARGER = 1e3
"""A gradient that grows so much at another sign is beyond what the forward was made for."""
_FLATTER = 0.1
"""Of a forward that is clipped at another sign, no more is left than this share of its slope."""


def is_beyond(first: Probe, found: Probe, k: int) -> bool:
    """Whether an input's gradient is beyond a clip at a point, as against the first one. What the
    forward is not clipped for has a slope as large as usual."""
    here, there = _size(first, k), _size(found, k)
    is_flat = _slope(found, k) < _FLATTER * _slope(first, k)
    return here > 0 and there > _FAR_LARGER * here and is_flat


def _size(found: Probe, k: int) -> float:
    bar = found.bars[k] if found.bars else None
    return norm(bar * found.tangents[k]) if bar is not None else 0.0


def _slope(found: Probe, k: int) -> float:
    """That of the outputs along the input's tangent, where it is known."""
    rows = [s.value[np.isfinite(s.value) & s.resolved] for s in found.slopes.get(k, ())]
    return math.hypot(*[norm(row) for row in rows]) if rows else 0.0


def settles(source: Source | None) -> bool:
    """Whether a forward has a loop that makes a value of itself, the same way in each turn, and
    keeps nothing of the turns."""
    if source is None:
        return False
    nodes = ast.walk(tree_of(source.forward_text))
    return any(isinstance(n, ast.For | ast.While) and _is_same_again(n) for n in nodes)


def _is_same_again(loop: ast.For | ast.While) -> bool:
    counter = _names(loop.target) if isinstance(loop, ast.For) else set[str]()
    body = [n for s in loop.body for n in ast.walk(s)]
    counts = any(isinstance(n, ast.Name) and n.id in counter for n in body)
    return not counts and not any(_keeps(n) for n in body) and _is_remade(loop.body)


def _is_remade(body: list[ast.stmt]) -> bool:
    """Whether a name gets a value in a turn that is made of the one that it had."""
    read = set[str]()
    for statement in body:
        if isinstance(statement, ast.Assign | ast.AugAssign):
            read |= _names(statement.value)
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if read & {n for t in targets for n in _names(t)}:
                return True
    return False


def _keeps(node: ast.AST) -> bool:
    """Whether something is put into a list, or into a place in an array."""
    match node:
        case ast.Call(func=ast.Attribute(attr="append" | "insert" | "extend")):
            return True
        case ast.Subscript(ctx=ast.Store()):
            return True
        case _:
            return False


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
