"""Kernels of one op: concatenations, scatters, scans, ops in their eager form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Var
from chainrule.compile.loops.statements import Host, Mode, Stmt, Store, Strided
from chainrule.compile.loops.views import ZERO, Index, View, whole
from chainrule.compile.lower import memory_plan
from chainrule.compile.lower.algorithms.scans import SCANS, direction
from chainrule.compile.lower.index_arrays import SCATTERS

if TYPE_CHECKING:
    from chainrule.compile.lower.scheduler import Scheduler


def concat(s: Scheduler, t: Term) -> list[Stmt]:
    """Copies of those parts that are not in their places."""
    axis: int = t.op.axis
    out: list[Stmt] = []
    missing = memory_plan.unplaced(s, t)
    start: Extent = 0
    s.forget()
    for i, a in enumerate(t.args):
        if i in missing:
            axes, at = s.counters(a.shape)
            place = tuple([x.plus(Affine(start)) if n == axis else x for n, x in enumerate(at)])
            out += s.nest(axes, [s.store(t, place, s.element(a, at))])
        start = a.shape[axis] + start
    return out


def scatter(s: Scheduler, t: Term) -> list[Stmt]:
    """The fill; then every element of the argument to its place, in order."""
    s.memo = {}
    how, e = SCATTERS[type(t.op)](s, t), s.exprs
    axes, at = s.counters(t.shape)
    first = s.store(t, at, how.fill(at))
    fill = [] if _is_there(first) else s.nest(axes, [first])
    axes, at = s.counters(how.shape)
    buffer, place = s.views[t].buffer, s.views[t].at(how.place(at))
    value = e.cast(how.value(at), t.dtype)
    if how.fold in ("maximum", "minimum"):
        value = e.fn(how.fold, e.load(buffer, place), value, dtype=t.dtype)
    store = Store(buffer, place, value, add=how.fold == "add")
    # one after the other where places may be equal, unless the backend adds in order
    ordered: Mode = "lanes" if how.fold == "add" or how.in_rows else "serial"
    return [*fill, *s.nest(axes, [store], ordered)]


def scan(s: Scheduler, t: Term) -> list[Stmt]:
    """The first element along the axis, then each from the one before it."""
    s.memo = {}
    scan, (axis, back) = SCANS[type(t.op)], direction(t)
    view, n = s.views[t], t.shape[axis]
    inner: Mode = "serial" if axis == len(t.shape) - 1 else "lanes"

    def along(i: Affine) -> Affine:
        return Affine(n - 1).plus(i.times(-1)) if back else i

    def body(axes: list[Var], at: Index, place: Affine, first: bool) -> list[Stmt]:
        def moved(i: Affine) -> Index:
            return tuple([along(i) if a == axis else x for a, x in enumerate(at)])

        if first:
            value = scan.first(s, t, moved(place))
        else:
            before = s.exprs.load(view.buffer, view.at(moved(place.plus(Affine(-1)))))
            value = scan.step(s, t, moved(place), before)
        return s.nest(axes, [s.store(t, moved(place), value)], inner)

    axes, at = s.counters([1 if a == axis else m for a, m in enumerate(t.shape)])
    out = body(axes, at, ZERO, first=True)
    if n != 1:
        axes, at = s.counters([m - 1 if a == axis else m for a, m in enumerate(t.shape)])
        out += body(axes, at, at[axis].plus(Affine(1)), first=False)
    return out


def host(s: Scheduler, t: Term) -> list[Stmt]:
    """An op in its eager form, on whole arrays."""
    op: Any = t.op
    outs = s.outputs[t] if op.many else None
    ys = [_strided(s, whole(b), b.shape) for b in outs or ()] or [_strided(s, s.views[t], t.shape)]
    return [Host(op, tuple([_array(s, a) for a in t.args]), tuple(ys))]


def _array(s: Scheduler, t: Term) -> Strided:
    view = s.view(t)
    return _strided(s, view or whole(s.contiguous(t)), t.shape)


def _strided(s: Scheduler, view: View, shape: tuple[Extent, ...]) -> Strided:
    return Strided(view.buffer, view.offset, shape, view.strides)


def _is_there(s: Store) -> bool:
    """Whether what is stored is what is there."""
    value = s.value
    return value.kind == "load" and value.of == (s.buffer, s.at, None)
