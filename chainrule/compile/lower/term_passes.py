"""What is changed of a program before its memory is planned, so that less is moved.

* Concatenations that go on with others: [a, b] and [a, b, c] as x = [a, b] and [x, c]. Then x is
  computed into its place in the longer one, and whoever reads it reads it there.
* Products that are wanted transposed only: (A B)^T is B^T A^T, computed where it is wanted. The
  gradient of W in x @ W.T is such a product: as it is stated, each of its columns would be stored
  across the rows of W's gradient.
"""

from __future__ import annotations

from dataclasses import replace

from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.ops.contraction import MatMul
from chainrule.ops.shaping import Concat, Permute

# --- concatenations ------------------------------------------------------------------------------


def with_common_prefixes(program: Program) -> Program:
    """The program in which concatenations are parts of longer ones that begin or go on like them.
    Each is a part of one at most: it lies in one place only."""
    order = in_order(program.roots)
    whole = sorted([t for t in order if isinstance(t.op, Concat)], key=lambda t: len(t.args))
    parts: dict[Term, Term] = {}
    for n, x in enumerate(whole):
        longer = next((t for t in whole[n + 1 :] if _start(t, x) is not None), None)
        if longer is not None:
            parts[x] = longer
    if not parts:
        return program
    new: dict[Term, Term] = {}
    for t in in_order(order, lambda t: _args(t, parts)):
        new[t] = t.of([new[a] for a in _args(t, parts)])
    return program.of(new)


def _start(t: Term, x: Term) -> int | None:
    """From which argument of the concatenation `t` on stand those of `x`, which is shorter."""
    many = len(x.args)
    if len(t.args) <= many or t.op.axis != x.op.axis or t.dtype != x.dtype:
        return None
    starts = range(len(t.args) - many + 1)
    return next((i for i in starts if t.args[i : i + many] == x.args), None)


def _args(t: Term, parts: dict[Term, Term]) -> tuple[Term, ...]:
    """The arguments of `t`, those of its parts put together."""
    args = t.args
    for x in sorted([x for x, longer in parts.items() if longer is t], key=lambda x: -len(x.args)):
        start = _start(replace(t, args=args), x)
        if start is not None:  # not taken by another part
            args = (*args[:start], x, *args[start + len(x.args) :])
    return args


# --- transposed products -------------------------------------------------------------------------


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
