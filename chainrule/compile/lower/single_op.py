"""Kernels of one op: concatenations, scatters, scans, ops in their eager form."""

from __future__ import annotations

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Var
from chainrule.compile.loops.statements import Host, Mode, Stmt, Store, Strided
from chainrule.compile.loops.views import ZERO, Index, View, whole
from chainrule.compile.lower.algorithms.scans import SCANS, direction
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.index_arrays import SCATTERS
from chainrule.compile.lower.memory_plan import unplaced
from chainrule.compile.lower.plan import Plan


def concat(plan: Plan, builder: Builder, t: Term) -> list[Stmt]:
    """Copies of those parts that are not in their places."""
    axis: int = t.op.axis
    out: list[Stmt] = []
    missing = unplaced(plan.views, t)
    start: Extent = 0
    for i, a in enumerate(t.args):
        if i in missing:
            axes, at = builder.counters(a.shape)
            place = tuple([x.plus(Affine(start)) if n == axis else x for n, x in enumerate(at)])
            out += builder.nest(axes, [builder.store(t, place, builder.element(a, at))])
        start = a.shape[axis] + start
    return out


def scatter(plan: Plan, builder: Builder, t: Term) -> list[Stmt]:
    """The fill; then every element of the argument to its place, in order."""
    how, e = SCATTERS[type(t.op)](builder, t), builder.exprs
    axes, at = builder.counters(t.shape)
    first = builder.store(t, at, how.fill(at))
    fill = [] if _is_there(first) else builder.nest(axes, [first])
    axes, at = builder.counters(how.shape)
    buffer, place = plan.views[t].buffer, plan.views[t].at(how.place(at))
    value = e.cast(how.value(at), t.dtype)
    if how.fold in ("maximum", "minimum"):
        value = e.fn(how.fold, e.load(buffer, place), value, dtype=t.dtype)
    store = Store(buffer, place, value, add=how.fold == "add")
    # one after the other where places may be equal, unless the backend adds in order
    ordered: Mode = "lanes" if how.fold == "add" or how.in_rows else "serial"
    return [*fill, *builder.nest(axes, [store], ordered, chained=axes)]


def scan(plan: Plan, builder: Builder, t: Term) -> list[Stmt]:
    """The first element along the axis, then each from the one before it."""
    scan, (axis, back) = SCANS[type(t.op)], direction(t)
    view, n = plan.views[t], t.shape[axis]
    inner: Mode = "serial" if axis == len(t.shape) - 1 else "lanes"

    def along(i: Affine) -> Affine:
        return Affine(n - 1).plus(i.times(-1)) if back else i

    def body(axes: list[Var], at: Index, place: Affine, first: bool) -> list[Stmt]:
        def moved(i: Affine) -> Index:
            return tuple([along(i) if a == axis else x for a, x in enumerate(at)])

        if first:
            value = scan.first(builder, t, moved(place))
        else:
            before = builder.exprs.load(view.buffer, view.at(moved(place.plus(Affine(-1)))))
            value = scan.step(builder, t, moved(place), before)
        return builder.nest(
            axes, [builder.store(t, moved(place), value)], inner, axes[axis : axis + 1]
        )

    axes, at = builder.counters([1 if a == axis else m for a, m in enumerate(t.shape)])
    out = body(axes, at, ZERO, first=True)
    if n != 1:
        axes, at = builder.counters([m - 1 if a == axis else m for a, m in enumerate(t.shape)])
        out += body(axes, at, at[axis].plus(Affine(1)), first=False)
    return out


def host(plan: Plan, builder: Builder, t: Term) -> list[Stmt]:
    """An op in its eager form, on whole arrays."""
    outputs = plan.memory.outputs.get(t, ())
    ys = [_strided(whole(b), b.shape) for b in outputs] or [_strided(plan.views[t], t.shape)]
    return [Host(t.op, tuple([_array(builder, a) for a in t.args]), tuple(ys))]


def _array(builder: Builder, t: Term) -> Strided:
    view = builder.view(t)
    return _strided(view or whole(builder.contiguous(t)), t.shape)


def _strided(view: View, shape: tuple[Extent, ...]) -> Strided:
    return Strided(view.buffer, view.offset, shape, view.strides)


def _is_there(s: Store) -> bool:
    """Whether what is stored is what is there."""
    value = s.value
    return value.kind == "load" and value.of == (s.buffer, s.at, None)
