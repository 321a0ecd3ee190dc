"""Rules of shape: how elements are laid out, repeated, cut out and put together again.

| term | is |
|---|---|
| a permutation, reshape, repetition, slice of one | one of them |
| one of them that changes nothing | its argument |
| a permutation of the last two axes, in a product | a product that reads that matrix turned |
| a slice of a concatenation within one part | a slice of the part |
| a slice of what was put there by the same index | what was put there |
| a sum of parts, each put in its place among zeros, that together fill it | a concatenation |
| an elementwise op of something that was repeated | the op, which repeats it by itself |
| an elementwise op of nothing but what was repeated | the op, then repeated |

The sum of parts keeps the sign of a zero, which adding 0.0 would lose: -0.0 stays -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.compile.graph.rules.rewriter import Rewriter, Rule
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.views import expand_key
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import MatMul
from chainrule.ops.families import BroadcastTo, Elementwise
from chainrule.ops.indexing.selection import Where
from chainrule.ops.reductions.reduction import Spread
from chainrule.ops.shapes.joining import Concat
from chainrule.ops.shapes.shaping import Permute, Reshape
from chainrule.ops.shapes.slices import Slice, Unslice

Part = tuple[int, int, int, Term]
"""(axis, start, stop, what stands there)."""


def _permute(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,) = args
    if op.axes == tuple(range(len(op.axes))):
        return x
    if isinstance(x.op, Permute):
        inner: tuple[int, ...] = x.op.axes
        axes: tuple[int, ...] = op.axes
        return r.op(Permute(tuple([inner[a] for a in axes])), *x.args)
    wide: list[int] = [a for a in op.axes if x.shape[a] != 1]
    if wide == sorted(wide):  # only axes of size 1 move
        return r.op(Reshape(tuple([x.shape[a] for a in op.axes])), x)
    return None


def _reshape(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,) = args
    shape = r.plain(op, x).shape
    if x.shape == shape:
        return x
    return r.op(Reshape(shape), *x.args) if isinstance(x.op, Reshape) else None


def _broadcast(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,) = args
    if x.shape == op.shape:
        return x
    if isinstance(op, BroadcastTo) and isinstance(x.op, BroadcastTo):
        return r.op(op, *x.args)
    return None


def _matmul(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """Without exchanging axes first; all rows at once where the right one has no leading axes."""
    a, b = args
    if a.dtype != b.dtype:
        dtype = np.result_type(a.dtype, b.dtype)
        return r.op(op, r.cast(a, dtype), r.cast(b, dtype))
    if _is_transposed(a):
        return r.op(MatMul(not op.transpose_a, op.transpose_b), *a.args, b)
    if _is_transposed(b):
        return r.op(MatMul(op.transpose_a, not op.transpose_b), a, *b.args)
    if len(b.shape) == 2 and len(a.shape) > 2 and not op.transpose_a:
        rows = 1
        for n in a.shape[:-1]:
            rows = n * rows
        y = r.op(MatMul(False, op.transpose_b), r.op(Reshape((rows, a.shape[-1])), a), b)
        return r.op(Reshape((*a.shape[:-1], y.shape[-1])), y)
    return None


def _is_transposed(x: Term) -> bool:
    """Whether `x` is something with its last two axes exchanged."""
    if not isinstance(x.op, Permute):
        return False
    n = len(x.shape)
    return x.op.axes == (*range(n - 2), n - 1, n - 2)


# --- elementwise ---------------------------------------------------------------------------------


def _unspread(r: Rewriter, x: Term) -> Term:
    """`x`, or what it repeats, with axes of size 1: an elementwise op repeats it by itself."""
    op: Any = x.op
    if isinstance(op, BroadcastTo):
        return x.args[0]
    if not isinstance(op, Spread):
        return x
    kept = tuple([1 if a in op.axes else n for a, n in enumerate(op.shape)])
    return r.op(Reshape(kept), *x.args)


def _elementwise(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """Without repeating its arguments where it does so anyway, or before it is computed."""
    bare = tuple([_unspread(r, a) for a in args])
    if all(a is b for a, b in zip(bare, args, strict=True)):
        return None
    shape = np.broadcast_shapes(*[a.shape for a in args])
    if np.broadcast_shapes(*[a.shape for a in bare]) != shape:
        return r.op(BroadcastTo(shape), r.op(op, *bare))
    before = args
    for i, (old, new) in enumerate(zip(args, bare, strict=True)):
        tried = [new if j == i else a for j, a in enumerate(args)]
        if old is not new and np.broadcast_shapes(*[a.shape for a in tried]) == shape:
            args = tuple(tried)
    return r.op(op, *args) if args != before else None


# --- parts ---------------------------------------------------------------------------------------


def _ranges(key: Sequence[Any], shape: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """For each axis start, stop and step of what a basic index of slices selects."""
    full = expand_key(key, len(shape))
    if any(not isinstance(k, tuple) for k in full):
        return None
    return [slice(*k).indices(n) for k, n in zip(full, shape, strict=True)]


def _key(ranges: Sequence[tuple[int, int, int]]) -> tuple[Any, ...]:
    """The basic index that selects these ranges; a stop before the first element is None. Of
    a range without elements the ends do not matter, and may be before it, too."""
    return tuple(
        [(a, None if b < 0 else b, c) if range(a, b, c) else (0, 0, 1) for a, b, c in ranges]
    )


def _slice(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,) = args
    found = _ranges(op.key, x.shape)
    if found is None:
        return None
    if all(k == (0, n, 1) for k, n in zip(found, x.shape, strict=True)):
        return x
    if isinstance(x.op, Slice):
        return _slice_of_slice(r, found, x)
    if isinstance(x.op, Unslice) and _ranges(x.op.key, x.shape) == found:
        return x.args[0]
    return _slice_of_parts(r, found, x) if isinstance(x.op, Concat) else None


def _slice_of_slice(r: Rewriter, outer: Any, x: Term) -> Term | None:
    (y,) = x.args
    inner = _ranges(x.op.key, y.shape)  # type: ignore[union-attr]
    if inner is None:
        return None
    both: list[tuple[int, int, int]] = []
    for (a, b, c), (start, _, step) in zip(outer, inner, strict=True):
        count = len(range(a, b, c))
        first, by = start + a * step, c * step
        both.append((first, first + count * by, by))
    return r.op(Slice(_key(both)), y)


def _slice_of_parts(r: Rewriter, found: Any, x: Term) -> Term | None:
    axis: int = x.op.axis  # type: ignore[union-attr]
    a, b, c = found[axis]
    if c != 1:
        return None
    start = 0
    for part in x.args:
        end = start + part.shape[axis]
        if start <= a and b <= end and part.dtype == x.dtype:
            moved = [(a - start, b - start, 1) if i == axis else k for i, k in enumerate(found)]
            return r.op(Slice(_key(moved)), part)
        start = end
    return None


def _concat(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """Without parts that have no elements, and without other concatenations as parts."""
    kept = [x for x in args if x.shape[op.axis]]
    dtype = np.result_type(*[x.dtype for x in args])
    if len(kept) == 1:
        return r.cast(kept[0], dtype)
    flat: list[Term] = []
    for x in kept:
        inside = isinstance(x.op, Concat) and x.op.axis == op.axis
        flat += x.args if inside and x.dtype == dtype else [x]
    if len(flat) == len(args):
        return None
    return r.op(op, *[r.cast(x, dtype) for x in flat])


def _part(r: Rewriter, x: Term) -> Part | None:
    """Where `x` has its elements, if along all axes but one it has them everywhere."""
    if not isinstance(x.op, Unslice):
        return None
    shape, (y,) = x.shape, x.args
    full = expand_key(x.op.key, len(shape))
    if None in full:
        return None
    numbers = [a for a, k in enumerate(full) if isinstance(k, int)]
    key = [(k % n, k % n + 1, 1) if isinstance(k, int) else slice(*k).indices(n)
           for k, n in zip(full, shape, strict=True)]  # fmt: skip
    partly = [a for a, (k, n) in enumerate(zip(key, shape, strict=True)) if k != (0, n, 1)]
    if len(partly) != 1 or (numbers and numbers != partly) or key[partly[0]][2] != 1:
        return None
    start, stop, _ = key[partly[0]]
    if numbers:
        y = r.op(Reshape((*y.shape[: numbers[0]], 1, *y.shape[numbers[0] :])), y)
    return partly[0], start, stop, y


def _add(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """Parts that fill the whole, as a concatenation."""
    if op is not ew.add:
        return None
    terms = _summands(args)
    parts = [_part(r, x) for x in terms]
    known = sorted([p for p in parts if p is not None], key=lambda p: p[:2])
    if len(known) < len(terms) or len({p[0] for p in known}) != 1:
        return None
    shape, dtype = terms[0].shape, terms[0].dtype
    if any(x.shape != shape or x.dtype != dtype for x in terms):
        return None
    ends = [0, *[p[2] for p in known]]
    if [p[1] for p in known] != ends[:-1] or ends[-1] != shape[known[0][0]]:
        return None
    return r.op(Concat(known[0][0]), *[p[3] for p in known])


def _summands(args: Sequence[Term]) -> list[Term]:
    """What is added up, through sums that are arguments of sums."""
    out: list[Term] = []
    for x in args:
        out += _summands(x.args) if x.op is ew.add and len(out) < 64 else [x]
    return out


RESHAPING: dict[type, Rule] = {
    Permute: _permute, Reshape: _reshape, BroadcastTo: _broadcast, Spread: _broadcast,
    MatMul: _matmul, Elementwise: _elementwise, Where: _elementwise, Slice: _slice,
    Concat: _concat,
}  # fmt: skip
"""The rules, by class of op."""

TOGETHER: dict[type, Rule] = {Elementwise: _add}
"""Tried last: what is put together from parts."""
