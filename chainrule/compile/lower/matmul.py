"""Matrix products: in tiles, in place or from copies of parts (`packing`), or by BLAS.

`left` (.., m, k), `right` (.., k, n); the leading axes broadcast.
"""

from __future__ import annotations

from chainrule.compile.graph.sizes import Extent, product, typical
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops import views
from chainrule.compile.loops.expressions import Affine, Expr, Var, within
from chainrule.compile.loops.statements import Gemm, Let, Matrix, Product, Stmt, Store
from chainrule.compile.loops.views import ZERO, Index, View, full_view, index_of
from chainrule.compile.lower import head_products
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.matmul_choice import panels_pay, sizes
from chainrule.compile.lower.packing import panels
from chainrule.compile.lower.plan import Group, Plan


def operand(builder: Builder, t: Term, transposed: bool, at: Index) -> Expr:
    """An element of an argument, whose last two axes are exchanged if it is transposed."""
    index = (*at[:-2], at[-1], at[-2]) if transposed else at
    return builder.element(t, views.broadcast_index(index, t.shape))


def tile(plan: Plan, builder: Builder, g: Group) -> list[Stmt]:
    """The tiled product and what is done with each of its elements."""
    t, op = g.term, g.term.op
    if head_products.is_by_head(plan, t):
        return head_products.tile(plan, builder, g, _with_each)
    (a, b), (turn_a, turn_b) = t.args, (op.transpose_a, op.transpose_b)
    axes, at = builder.counters(t.shape)
    row, column, (*_, k) = axes[-2], axes[-1], sizes(t)
    if t in plan.memory.columns:  # the transpose of A B is that of B times that of A
        row, column, a, b, turn_a, turn_b = column, row, b, a, not turn_b, not turn_a
    i, j, n, c = *index_of([row, column]), column.extent, builder.var(k)
    ck = ZERO if k == 1 else Affine.of(c)
    left = operand(builder, a, turn_a, (*at[:-2], i, ck))
    right_at = (*at[:-2], ck, j)
    right = operand(builder, b, turn_b, right_at)
    across = n != 1 and not _along(right, column)
    size = t.dtype.itemsize
    paneled = len(g.rows) == 2 and panels_pay(sizes(t), size, builder.target, across=across)
    if across and not paneled:
        packed = pack(builder, b, turn_b)
        right = builder.exprs.load(
            packed.buffer, packed.at(views.broadcast_index(right_at, (*b.shape[:-2], k, n)))
        )
    e = builder.exprs
    acc = builder.local(t.dtype)
    value = e.local(acc)
    body = _with_each(plan, builder, g, axes, value)
    left, right = e.cast(left, t.dtype), e.cast(right, t.dtype)
    done = Product(row, column, (c,), left, right, acc, body)
    if paneled:
        return panels.split_into_panels(builder, done)
    return builder.nest(axes[:-2], [done], "serial")


def _with_each(
    plan: Plan, builder: Builder, g: Group, axes: list[Var], value: Expr
) -> tuple[Stmt, ...]:
    """What is done with each element of the product, the `value` at `axes`. It is stored, and so is
    what the other members of the kernel make of it."""
    t, e, registers = g.term, builder.exprs, builder.elements.in_registers
    body: list[Stmt] = []
    last: list[Stmt] = []  # stores in place: when all that reads the old values is computed
    in_place = plan.views[t].buffer.role == "state"
    (last if in_place else body).append(builder.store(t, index_of(axes), value))
    registers[t] = lambda _: value
    rows = {row: axes[x] for x, row in g.members[0].along.items()}
    for member in g.members[1:]:
        index: list[Affine] = [ZERO] * len(member.counters)
        for x, row in member.along.items():
            index[x] = Affine.of(rows[row])
        builder.elements.forget()
        done = e.cast(builder.elements.computed(member.term, tuple(index)), member.term.dtype)
        in_place = plan.views[member.term].buffer.role == "state"
        local = builder.local(member.term.dtype)  # computed once; expressions stay small
        body.append(Let(local, done))
        done = e.local(local)
        (last if in_place else body).append(builder.store(member.term, tuple(index), done))
        registers[member.term] = lambda _, done=done: done
    return (*body, *last)


def _along(right: Expr, j: Var) -> bool:
    """Whether neighbouring columns lie side by side, or there is no memory in it."""
    loads = [x for x in within(right) if x.kind == "load"]
    return all(x.of[1].coefficient(j) in (0, 1) for x in loads)


def pack(builder: Builder, b: Term, transposed: bool) -> View:
    """A copy of the right matrix in which neighbouring columns lie side by side; made once."""
    key = (b, transposed)
    if key not in builder.packed:
        shape = (*b.shape[:-2], b.shape[-1], b.shape[-2]) if transposed else b.shape
        buffer = builder.memory(b.dtype, shape, f"{b.name}, turned")
        axes, at = builder.counters(shape)
        store = Store(buffer, full_view(buffer).at(at), operand(builder, b, transposed, at))
        builder.kernel("pack", builder.nest(axes, [store]))
        builder.packed[key] = full_view(buffer)
    return builder.packed[key]


def gemm(plan: Plan, builder: Builder, t: Term) -> list[Stmt]:
    """A call of BLAS for each leading index."""
    (m, n, k), view = sizes(t), plan.views[t]
    lead, at = builder.counters(t.shape[:-2])
    transposed = (t.op.transpose_a, t.op.transpose_b)
    a, b = (matrix(builder, x, other, at) for x, other in zip(t.args, transposed, strict=True))
    target = Matrix(view.buffer, view.at((*at, ZERO, ZERO)), view.strides[-2], view.strides[-1])
    if target.col != 1:  # the transpose: out.T = right.T @ left.T
        a, b = _transpose(b), _transpose(a)
        m, n = n, m
        target = _transpose(target)
    return builder.nest(lead, [Gemm(m, n, k, a, b, target)], "serial")


def _transpose(x: Matrix) -> Matrix:
    return Matrix(x.buffer, x.at, x.col, x.row)


def matrix(builder: Builder, x: Term, transposed: bool, lead: Index) -> Matrix:
    """Where BLAS finds `x`; a copy of it if its rows and columns both have gaps."""
    view = builder.view(x)
    if view is None or not _fits(view, x.shape):
        view = full_view(builder.contiguous(x))
    at = view.at((*views.broadcast_index(lead, x.shape[:-2]), ZERO, ZERO))
    row, col = view.strides[-2:]
    # a stride along an axis of size 1 means nothing, and BLAS wants a plausible one
    if x.shape[-1] == 1:
        col = 1
    elif x.shape[-2] == 1 and col == 1:
        row = x.shape[-1]
    found = Matrix(view.buffer, at, row, col)
    return _transpose(found) if transposed else found


def _fits(view: View, shape: tuple[Extent, ...]) -> bool:
    row, col = view.strides[-2:]
    if 0 in (row, col) and product(shape[-2:]) != 1:
        return False
    return (col == 1 and typical(row) >= typical(shape[-1])) or (
        row == 1 and typical(col) >= typical(shape[-2])
    )
