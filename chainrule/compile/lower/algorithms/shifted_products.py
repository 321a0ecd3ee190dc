"""Products with rows that are parts of one array: tiles in registers, as those of matrices.

Where a row begins is read from memory, once for each tile and term of its sum.

Notation: as in `chainrule.ops.windows.shifted_products`.
"""

from __future__ import annotations

from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine
from chainrule.compile.loops.statements import Product, Stmt
from chainrule.compile.loops.views import index_of
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.plan import Plan


def shifted_product(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """All rows for a run of positions, then the next run: what that reads stays near. Cores share
    the runs, of which there are many."""
    p, w, offset, start = t.args
    groups, blocks, rows, runs, width = t.shape
    e, (i, j, k) = builder.exprs, map(builder.var, (rows, width, w.shape[2]))
    axes = [builder.var(n) for n in (runs, groups, blocks)]
    at_run, at_group, at_block, at_i, at_j, at_k = index_of([*axes, i, j, k])
    left = builder.element(w, (at_group, at_block, at_k, at_i))
    first = at_j + builder.element(offset, (at_group, at_k)) + builder.element(start, (at_run,))
    right = builder.element(p, (first,))
    acc = builder.local(t.dtype)
    store = builder.store(t, (at_group, at_block, at_i, at_run, at_j), e.local(acc))
    return [builder.nest(axes, [Product(i, j, (k,), left, right, acc, (store,))], "serial")]


def shifted_sum(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """Tiles of terms by columns of v; the sum goes over runs and the positions of each. Cores share
    the terms."""
    p, v, offset, start = t.args
    groups, blocks, terms, rows, width = t.shape
    e, (i, j) = builder.exprs, map(builder.var, (rows, width))
    r, q = map(builder.var, v.shape[2:4])
    axes = [builder.var(n) for n in (terms, groups, blocks)]
    at_term, at_group, at_block, at_i, at_j, at_run, at_q = index_of([*axes, i, j, r, q])
    row = builder.element(offset, (at_group, at_term, at_i))
    first = e.fn("add", row, builder.element(start, (at_run,)))  # once for each row and run
    left = builder.element(p, (Affine.of(first) + at_q,))
    right = builder.element(v, (at_group, at_block, at_run, at_q, at_j))
    acc = builder.local(t.dtype)
    store = builder.store(t, (at_group, at_block, at_term, at_i, at_j), e.local(acc))
    return [builder.nest(axes, [Product(i, j, (r, q), left, right, acc, (store,))], "serial")]


def turned(plan: Plan, builder: Builder, t: Term) -> list[list[Stmt]]:
    """A transposed copy."""
    axes, (channel, n, place, j) = builder.counters(t.shape)
    value = builder.element(t.args[0], (n, channel, j, place))
    return [builder.nest(axes, [builder.store(t, (channel, n, place, j), value)])]
