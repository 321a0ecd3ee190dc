"""What ops are in loops: one row for each class of op.

A map says what each element of its result is, in terms of elements of its arguments. A reduction
says what is folded over which axes. All other ops are rewritten into these by `simplify`, are
products or scatters, which `schedule` knows, or run in their eager form.

Notation: `at` the index of an element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np

from chainrule.compile.llvm.functions import known
from chainrule.compile.loops import Affine, Expr, Exprs, Fold, computable
from chainrule.compile.places import BOOL, I64, SCATTERS, Elements, read, wrapped
from chainrule.compile.rewriter import number
from chainrule.compile.scans import SCANS
from chainrule.compile.sizes import Extent
from chainrule.compile.terms import Term
from chainrule.compile.views import ZERO, Index, bounds, expanded, fitted
from chainrule.compile.windowing import Seen, Spaced
from chainrule.ops.families import Conj, Elementwise
from chainrule.ops.linalg.base import Diagonally
from chainrule.ops.reduction import Extremum, Found, Sum
from chainrule.ops.selection import Index as IndexOp
from chainrule.ops.selection import Take, TakeAlong, TakeAlongAdd, Where
from chainrule.ops.shaping import Astype, Concat, Unslice

Map = Callable[[Elements, Term, Index], Expr]


_SAME = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
_TRUTH = {"logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite",
          "signbit"}  # fmt: skip


def loop_dtype(t: Term) -> np.dtype[Any]:
    """The dtype in which NumPy computes the elementwise op `t`."""
    label = t.op.label  # type: ignore[union-attr]
    if label in _SAME or label in _TRUTH:
        plain = [number(a) for a in t.args]
        return np.result_type(
            *[a.dtype if p is None else p for a, p in zip(t.args, plain, strict=True)]
        )
    return t.dtype


def _elementwise(e: Elements, t: Term, at: Index) -> Expr:
    dtype, label = loop_dtype(t), t.op.label  # type: ignore[union-attr]
    if label == "pow" and (power := number(t.args[1])) is not None:
        x = e.exprs.cast(e.element(t.args[0], fitted(at, t.args[0].shape)), dtype)
        short = _power(e.exprs, x, power)
        if short is not None:
            return short
    xs = [e.exprs.cast(e.element(a, fitted(at, a.shape)), dtype) for a in t.args]
    if label == "div" and dtype.kind == "f" and xs[1].kind == "lit" and _exact(xs[1].of):
        label, xs = "mul", [xs[0], e.exprs.lit(1 / xs[1].of, dtype)]
    if label in ("mul", "div") and xs[1].kind == "lit" and xs[1].of == 1:
        return xs[0]
    if label == "mul" and xs[0].kind == "lit" and xs[0].of == 1:
        return xs[1]
    return e.exprs.fn(label, *xs, dtype=t.dtype)


def _exact(x: float) -> bool:
    """Whether 1 / x is exact: x is a power of two, and not at the end of the range."""
    return 2.0**-60 < abs(x) < 2.0**60 and np.frexp(abs(x))[0] == 0.5


def _power(e: Exprs, x: Expr, p: float) -> Expr | None:
    """x ** p by roots and products, with IEEE's pow's values at -0 and -inf."""
    d = x.dtype
    if d.kind != "f":
        return None
    if p in (1, 2, 3):
        out = x
        for _ in range(int(p) - 1):
            out = e.fn("mul", out, x, dtype=d)
        return out
    if p in (-1, -2):
        y = e.fn("div", e.lit(1, d), x, dtype=d)
        return y if p == -1 else e.fn("mul", y, y, dtype=d)
    if p not in (0.5, -0.5, -1.5):
        return None
    root = e.fn("sqrt", e.fn("add", x, e.lit(0, d), dtype=d), dtype=d)
    y = root if p > 0 else e.fn("div", e.lit(1, d), root, dtype=d)
    if p == -1.5:
        y = e.fn("div", y, e.fn("add", x, e.lit(0, d), dtype=d), dtype=d)
    low = e.fn("equal", x, e.lit(-np.inf, d), dtype=BOOL)
    return e.fn("where", low, e.lit(np.inf if p > 0 else 0, d), y, dtype=d)


def _where(e: Elements, t: Term, at: Index) -> Expr:
    c, a, b = t.args
    test = e.exprs.cast(e.element(c, fitted(at, c.shape)), BOOL)
    xs = [e.exprs.cast(e.element(x, fitted(at, x.shape)), t.dtype) for x in (a, b)]
    return e.exprs.fn("where", test, *xs, dtype=t.dtype)


def _astype(e: Elements, t: Term, at: Index) -> Expr:
    return e.exprs.cast(e.element(t.args[0], at), t.dtype)


def _conj(e: Elements, t: Term, at: Index) -> Expr:
    return e.element(t.args[0], at)


def inside(e: Exprs, i: Affine, n: Extent, test: Expr | None = None) -> Expr | None:
    """Whether 0 <= i < n, and `test`."""
    low = e.fn("less_equal", e.lit(0, I64), e.index(i), dtype=BOOL)
    high = e.fn("less", e.index(i), e.index(Affine(n)), dtype=BOOL)
    both = e.fn("logical_and", low, high, dtype=BOOL)
    return both if test is None else e.fn("logical_and", test, both, dtype=BOOL)


def apart(e: Exprs, i: Affine, step: int, test: Expr | None) -> tuple[Affine, Expr]:
    """i / step, and whether that is a whole number, and `test`."""
    by = e.lit(step, I64)
    whole = e.fn("floor_divide", e.index(i), by, dtype=I64)
    rest = e.fn("remainder", e.index(i), by, dtype=I64)
    hit = e.fn("equal", rest, e.lit(0, I64), dtype=BOOL)
    return Affine.of(whole), hit if test is None else e.fn("logical_and", test, hit, dtype=BOOL)


def _unslice(e: Elements, t: Term, at: Index) -> Expr:
    """The input's element where there is one, else 0. A step other than 1 takes a division."""
    (x,) = t.args
    test: Expr | None = None
    out: list[Affine] = []
    ex = e.exprs
    axis = 0
    for k in expanded(t.op.key, len(t.shape)):  # type: ignore[union-attr]
        if k is None:
            out.append(ZERO)
            continue
        i, n = at[axis], t.shape[axis]
        axis += 1
        if not isinstance(k, tuple):
            here = k + n if k < 0 else k
            equal = ex.fn("equal", ex.index(i), ex.index(Affine(here)), dtype=BOOL)
            test = equal if test is None else ex.fn("logical_and", test, equal, dtype=BOOL)
            continue
        start, step = bounds(k, n)
        moved = i.plus(Affine(start).times(-1))
        size = x.shape[len(out)]
        if step != 1:
            moved, test = apart(ex, moved, step, test)
        if step != 1 or start != 0 or size != n:
            test = inside(ex, moved, size, test)
        out.append(moved)
    return e.element(x, tuple(out), test)


def _concat(e: Elements, t: Term, at: Index) -> Expr:
    axis: int = t.op.axis  # type: ignore[union-attr]
    ex, start = e.exprs, 0
    out: Expr | None = None
    for x in t.args:
        here = at[axis].plus(Affine(start).times(-1))
        test = inside(ex, here, x.shape[axis])
        index = tuple([here if a == axis else i for a, i in enumerate(at)])
        value = ex.cast(e.element(x, index, test), t.dtype)
        out = value if out is None else ex.fn("where", test, value, out, dtype=t.dtype)
        start = x.shape[axis] + start
    assert out is not None
    return out


def _take_along_add(e: Elements, t: Term, at: Index) -> Expr:
    """Of one element along the axis: it is put where the index says, 0 elsewhere."""
    g, index = t.args
    axis: int = t.op.axis  # type: ignore[union-attr]
    ex = e.exprs
    one = tuple([ZERO if a == axis else j for a, j in enumerate(at)])
    i = wrapped(ex, e.element(index, fitted(one, index.shape)), t.shape[axis])
    here = ex.fn("equal", ex.index(at[axis]), ex.index(i), dtype=BOOL)
    value = e.element(g, fitted(one, g.shape))
    return ex.fn("where", here, ex.cast(value, t.dtype), ex.lit(0, t.dtype), dtype=t.dtype)


def _diagonally(e: Elements, t: Term, at: Index) -> Expr:
    """The element of the diagonal, 0 elsewhere."""
    (x,), op, ex = t.args, t.op, e.exprs
    *lead, row, col = at
    k: int = op.offset  # type: ignore[union-attr]
    on = ex.fn("equal", ex.index(col), ex.index(row.plus(Affine(k))), dtype=BOOL)
    return e.element(x, (*lead, row.plus(Affine(min(0, k)))), on)


def _seen(e: Elements, t: Term, at: Index) -> Expr:
    """What kernel place k of window p sees: p stride + k dilation - padding."""
    (x,), op, ex = t.args, t.op, e.exprs
    w, fill = op.windows, op.fill  # type: ignore[union-attr]
    lead = len(x.shape) - w.ndim
    test: Expr | None = None
    out = list(at[:lead])
    for a, n in enumerate(w.size):
        k, p = at[lead + a], at[lead + w.ndim + a]
        before, after = w.padding[a]
        i = p.times(w.stride[a]).plus(k.times(w.dilation[a])).plus(Affine(-before))
        if before or after:
            test = inside(ex, i, n, test)
        out.append(i)
    value = e.element(x, tuple(out), test)
    if test is None or not fill:
        return value
    return ex.fn("where", test, value, ex.lit(fill, t.dtype), dtype=t.dtype)


def _spaced(e: Elements, t: Term, at: Index) -> Expr:
    """What the window at (i + padding - k dilation) / stride has, if that is one."""
    (x,), op, ex = t.args, t.op, e.exprs
    w = op.windows  # type: ignore[union-attr]
    lead = len(x.shape) - 2 * w.ndim
    test: Expr | None = None
    out = list(at[: lead + w.ndim])
    for a, n in enumerate(w.out):
        k, i = at[lead + a], at[lead + w.ndim + a]
        p = i.plus(Affine(w.padding[a][0])).plus(k.times(-w.dilation[a]))
        if w.stride[a] != 1:
            p, test = apart(ex, p, w.stride[a], test)
        test = inside(ex, p, n, test)
        out.append(p)
    return e.element(x, tuple(out), test)


MAPS: dict[type, Map] = {
    Elementwise: _elementwise, Where: _where, Astype: _astype, Conj: _conj, Unslice: _unslice,
    Concat: _concat, Take: read, TakeAlong: read, IndexOp: read, TakeAlongAdd: _take_along_add,
    Diagonally: _diagonally, Seen: _seen, Spaced: _spaced,
}  # fmt: skip
"""By class of op: what an element of the result is."""


def is_map(t: Term) -> bool:
    """Whether each element of `t` is computed from elements of its arguments."""
    if type(t.op) not in MAPS or not in_loops(t):
        return False
    if isinstance(t.op, TakeAlongAdd):
        return t.args[0].shape[t.op.axis] == 1
    return not isinstance(t.op, Elementwise) or _is_known(t.op.label, loop_dtype(t))


@cache
def _is_known(label: str, dtype: Any) -> bool:
    """Whether there is code for the row of the op table; SciPy's special functions have none."""
    return known(label, dtype)


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


def _acc(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype.char == "e" else dtype


def reduction(t: Term) -> Reduction | None:
    """What `t` reduces, None if it is no reduction."""
    op: Any = t.op
    if not in_loops(t):
        return None
    match op:
        case Sum():
            fold: Fold = "logical_or" if t.dtype == BOOL else "add"
            return Reduction(op.axes, op.keepdims, fold, _acc(t.dtype))
        case Extremum():
            fold = "maximum" if op.largest else "minimum"
            return Reduction(op.axes, op.keepdims, fold, t.dtype)
        case Found(what="any" | "all"):
            fold = "logical_or" if op.what == "any" else "logical_and"
            return Reduction(op.axes, op.keepdims, fold, BOOL)
        case _:
            return None
