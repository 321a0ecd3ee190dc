"""Products that are wanted transposed only: (A B)^T is B^T A^T, computed where it is wanted.

The gradient of W in x @ W.T is such a product: as it is stated, each of its columns would be stored
across the rows of W's gradient.
"""

from __future__ import annotations

from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.ops.contraction import MatMul
from chainrule.ops.shaping import Permute


def without_transposed_products(program: Program) -> Program:
    """The program in which no product is read by transposes alone."""
    order = in_order(program.roots)
    kept = set(program.roots)
    across: set[Term] = set()
    for t in order:
        for a in t.args:
            if isinstance(a.op, MatMul):
                (across if _transposes(t) else kept).add(a)
    if not across - kept:
        return program
    new: dict[Term, Term] = {}
    for t in order:
        if _transposes(t) and t.args[0] in across - kept:
            new[t] = _transposed(t, *[new[a] for a in t.args[0].args])
        else:
            new[t] = t.of([new[a] for a in t.args])
    return program.of(new)


def _transposes(t: Term) -> bool:
    """Whether `t` exchanges the last two axes of a product, whose matrices come in equal stacks."""
    n = len(t.shape) if not t.many else 0
    return (
        isinstance(t.op, Permute)
        and n > 1
        and tuple(t.op.axes) == (*range(n - 2), n - 1, n - 2)
        and isinstance(t.args[0].op, MatMul)
        and t.args[0].args[0].shape[:-2] == t.args[0].args[1].shape[:-2]
    )


def _transposed(t: Term, a: Term, b: Term) -> Term:
    """The product whose transpose `t` is, the other way round."""
    product = t.args[0]
    op = MatMul(not product.op.turn_b, not product.op.turn_a)
    return Term(op, (b, a), t.shape, t.dtype, None, None, product.code, product.at)
