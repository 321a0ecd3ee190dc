"""Products of attention's heads of few features, with heads in the lanes (see `head_layout.py`).

| product | lanes | for each term of a sum |
|---|---|---|
| scores q k' | (t, h) | a number of k for each head, again and again, times numbers of q |
| weights v | (t, h), an accumulator for each feature | the same, with v |
| weights' g | (h, d) | a weight for each head, D times, times neighbours of g |

q, k and v are copied first: feature by feature, and in each as a column of scores.

Notation: h a head, t a row, s a column, d a feature; H T S D their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.collapse import interleave
from chainrule.compile.loops.expressions import ROOM, Affine, Expr, Var, strides_of
from chainrule.compile.loops.statements import For, Into, Let, Stmt, Store
from chainrule.compile.loops.views import Index, View, index_of
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.matmul_choice import sizes
from chainrule.compile.lower.plan import Group, Plan

WithEach = Callable[[Plan, Builder, Group, list[Var], Expr], tuple[Stmt, ...]]
"""What is done with each element of a product: the value at these axes."""


def is_by_head(plan: Plan, t: Term) -> bool:
    """Whether the product `t` makes or reads such a stack."""
    return t in plan.memory.heads or t.args[0] in plan.memory.heads


def tile(plan: Plan, builder: Builder, g: Group, with_each: WithEach) -> list[Stmt]:
    """The product of such a stack, and what is done with each of its elements."""
    t = g.term
    if t in plan.memory.heads:
        return _scores(plan, builder, g, with_each)
    return (_columns if t.op.transpose_a else _rows)(plan, builder, g, with_each)


def _few(n: Extent) -> int:
    assert isinstance(n, int), "the layout is for few features"
    return n


def _element(builder: Builder, x: Term, transposed: bool, at: Index) -> Expr:
    return builder.element(x, (*at[:-2], at[-1], at[-2]) if transposed else at)


def _scores(plan: Plan, builder: Builder, g: Group, with_each: WithEach) -> list[Stmt]:
    """q k': for each row of each head, with its q in registers, a number for each column."""
    t, e = g.term, builder.exprs
    (a, b), k = t.args, _few(sizes(t)[2])
    left = copy_by_feature(builder, a, t.op.transpose_a)
    right = copy_by_feature(builder, b, not t.op.transpose_b)
    axes, at = builder.counters(t.shape)
    *lead, head, row, column = axes
    *outer, h, i, j = at
    before: list[Stmt] = []
    value: Expr | None = None
    for d in range(k):
        local = builder.local(t.dtype)
        before.append(Let(local, e.load(left.buffer, left.at((*outer, h, i, Affine(d))))))
        one = e.load(right.buffer, right.at((*outer, h, j, Affine(d))))
        part = e.fn("mul", e.local(local), one)
        value = part if value is None else e.fn("add", value, part)
    assert value is not None
    total = builder.local(t.dtype)
    each = (Let(total, value), *with_each(plan, builder, g, axes, e.local(total)))
    body = [*before, For(column, each, independent=True)]
    return builder.nest(lead, [interleave(e, row, head, body, independent=True)], "serial")


def _rows(plan: Plan, builder: Builder, g: Group, with_each: WithEach) -> list[Stmt]:
    """weights v: an accumulator for each feature; then features become neighbours."""
    t, e = g.term, builder.exprs
    a, b = t.args
    few, terms = _few(t.shape[-1]), sizes(t)[2]
    right = copy_by_feature(builder, b, t.op.transpose_b)
    out = _by_feature(builder, t, t.shape, f"{t.name} by feature")
    axes, at = builder.counters((*t.shape[:-1], terms))
    *lead, head, row, column = axes
    *outer, h, i, j = at
    sums = [builder.local(t.dtype) for _ in range(few)]
    weight = builder.local(t.dtype)
    inner: list[Stmt] = [Let(weight, builder.element(a, (*outer, h, i, j)))]
    for d, acc in enumerate(sums):
        one = e.load(right.buffer, right.at((*outer, h, j, Affine(d))))
        inner.append(Into(acc, "add", e.fn("mul", e.local(weight), one)))
    places = [out.at((*outer, h, i, Affine(d))) for d in range(few)]
    body = [
        *[Let(acc, e.lit(0, t.dtype)) for acc in sums],
        For(column, tuple(inner)),
        *[Store(out.buffer, at, e.local(acc)) for at, acc in zip(places, sums, strict=True)],
    ]
    first = builder.nest(lead, [interleave(e, row, head, body, independent=True)], "serial")
    axes, at = builder.counters(t.shape)
    *lead, head, row, feature = axes
    done = with_each(plan, builder, g, axes, e.load(out.buffer, out.at(at)))
    each = interleave(e, feature, head, done, independent=True)
    return [*first, *builder.nest([*lead, row], [each], "serial")]


def _columns(plan: Plan, builder: Builder, g: Group, with_each: WithEach) -> list[Stmt]:
    """weights' g: a sum over rows, for all features of a column."""
    t, e = g.term, builder.exprs
    a, b = t.args
    axes, at = builder.counters(t.shape)
    *lead, head, column, feature = axes
    *outer, h, j, d = at
    row = builder.var(sizes(t)[2])
    (i,) = index_of([row])
    acc = builder.local(t.dtype)
    weight = builder.element(a, (*outer, h, i, j))
    one = _element(builder, b, t.op.transpose_b, (*outer, h, i, d))
    body = [
        Let(acc, e.lit(0, t.dtype)),
        For(row, (Into(acc, "add", e.fn("mul", weight, one)),)),
        *with_each(plan, builder, g, axes, e.local(acc)),
    ]
    each = interleave(e, head, feature, body, independent=True)
    return builder.nest([*lead, column], [each], "serial")


# --- copies ---------------------------------------------------------------------------------------


def _by_feature(builder: Builder, t: Term, shape: Sequence[Extent], label: str) -> View:
    """Memory for (.., H, T, D), feature by feature: in each as a column of scores."""
    *stack, heads, rows, few = shape
    run = heads * rows
    b = builder.memory(t.dtype, (*stack, few, run + ROOM), label, run=run)
    *strides, step, _ = strides_of(b.shape)
    return View(b, 0, (*strides, 1, heads, step))


def copy_by_feature(builder: Builder, x: Term, transposed: bool) -> View:
    """A copy of (.., H, T, D), or of its transpose, feature by feature; made once."""
    key = (x, transposed, "by feature")
    if key not in builder.packed:
        *stack, n, m = x.shape
        shape = (*stack, m, n) if transposed else x.shape
        view = _by_feature(builder, x, shape, f"{x.name}, by feature")
        axes, at = builder.counters(shape)
        *lead, head, row, feature = axes
        store = Store(view.buffer, view.at(at), _element(builder, x, transposed, at))
        each = interleave(builder.exprs, feature, head, [store], independent=True)
        builder.kernel("pack", builder.nest([*lead, row], [each], "serial"))
        builder.packed[key] = view
    return builder.packed[key]
