"""How an op works on many examples at once: `batch(op, xs, batched, size)`.

Each x that is batched has one more axis in front than the op knows of, of size `size`; so has the
result. A family needs one rule. An op without a rule is applied to the examples one after the
other: everything works, and what has a rule is fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any, cast

import numpy as np

from chainrule.engine.arrays import admit_dtype
from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import apply
from chainrule.engine.op import Alias, Detach, Need, Op, Spec
from chainrule.ops.contraction import Einsum, MatMul
from chainrule.ops.families import (
    BroadcastTo,
    Conj,
    Elementwise,
    SumTo,
    broadcast_to,
    sum_to,
    zeros_like,
)
from chainrule.ops.indexing.selection import Take, TakeAdd, TakeAlong, TakeAlongAdd, Where
from chainrule.ops.reductions.norms import LogSumExp, Norm, Shift
from chainrule.ops.reductions.reduction import Extremum, Found, Spread, Sum
from chainrule.ops.shapes.joining import Concat, stack
from chainrule.ops.shapes.shaping import Astype, Permute, Reshape, Shape, moveaxis, reshape
from chainrule.ops.shapes.slices import Slice, Unslice

Batched = Sequence[bool]


@singledispatch
def batch(op: Op, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    """The op on each example; results along a new first axis, of each output if it has several."""
    if op.leading:
        return apply(op, *align_ranks(xs, batched))
    return one_by_one(op, xs, batched, size)


class NoExamples(Op):
    """What an op gives for no examples at all: (0, *shape), whatever it asks of its inputs."""

    shape: Shape
    dtype: np.dtype[Any]
    states_jvp = False

    @property
    def name(self) -> str:
        """`no_examples`."""
        return "no_examples"

    def eval(self, *xs: Any) -> Any:
        """Nothing."""
        return np.empty((0, *self.shape), self.dtype)

    def spec(self, *xs: Any) -> Spec:
        """(0, *shape)."""
        return Spec((0, *self.shape), self.dtype)

    def reads(self, i: int) -> tuple[int, ...] | None:
        """Nothing."""
        return () if self.dtype.kind in INEXACT else None

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """A shared input gets zeros, an input of examples nothing."""
        return [zeros_like(x) if needed else None for x, needed in zip(xs, need, strict=True)]


def no_examples(shape: Any, dtype: Any, xs: Sequence[Any]) -> Any:
    """The result of an op on no examples, of each output if it has several: `shape` and `dtype` are
    those of one example. No op runs: a convolution of no groups, say, is no convolution."""
    if isinstance(dtype, tuple):
        pairs = zip(shape, cast("Sequence[Any]", dtype), strict=True)
        return tuple([apply(NoExamples(s, admit_dtype(d)), *xs) for s, d in pairs])
    return apply(NoExamples(shape, admit_dtype(dtype)), *xs)


def one_by_one(op: Op, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    """The op on one example after the other."""
    rows = [
        apply(op, *[apply(Slice((i,)), x) if b else x for x, b in zip(xs, batched, strict=True)])
        for i in range(size)
    ]
    if op.many:
        return tuple([stack(parts) for parts in zip(*rows, strict=True)])
    return stack(rows)


def _rank(x: Any, is_batched: bool) -> int:
    """Number of axes of one example."""
    return len(getattr(x, "shape", ())) - is_batched


def align_ranks(xs: Sequence[Any], batched: Batched, rank: int | None = None) -> list[Any]:
    """All with as many axes behind the first one as the example with most axes has, or `rank`."""
    if rank is None:
        rank = max([_rank(x, b) for x, b in zip(xs, batched, strict=True)])
    return [_add_axes(x, rank) if b else x for x, b in zip(xs, batched, strict=True)]


def _add_axes(x: Any, rank: int) -> Any:
    missing = rank - (len(x.shape) - 1)
    return reshape(x, (x.shape[0], *[1] * missing, *x.shape[1:])) if missing else x


def everywhere(xs: Sequence[Any], batched: Batched, size: int) -> list[Any]:
    """All with the first axis, repeated where it was not there."""
    return [x if b else broadcast_to(x, (size, *x.shape)) for x, b in zip(xs, batched, strict=True)]


@batch.register(Elementwise)
@batch.register(Where)
def _(op: Op, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(op, *align_ranks(xs, batched))


@batch.register(Astype)
@batch.register(Conj)
@batch.register(Alias)
@batch.register(Detach)
def _(op: Op, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(op, *xs)


@batch.register(Sum)
@batch.register(Extremum)
@batch.register(LogSumExp)
@batch.register(Shift)
@batch.register(Norm)
@batch.register(Found)
def _(op: Any, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    moved = [
        tuple([a + 1 for a in op.axes]) if name == "axes" else getattr(op, name)
        for name in op.fields
    ]
    return apply(type(op)(*moved), *xs)


@batch.register
def _(op: Spread, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(Spread(tuple([a + 1 for a in op.axes]), (size, *op.shape)), *xs)


@batch.register
def _(op: Reshape, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(Reshape((size, *op.shape)), *xs)


@batch.register
def _(op: Permute, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(Permute((0, *[a + 1 for a in op.axes])), *xs)


@batch.register
def _(op: BroadcastTo, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return broadcast_to(_add_axes(xs[0], len(op.shape)), (size, *op.shape))


@batch.register
def _(op: SumTo, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    ones = (1,) * (len(op.wide) - len(op.shape))
    return reshape(sum_to(xs[0], (size, *ones, *op.shape)), (size, *op.shape))


_WHOLE = (None, None, None)


@batch.register
def _(op: Slice, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(Slice((_WHOLE, *op.key)), *xs)


@batch.register
def _(op: Unslice, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(Unslice((_WHOLE, *op.key), (size, *op.shape)), *xs)


@batch.register
def _(op: Concat, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(Concat(op.axis + 1), *everywhere(xs, batched, size))


@batch.register
def _(op: MatMul, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(op, *align_ranks(xs, batched))


@batch.register
def _(op: Einsum, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    used = "".join(op.terms)
    letter = next(
        c for c in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in used
    )
    terms = [letter + t if b else t for t, b in zip(op.terms, batched, strict=True)]
    return apply(Einsum(tuple(terms), letter + op.out), *xs)


@batch.register
def _(op: Take, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    x, index = xs
    if not batched[1]:
        return apply(Take(op.axis + 1), x, index)
    if not batched[0]:
        return moveaxis(apply(op, x, index), op.axis, 0)
    flat, rows = _flat_rows(x, index, op.axis, size)
    y = apply(Take(0), flat, rows)  # (size, *index, *rest)
    return moveaxis(y, tuple(range(1, len(index.shape))), _span(op.axis + 1, index))


def _span(start: int, index: Any) -> tuple[int, ...]:
    return tuple(range(start, start + len(index.shape) - 1))


def _flat_rows(x: Any, index: Any, axis: int, size: int) -> tuple[Any, Any]:
    """The slices of all examples along one axis (size * n, *rest), and the indices into them."""
    front = moveaxis(x, axis + 1, 1)
    n = front.shape[1]
    start = np.arange(size).reshape(size, *[1] * (len(index.shape) - 1)) * n
    return reshape(front, (size * n, *front.shape[2:])), _count_from_start(index, n) + start


def _count_from_start(index: Any, n: int) -> Any:
    """Indices into an axis of `n` elements as int64 from 0 on. A lookup, not a remainder: an index
    that is outside is an error, in compiled code too."""
    return apply(Take(0), np.arange(n), index)


@batch.register
def _(op: TakeAdd, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    g, index = xs
    if not batched[1]:
        return apply(TakeAdd(op.axis + 1, (size, *op.shape)), g, index)
    if not batched[0]:
        g = broadcast_to(g, (size, *g.shape))
    places = _span(op.axis + 1, index)
    front = moveaxis(g, places, tuple(range(1, len(index.shape))))
    n = op.shape[op.axis]
    rest = tuple([m for i, m in enumerate(op.shape) if i != op.axis])
    start = np.arange(size).reshape(size, *[1] * (len(index.shape) - 1)) * n
    flat = apply(TakeAdd(0, (size * n, *rest)), front, _count_from_start(index, n) + start)
    return moveaxis(reshape(flat, (size, n, *rest)), 1, op.axis + 1)


@batch.register
def _(op: TakeAlong, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    return apply(TakeAlong(op.axis + 1), *everywhere(xs, batched, size))


@batch.register
def _(op: TakeAlongAdd, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    shape: Shape = (size, *op.shape)
    return apply(TakeAlongAdd(op.axis + 1, shape), *everywhere(xs, batched, size))
