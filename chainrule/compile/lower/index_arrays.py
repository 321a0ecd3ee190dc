"""Places that come from data: where an index array says that an element is read or written.

Reading and writing are the same question: at which index of the whole array does the element of the
selected one stand? `PLACES` answers it, for the ops that read and for their transposes.

Notation: `at` the index of an element of what was selected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, final

import numpy as np

from chainrule.compile.graph.compiled_ops import Onto
from chainrule.compile.graph.loop_body import Keep
from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Expr, Exprs, strides_of
from chainrule.compile.loops.views import ZERO, Index, bounds, broadcast_index, expand_key
from chainrule.ops.indexing import index_arrays
from chainrule.ops.indexing import selection as sel
from chainrule.ops.indexing.scatter_reductions import ScatterExtremum
from chainrule.ops.indexing.scattering import LastWriter

I64 = np.dtype(np.int64)
BOOL = np.dtype(bool)


class Elements(Protocol):
    """Who is asked for elements of arguments."""

    exprs: Exprs

    def element(self, t: Term, at: Index, when: Expr | None = None) -> Expr:
        """The element of `t` at `at`; 0 where `when` is given and false."""
        ...


Place = Callable[[Elements, Any, Sequence[Extent], Sequence[Term], Index], Index]
"""(elements, op, shape of the whole array, index arrays, at) -> the index in the whole array."""


def index_from_data(e: Exprs, i: Expr, n: Extent) -> Affine:
    """An index from data: a negative one counts from the end; one outside is the nearest."""
    i = e.cast(i, I64)
    size = e.index(Affine(n))
    zero = e.lit(0, I64)
    low = e.fn("less", i, zero)
    i = e.fn("where", low, e.fn("add", i, size), i)
    i = e.fn("maximum", i, zero)
    last = e.index(Affine(n - 1))
    return Affine.of(e.fn("minimum", i, last))


def _take(e: Elements, op: Any, shape: Any, indices: Sequence[Term], at: Index) -> Index:
    (index,) = indices
    end = op.axis + len(index.shape)
    place = index_from_data(e.exprs, e.element(index, at[op.axis : end]), shape[op.axis])
    return (*at[: op.axis], place, *at[end:])


def _take_along(e: Elements, op: Any, shape: Any, indices: Sequence[Term], at: Index) -> Index:
    (index,) = indices
    place = index_from_data(
        e.exprs, e.element(index, broadcast_index(at, index.shape)), shape[op.axis]
    )
    full = broadcast_index(tuple([ZERO if a == op.axis else j for a, j in enumerate(at)]), shape)
    return tuple([place if a == op.axis else j for a, j in enumerate(full)])


def _index(e: Elements, op: Any, shape: Any, indices: Sequence[Term], at: Index) -> Index:
    """NumPy's rule: if the index arrays and integers are adjacent, their broadcast axes stand where
    the first of them stood. Otherwise these axes come first."""
    key = expand_key(op.template, len(shape))
    chosen = [i for i, k in enumerate(key) if isinstance(k, str | int)]
    count = max([len(x.shape) for x in indices])
    together = chosen == list(range(chosen[0], chosen[-1] + 1))
    start = chosen[0] if together else 0
    block, rest = at[start : start + count], [*at[:start], *at[start + count :]]
    arrays = iter(indices)
    out: list[Affine] = []
    for k in key:
        n = shape[len(out)] if k is not None else 1
        if k is None:
            rest.pop(0)
        elif isinstance(k, tuple):
            first, step = bounds(k, n)
            out.append(rest.pop(0) * step + first)
        elif isinstance(k, int):
            out.append(Affine(k + n if k < 0 else k))
        else:
            x = next(arrays)
            out.append(index_from_data(e.exprs, e.element(x, broadcast_index(block, x.shape)), n))
    return tuple(out)


PLACES: dict[type, Place] = {
    sel.Take: _take, sel.TakeAlong: _take_along, index_arrays.Index: _index,
    sel.TakeAdd: _take, sel.TakeAlongAdd: _take_along, index_arrays.IndexAdd: _index,
}  # fmt: skip
"""By class of op, of those that read and of those that write."""

READS = sel.Take | sel.TakeAlong | index_arrays.Index
"""The ops that read at places."""


def read(e: Elements, t: Term, at: Index) -> Expr:
    """The element of one of the ops that read."""
    x, *indices = t.args
    return e.element(x, PLACES[type(t.op)](e, t.op, x.shape, indices, at))


# --- writing -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Scatter:
    """Every element of the result starts as `fill`. Then, for each index of an array of `shape`, in
    order, the element at `target_index` becomes the `fold` of itself and `value`, or `value`.
    `in_rows`: along the last axis the targets are distinct and adjacent.
    """

    shape: tuple[Extent, ...]
    fill: Callable[[Index], Expr]
    target_index: Callable[[Index], Index]
    value: Callable[[Index], Expr]
    fold: Literal["add", "maximum", "minimum"] | None
    in_rows: bool = False


def _scatter_add(
    e: Elements, t: Term, op: Any, args: Sequence[Term], fill: Callable[[Index], Expr]
) -> Scatter:
    g, *indices = args
    place = PLACES[type(op)]
    return Scatter(
        g.shape,
        fill,
        lambda at: place(e, op, t.shape, indices, at),
        lambda at: e.element(g, at),
        "add",
    )


def _adding(e: Elements, t: Term) -> Scatter:
    return _scatter_add(e, t, t.op, t.args, lambda at: e.exprs.lit(0, t.dtype))


def _onto(e: Elements, t: Term) -> Scatter:
    op: Any = t.op
    return _scatter_add(e, t, op.op, t.args[1:], lambda at: e.element(t.args[0], at))


def _flat(e: Elements, places: Term, t: Term) -> Callable[[Index], Index]:
    return lambda at: (index_from_data(e.exprs, e.element(places, at), t.shape[0]),)


def _last_writer(e: Elements, t: Term) -> Scatter:
    (places,) = t.args

    def number(at: Index) -> Expr:
        total = ZERO
        for i, step in zip(at, strides_of(places.shape), strict=True):
            total += i * step
        return e.exprs.index(total)

    return Scatter(places.shape, lambda at: e.exprs.lit(-1, I64), _flat(e, places, t), number, None)


def _extremum(e: Elements, t: Term) -> Scatter:
    x, source, places = t.args
    fold = "maximum" if t.op.largest else "minimum"  # type: ignore[union-attr]
    return Scatter(
        source.shape, lambda at: e.element(x, at), _flat(e, places, t),
        lambda at: e.element(source, at), fold,
    )  # fmt: skip


def _keep(e: Elements, t: Term) -> Scatter:
    tape, places, row = t.args
    n = len(places.shape)
    return Scatter(
        row.shape,
        lambda at: e.element(tape, at),
        lambda at: (index_from_data(e.exprs, e.element(places, at[:n]), t.shape[0]), *at[n:]),
        lambda at: e.element(row, at),
        None,
        in_rows=len(row.shape) > n,
    )


SCATTERS: dict[type, Callable[[Elements, Term], Scatter]] = {
    sel.TakeAdd: _adding, sel.TakeAlongAdd: _adding, index_arrays.IndexAdd: _adding,
    Onto: _onto, LastWriter: _last_writer, ScatterExtremum: _extremum, Keep: _keep,
}  # fmt: skip
"""By class of op."""
