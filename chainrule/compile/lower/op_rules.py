"""What ops are in loops: one row for each class of op.

A map says what each element of its result is, in terms of elements of its arguments. A reduction
says what is folded over which axes. All other ops are rewritten into these by `simplify`, are
products or scatters, which `planning` knows, or run in their eager form.

Notation: `at` the index of an element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np

from chainrule.compile.graph.rules.rewriter import number, uniform
from chainrule.compile.graph.rules.windows import SlidingWindows, Spaced
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Expr, Exprs, computable
from chainrule.compile.loops.functions import TRUTHS, is_function
from chainrule.compile.loops.statements import Fold
from chainrule.compile.loops.views import ZERO, Index, broadcast_index
from chainrule.compile.lower.algorithms.scans import SCANS
from chainrule.compile.lower.guarded_maps import (
    diagonally,
    inside,
    spaced_element,
    unslice,
    window_element,
)
from chainrule.compile.lower.index_arrays import BOOL, SCATTERS, Elements, index_from_data, read
from chainrule.ops.families import Conj, Elementwise
from chainrule.ops.indexing.index_arrays import Index as IndexOp
from chainrule.ops.indexing.selection import Take, TakeAlong, TakeAlongAdd, Where
from chainrule.ops.linalg.base import Diagonally
from chainrule.ops.reductions.reduction import Extremum, Found, Sum
from chainrule.ops.shapes.joining import Concat
from chainrule.ops.shapes.shaping import Astype
from chainrule.ops.shapes.slices import Unslice

Map = Callable[[Elements, Term, Index], Expr]


def loop_dtype(t: Term) -> np.dtype[Any]:
    """The dtype in which NumPy computes the elementwise op `t`."""
    if t.op.label in TRUTHS:
        plain = [number(a) for a in t.args]
        return np.result_type(
            *[a.dtype if p is None else p for a, p in zip(t.args, plain, strict=True)]
        )
    return t.dtype


_STEPS = {"polygamma", "spherical_jn"}  # an order counts as the nearest whole number
_ORDERED = {*_STEPS, "iv", "ive"}
_EVEN = {"iv", "ive"}  # I_-n is I_n
_ALIASES = {"polygamma0": "digamma", "iv0": "i0", "iv1": "i1", "ive0": "i0e", "ive1": "i1e"}


def _function(t: Term) -> tuple[str, tuple[Term, ...]]:
    """What the elementwise op `t` is called in loops, and its arguments: where the order is known,
    each order is a function of its own."""
    label = t.op.label
    order = uniform(t.args[0]) if label in _ORDERED else None
    if order is None or not np.isfinite(order):
        return label, t.args
    n = round(order)
    if n != order and label not in _STEPS:
        return label, t.args
    name = f"{label}{abs(n) if label in _EVEN else n}"
    return _ALIASES.get(name, name), t.args[1:]


def _elementwise(e: Elements, t: Term, at: Index) -> Expr:
    """A row of the table at an element; short forms for whole powers and exact quotients."""
    dtype, (label, args) = loop_dtype(t), _function(t)
    if label == "pow" and (power := number(t.args[1])) is not None:
        x = e.exprs.cast(e.element(t.args[0], broadcast_index(at, t.args[0].shape)), dtype)
        short = _power(e.exprs, x, power)
        if short is not None:
            return short
    xs = [e.exprs.cast(e.element(a, broadcast_index(at, a.shape)), dtype) for a in args]
    if dtype == BOOL:
        label = {"add": "logical_or", "mul": "logical_and"}.get(label, label)
    if label == "div" and dtype.kind == "f" and xs[1].kind == "lit" and _exact(xs[1].of):
        label, xs = "mul", [xs[0], e.exprs.lit(1 / xs[1].of, dtype)]
    if label in ("mul", "div") and xs[1].kind == "lit" and xs[1].of == 1:
        return xs[0]
    if label == "mul" and xs[0].kind == "lit" and xs[0].of == 1:
        return xs[1]
    return e.exprs.fn(label, *xs)


def _exact(x: float) -> bool:
    """Whether 1 / x is exact: x is a power of two, and not at the end of the range."""
    return 2.0**-60 < abs(x) < 2.0**60 and np.frexp(abs(x))[0] == 0.5


_WHOLE = range(65)
"""Powers of whole numbers that are products: an expression is walked once for each factor."""


def _product_of(e: Exprs, x: Expr, p: int) -> Expr:
    """x to the power of p >= 0, by squares: p - 1 products up to 3, 12 at most."""
    if p == 0:
        return e.lit(1, x.dtype)
    if p == 1:
        return x
    half = _product_of(e, x, p // 2)
    even = e.fn("mul", half, half)
    return e.fn("mul", even, x) if p % 2 else even


def _power(e: Exprs, x: Expr, p: float) -> Expr | None:
    """x ** p by roots and products, with IEEE's pow's values at -0 and -inf."""
    d = x.dtype
    if d.kind in "iu" and p in _WHOLE:
        return _product_of(e, x, int(p))
    if d.kind != "f":
        return None
    if p in (1, 2, 3):
        return _product_of(e, x, int(p))
    if p in (-1, -2):
        y = e.fn("div", e.lit(1, d), x)
        return y if p == -1 else e.fn("mul", y, y)
    if p not in (0.5, -0.5, -1.5):
        return None
    root = e.fn("sqrt", e.fn("add", x, e.lit(0, d)))
    y = root if p > 0 else e.fn("div", e.lit(1, d), root)
    if p == -1.5:
        y = e.fn("div", y, e.fn("add", x, e.lit(0, d)))
    low = e.fn("equal", x, e.lit(-np.inf, d))
    return e.fn("where", low, e.lit(np.inf if p > 0 else 0, d), y)


def _where(e: Elements, t: Term, at: Index) -> Expr:
    c, a, b = t.args
    test = e.exprs.cast(e.element(c, broadcast_index(at, c.shape)), BOOL)
    xs = [e.exprs.cast(e.element(x, broadcast_index(at, x.shape)), t.dtype) for x in (a, b)]
    return e.exprs.fn("where", test, *xs)


def _astype(e: Elements, t: Term, at: Index) -> Expr:
    return e.exprs.cast(e.element(t.args[0], at), t.dtype)


def _conj(e: Elements, t: Term, at: Index) -> Expr:
    return e.element(t.args[0], at)


def _concat(e: Elements, t: Term, at: Index) -> Expr:
    axis: int = t.op.axis
    ex, start = e.exprs, 0
    out: Expr | None = None
    for x in t.args:
        here = at[axis] - start
        test = inside(ex, here, x.shape[axis])
        index = tuple([here if a == axis else i for a, i in enumerate(at)])
        value = ex.cast(e.element(x, index, test), t.dtype)
        out = value if out is None else ex.fn("where", test, value, out)
        start = x.shape[axis] + start
    assert out is not None
    return out


def _take_along_add(e: Elements, t: Term, at: Index) -> Expr:
    """Of one element along the axis: it is put where the index says, 0 elsewhere."""
    g, index = t.args
    axis: int = t.op.axis
    ex = e.exprs
    one = tuple([ZERO if a == axis else j for a, j in enumerate(at)])
    i = index_from_data(ex, e.element(index, broadcast_index(one, index.shape)), t.shape[axis])
    here = ex.fn("equal", ex.index(at[axis]), ex.index(i))
    value = e.element(g, broadcast_index(one, g.shape))
    return ex.fn("where", here, ex.cast(value, t.dtype), ex.lit(0, t.dtype))


MAPS: dict[type, Map] = {
    Elementwise: _elementwise, Where: _where, Astype: _astype, Conj: _conj, Unslice: unslice,
    Concat: _concat, Take: read, TakeAlong: read, IndexOp: read, TakeAlongAdd: _take_along_add,
    Diagonally: diagonally, SlidingWindows: window_element, Spaced: spaced_element,
}  # fmt: skip
"""By class of op: what an element of the result is."""


def is_map(t: Term) -> bool:
    """Whether each element of `t` is computed from elements of its arguments."""
    if type(t.op) not in MAPS or not in_loops(t):
        return False
    if isinstance(t.op, TakeAlongAdd):
        return t.args[0].shape[t.op.axis] == 1
    if not isinstance(t.op, Elementwise):
        return True
    label, dtype = _function(t)[0], loop_dtype(t)
    if label == "pow" and dtype.kind in "iu":
        return number(t.args[1]) in _WHOLE
    return _is_known(label, dtype)


@cache
def _is_known(label: str, dtype: Any) -> bool:
    """Whether there is code for the function; Bessel functions of any order have none."""
    return is_function(label, dtype)


def is_scatter(t: Term) -> bool:
    """Whether elements of `t`'s argument are written to places that indices name."""
    return type(t.op) in SCATTERS and in_loops(t) and not is_map(t)


def is_scan(t: Term) -> bool:
    """Whether each element of `t` is computed from the one before it."""
    return type(t.op) in SCANS and in_loops(t)


def in_loops(t: Term) -> bool:
    """Whether loops can compute with all of the numbers of the op `t`."""
    dtypes = [x.dtype for x in (t, *t.args)]  # a tuple of them for an op with several outputs
    return all(isinstance(d, np.dtype) and computable(d) for d in dtypes)


# --- reductions ----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Reduction:
    """`fold` over `axes` of the one argument, in numbers of `dtype`; axes of size 1 may stay."""

    axes: tuple[int, ...]
    keepdims: bool
    fold: Fold
    dtype: np.dtype[Any]


def reduction(t: Term) -> Reduction | None:
    """What `t` reduces, None if it is no reduction."""
    op: Any = t.op
    if not in_loops(t):
        return None
    match op:
        case Sum():
            fold: Fold = "logical_or" if t.dtype == BOOL else "add"
            return Reduction(op.axes, op.keepdims, fold, t.dtype)
        case Extremum():
            fold = "maximum" if op.largest else "minimum"
            return Reduction(op.axes, op.keepdims, fold, t.dtype)
        case Found(what="any" | "all"):
            fold = "logical_or" if op.what == "any" else "logical_and"
            return Reduction(op.axes, op.keepdims, fold, BOOL)
        case _:
            return None
