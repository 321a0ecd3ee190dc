"""Matrix products: in tiles, in place or from copies of parts (`panels`), or by BLAS.

`left` (.., m, k), `right` (.., k, n); the leading axes broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.compile.graph.sizes import Extent, product, typical
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops import views
from chainrule.compile.loops.expressions import Affine, Expr, Var
from chainrule.compile.loops.statements import For, Gemm, Kernel, Let, Matrix, Product, Stmt, Store
from chainrule.compile.loops.views import ZERO, Index, View, whole
from chainrule.compile.lower import op_rules
from chainrule.compile.lower.packing import panels
from chainrule.compile.target import Target

if TYPE_CHECKING:
    from chainrule.compile.lower.kernel_group import Group
    from chainrule.compile.lower.scheduler import Scheduler

BLAS_FROM = 64 * 64 * 64
"""From how many multiplications on BLAS may be faster."""
WIDE = 64
"""Bytes of a register from which on tiles in place are faster: measured with 64, AVX-512."""
DEEP = 2048
"""From how many terms of a sum on BLAS is, where nothing is copied: too much of the right matrix
comes between two rows of the left one to stay in a cache."""
FEW = 32
"""Rows and columns up to which a matrix stays in the first cache, or in registers, on its own."""
LARGE = 1 << 24
"""Bytes from which on neither a result is kept for what comes later (a band may save it), nor a
right matrix is copied to lie in rows."""


def sizes(t: Term) -> tuple[Extent, Extent, Extent]:
    """m, n, k."""
    a = t.args[0].shape
    k = a[-2] if t.op.turn_a else a[-1]
    return t.shape[-2], t.shape[-1], k


def is_large(t: Term) -> bool:
    """Whether BLAS can do it, and a call of it would pay."""
    m, n, k = map(typical, sizes(t))
    return t.dtype.itemsize in (4, 8) and min(m, n, k) >= 8 and m * n * k >= BLAS_FROM


def for_blas(t: Term, target: Target) -> bool:
    """Whether BLAS does it faster, or as a part of a band: products of many pairs of matrices are
    what attention is made of, unless what is read again and again, or added up, is small."""
    m, n, k = map(typical, sizes(t))
    large = max(m * n, n * k if t.op.turn_b else 0) * t.dtype.itemsize > LARGE
    fast = target.vector >= WIDE and (in_panels(t, target) or (k <= DEEP and not large))
    many = typical(product(t.shape[:-2])) > 1 and max(n, min(m, k)) > FEW
    return target.libraries and is_large(t) and (not fast or many)


def in_panels(t: Term, target: Target) -> bool:
    """Whether it is faster with copies of parts of its right matrix, if it is computed in place."""
    single = typical(product(t.shape[:-2])) == 1
    return single and panels.pays(sizes(t), t.dtype.itemsize, target, across=t.op.turn_b)


def schedule(s: Scheduler, t: Term) -> None:
    """Open a kernel for `t`."""
    from chainrule.compile.lower.kernel_group import Group, Member

    kind = "gemm" if s.called(t) else "product"
    own = tuple([s.var(n) for n in t.shape])
    wide = [a for a, n in enumerate(t.shape) if n != 1]
    g = Group(len(s.groups), kind, [t.shape[a] for a in wide], [])
    m = Member(t, own, [], {a: i for i, a in enumerate(wide)}, None)
    g.members.append(m)
    s.groups.append(g)
    s.group_of[t] = g


def operand(s: Scheduler, t: Term, turned: bool, at: Index) -> Expr:
    """An element of an argument, whose last two axes are exchanged if it is turned."""
    index = (*at[:-2], at[-1], at[-2]) if turned else at
    return s.element(t, views.fitted(index, t.shape))


def build(s: Scheduler, g: Group) -> list[Stmt]:
    """The tiled product and what is done with each of its elements."""
    t = g.members[0].term
    op: Any = t.op
    a, b = t.args
    _, n, k = sizes(t)
    s.forget()
    axes = [s.var(x) for x in t.shape]
    at = tuple([ZERO if v.extent == 1 else Affine.of(v) for v in axes])
    i, j, c = axes[-2], axes[-1], s.var(k)
    ck = ZERO if k == 1 else Affine.of(c)
    left = operand(s, a, op.turn_a, (*at[:-1], ck))
    right_at = (*at[:-2], ck, at[-1])
    right = operand(s, b, op.turn_b, right_at)
    across = n != 1 and not _along(right, j)
    paneled = len(g.rows) == 2 and panels.pays(sizes(t), t.dtype.itemsize, s.target, across=across)
    if across and not paneled:
        packed = pack(s, b, op.turn_b)
        right = s.exprs.load(
            packed.buffer, packed.at(views.fitted(right_at, (*b.shape[:-2], k, n)))
        )
    e = s.exprs
    acc = s.local(t.dtype)
    value = e.local(acc)
    body = _with_each(s, g, axes, value)
    s.held = {}
    left, right = e.cast(left, t.dtype), e.cast(right, t.dtype)
    done = Product(i, j, (c,), left, right, acc, body)
    if paneled:
        return panels.panelled(s, done)
    out: list[Stmt] = [done]
    for v in reversed(axes[:-2]):
        if v.extent != 1:
            out = [For(v, tuple(out))]
    return out


def _with_each(s: Scheduler, g: Group, axes: list[Var], value: Expr) -> tuple[Stmt, ...]:
    """What is done with each element of the product, the `value` at `axes`: it is stored, and so is
    what the other members of the kernel make of it."""
    t, e = g.members[0].term, s.exprs
    at = tuple([ZERO if v.extent == 1 else Affine.of(v) for v in axes])
    body: list[Stmt] = []
    last: list[Stmt] = []  # stores in place: when all that reads the old values is computed
    (last if s.views[t].buffer.role == "state" else body).append(s.store(t, at, value))
    s.held[t] = lambda _: value
    rows = {row: axes[x] for x, row in g.members[0].along.items()}
    for member in g.members[1:]:
        index: list[Affine] = [ZERO] * len(member.own)
        for x, row in member.along.items():
            index[x] = Affine.of(rows[row])
        s.memo = {}
        done = e.cast(
            op_rules.MAPS[type(member.term.op)](s, member.term, tuple(index)), member.term.dtype
        )
        in_place = s.views[member.term].buffer.role == "state"
        local = s.local(member.term.dtype)  # computed once; expressions stay small
        body.append(Let(local, done))
        done = e.local(local)
        (last if in_place else body).append(s.store(member.term, tuple(index), done))
        s.held[member.term] = lambda _, done=done: done
    return (*body, *last)


def _along(right: Expr, j: Var) -> bool:
    """Whether neighbouring columns lie side by side, or there is no memory in it."""
    from chainrule.compile.loops.expressions import within

    loads = [x for x in within(right) if x.kind == "load"]
    return all(x.of[1].coefficient(j) in (0, 1) for x in loads)


def pack(s: Scheduler, b: Term, turned: bool) -> View:
    """A copy of the right matrix in which neighbouring columns lie side by side; made once."""
    key = (b, turned)
    if key not in s.packed:
        shape = (*b.shape[:-2], b.shape[-1], b.shape[-2]) if turned else b.shape
        buffer = s.memory(b.dtype, shape, f"{b.name}, turned")
        axes, at = s.counters(shape)
        store = Store(buffer, whole(buffer).at(at), operand(s, b, turned, at))
        s.kernels.append(Kernel(f"k{len(s.kernels)}_pack", tuple(s.nest(axes, [store]))))
        s.packed[key] = whole(buffer)
    return s.packed[key]


def build_gemm(s: Scheduler, g: Group) -> list[Stmt]:
    """A call of BLAS for each leading index."""
    t = g.members[0].term
    op: Any = t.op
    m, n, k = sizes(t)
    s.forget()
    lead = [s.var(x) for x in t.shape[:-2]]
    at = tuple([ZERO if v.extent == 1 else Affine.of(v) for v in lead])
    a, b = (
        matrix(s, x, turned, at) for x, turned in zip(t.args, (op.turn_a, op.turn_b), strict=True)
    )
    view = s.views[t]
    place = View(view.buffer, view.offset, view.strides)
    target = Matrix(view.buffer, place.at((*at, ZERO, ZERO)), view.strides[-2], view.strides[-1])
    if target.col != 1:  # the transpose: out.T = right.T @ left.T
        a, b = _turned(b), _turned(a)
        m, n = n, m
        target = _turned(target)
    out: list[Stmt] = [Gemm(m, n, k, a, b, target)]
    for v in reversed(lead):
        if v.extent != 1:
            out = [For(v, tuple(out))]
    return out


def _turned(x: Matrix) -> Matrix:
    return Matrix(x.buffer, x.at, x.col, x.row)


def matrix(s: Scheduler, x: Term, turned: bool, lead: Index) -> Matrix:
    """Where BLAS finds `x`; a copy of it if its rows and columns both have gaps."""
    view = s.view(x)
    if view is None or not _fits(view, x.shape):
        view = whole(s.contiguous(x))
    at = view.at((*views.fitted(lead, x.shape[:-2]), ZERO, ZERO))
    row, col = view.strides[-2:]
    # a stride along an axis of size 1 means nothing, and BLAS wants a plausible one
    if x.shape[-1] == 1:
        col = 1
    elif x.shape[-2] == 1 and col == 1:
        row = x.shape[-1]
    found = Matrix(view.buffer, at, row, col)
    return _turned(found) if turned else found


def _fits(view: View, shape: tuple[Extent, ...]) -> bool:
    row, col = view.strides[-2:]
    if 0 in (row, col) and product(shape[-2:]) != 1:
        return False
    return (col == 1 and typical(row) >= typical(shape[-1])) or (
        row == 1 and typical(col) >= typical(shape[-2])
    )
