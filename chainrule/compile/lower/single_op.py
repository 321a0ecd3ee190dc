"""Kernels of one op: concatenations, scatters, scans, ops in their eager form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Buffer, Var
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import (
    Host,
    Kernel,
    Loops,
    Mode,
    Stmt,
    Store,
    Strided,
    While,
    single,
)
from chainrule.compile.loops.views import ZERO, Index, View, full_view
from chainrule.compile.lower.algorithms.scans import SCANS, direction
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.index_arrays import SCATTERS
from chainrule.compile.lower.memory_plan import operands_to_copy
from chainrule.compile.lower.plan import Plan


def concat(plan: Plan, builder: Builder, t: Term) -> list[Stmt]:
    """Copies of those parts that are not in their places."""
    axis: int = t.op.axis
    out: list[Stmt] = []
    missing = operands_to_copy(plan.views, t)
    start: Extent = 0
    for i, a in enumerate(t.args):
        if i in missing:
            axes, at = builder.counters(a.shape)
            place = tuple([x + start if n == axis else x for n, x in enumerate(at)])
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
    buffer, place = plan.views[t].buffer, plan.views[t].at(how.target_index(at))
    value = e.cast(how.value(at), t.dtype)
    if how.fold in ("maximum", "minimum"):
        value = e.fn(how.fold, e.load(buffer, place), value)
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
        return Affine(n - 1) - i if back else i

    def body(axes: list[Var], at: Index, place: Affine, first: bool) -> list[Stmt]:
        def index_along(i: Affine) -> Index:
            return tuple([along(i) if a == axis else x for a, x in enumerate(at)])

        if first:
            value = scan.first(builder, t, index_along(place))
        else:
            before = builder.exprs.load(view.buffer, view.at(index_along(place - 1)))
            value = scan.step(builder, t, index_along(place), before)
        return builder.nest(
            axes, [builder.store(t, index_along(place), value)], inner, axes[axis : axis + 1]
        )

    axes, at = builder.counters([1 if a == axis else m for a, m in enumerate(t.shape)])
    out = body(axes, at, ZERO, first=True)
    if n != 1:
        axes, at = builder.counters([m - 1 if a == axis else m for a, m in enumerate(t.shape)])
        out += body(axes, at, at[axis] + 1, first=False)
    return out


def host(plan: Plan, builder: Builder, t: Term) -> list[Stmt]:
    """An op in its eager form, on whole arrays."""
    outputs = plan.memory.outputs.get(t, ())
    ys = [_strided_view(full_view(b), b.shape) for b in outputs] or [
        _strided_view(plan.views[t], t.shape)
    ]
    return [Host(t.op, tuple([_array(builder, a) for a in t.args]), tuple(ys))]


def _array(builder: Builder, t: Term) -> Strided:
    view = builder.view(t)
    return _strided_view(view or full_view(builder.contiguous(t)), t.shape)


def _strided_view(view: View, shape: tuple[Extent, ...]) -> Strided:
    return Strided(view.buffer, view.offset, shape, view.strides)


def _is_there(s: Store) -> bool:
    """Whether what is stored is what is there."""
    value = s.value
    return value.kind == "load" and value.of == (s.buffer, s.at, None)


# --- loops of unknown length: the kernels of an iteration, on memory of the program around it -----
# The carries of a loop lie where its results are: they are copied there first, and each iteration
# updates them in place.


def loop(plan: Plan, builder: Builder, t: Term, body: Plan, loops: Loops) -> list[Stmt]:
    """The loop `t`, an iteration of which has the plan `body` and the kernels of `loops`; kernels
    before it bring together what it begins with."""
    number, carries = len(builder.kernels), plan.memory.outputs[t]
    begin = [s for a, b in zip(t.args, carries, strict=False) for s in builder.copy(a, b)]
    builder.kernel("begin", begin)
    consts = [builder.contiguous(a) for a in t.args[len(carries) :]]
    inside = dict(zip(body.inputs, [*carries, *consts], strict=True))
    for b in loops.buffers:
        if b not in inside:
            inside[b] = builder.memory(b.dtype, b.shape, b.label, b.role, b.value)
    once, each = _hoist(_rename_kernels(loops, inside, number), carries)
    builder.kernels += once
    return [While(carries[0], each)]


def _hoist(
    kernels: Sequence[Kernel], carries: Sequence[Buffer]
) -> tuple[list[Kernel], tuple[Kernel, ...]]:
    """The kernels of an iteration that compute the same in each, which run before the loop; the
    rest.

    Such a kernel reads only what no iteration writes, and alone writes its memory. One that says
    whether it failed is asked in each iteration.
    """
    hosts = [s for k in single(kernels) for s in k.body if isinstance(s, Host)]
    asked = {*carries, *[s.when for s in hosts if s.when is not None]}
    writers = Counter([b for k in kernels for b in k.buffers()[1]])
    same = {b for k in kernels for b in k.buffers()[0] if not writers[b]}.difference(carries)
    once: list[Kernel] = []
    each: list[Kernel] = []
    for k in kernels:
        reads, writes = k.buffers()
        plain = not any(isinstance(x, Host | While) for x in k.body)
        alone = all(writers[b] == 1 and b.role == "scratch" for b in writes)
        known = same.issuperset({*reads} - {*writes}) and asked.isdisjoint(writes)
        if plain and alone and known:
            once.append(k)
            same.update(writes)
        else:
            each.append(k)
    return once, tuple(each)


def _rename_kernels(loops: Loops, inside: dict[Buffer, Buffer], number: int) -> tuple[Kernel, ...]:
    """The kernels of an iteration, which touch the buffers that stand for theirs."""
    renaming = Renaming(buffers=inside)
    return tuple(
        [
            _rename_kernel(Kernel(k.name, renaming.body(k.body), k.about), number)
            for k in loops.kernels
        ]
    )


def _rename_kernel(k: Kernel, number: int) -> Kernel:
    """A kernel under a name of its own: `k3_k0_add` is the first in the loop k3."""
    body = tuple(
        [
            While(x.going, tuple([_rename_kernel(y, number) for y in x.kernels]))
            if isinstance(x, While)
            else x
            for x in k.body
        ]
    )
    return Kernel(f"k{number}_{k.name}", body, k.about)


def about(body: Sequence[Stmt]) -> list[str]:
    """What the kernels of iterations compute."""
    loops = [x for x in body if isinstance(x, While)]
    return [line for x in loops for k in single(x.kernels) for line in k.about]
