"""Rewriting a program before it is scheduled: ops in terms of simpler ones, and exact algebra.

A rule takes a term whose arguments have been rewritten already and gives a simpler one, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.compile.terms import Program, Term, Terms, in_order
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import MatMul
from chainrule.ops.reduction import Extremum, LogSumExp, Spread, Sum
from chainrule.ops.selection import Where
from chainrule.ops.shaping import Permute, Reshape
from chainrule.ops.families import BroadcastTo, Elementwise, SumTo

Rule = Callable[[Terms, Any, tuple[Term, ...]], Term | None]


def _log_sum_exp(terms: Terms, op: Any, args: tuple[Term, ...]) -> Term:
    """Shifted by the maximum where that is finite; -inf of nothing but -inf."""
    (x,) = args
    zero = terms.constant(0.0)
    top = terms.op(Extremum(True, op.axes, True), [x])
    top = terms.op(Where(), [terms.op(ew.isfinite, [top]), top, zero])
    shifted = terms.op(ew.exp, [terms.op(ew.sub, [x, top])])
    total = terms.op(ew.log, [terms.op(Sum(op.axes, True), [shifted])])
    y = terms.op(ew.add, [total, top])
    if op.keepdims:
        return y
    shape = tuple([n for i, n in enumerate(x.shape) if i not in op.axes])
    return terms.op(Reshape(shape), [y])


def _permute(terms: Terms, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,) = args
    if isinstance(x.op, Permute):
        inner = x.op.axes
        return terms.op(Permute(tuple([inner[a] for a in op.axes])), x.args)
    return x if op.axes == tuple(range(len(op.axes))) else None


def _reshape(terms: Terms, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,) = args
    if isinstance(x.op, Reshape):
        return terms.op(Reshape(op.shape), x.args)
    return x if x.shape == op.shape else None


def _broadcast(terms: Terms, op: Any, args: tuple[Term, ...]) -> Term | None:
    return args[0] if args[0].shape == op.shape else None


def _matmul(terms: Terms, op: Any, args: tuple[Term, ...]) -> Term | None:
    """All rows at once where the right matrix has no leading axes."""
    a, b = args
    if len(b.shape) == 2 and len(a.shape) > 2 and not op.turn_a:
        rows = 1
        for n in a.shape[:-1]:
            rows = n * rows
        flat = terms.op(Reshape((rows, a.shape[-1])), [a])
        y = terms.op(MatMul(False, op.turn_b), [flat, b])
        return terms.op(Reshape((*a.shape[:-1], y.shape[-1])), [y])
    return None


def _sum_to(terms: Terms, op: Any, args: tuple[Term, ...]) -> Term | None:
    """As a sum over axes and a reshape, where some go and others stay with size 1."""
    if op.wide == op.shape:
        return args[0]
    lead = len(op.wide) - len(op.shape)
    if lead and any(a >= lead for a in op.axes):
        return terms.op(Reshape(op.shape), [terms.op(Sum(op.axes, False), args)])
    return None


def _unspread(terms: Terms, x: Term) -> Term:
    """`x`, or what it repeats, with axes of size 1: an elementwise op repeats it by itself."""
    op: Any = x.op
    if isinstance(op, BroadcastTo):
        return x.args[0]
    if not isinstance(op, Spread):
        return x
    (y,) = x.args
    kept = tuple([1 if a in op.axes else n for a, n in enumerate(op.shape)])
    return y if y.shape == kept else _rewritten(Reshape(kept), (y,), terms)


def _elementwise(terms: Terms, op: Any, args: tuple[Term, ...]) -> Term | None:
    """Without repeating its arguments where it does so anyway."""
    bare = tuple([_unspread(terms, a) for a in args])
    if bare == args:
        return None
    shape = np.broadcast_shapes(*[a.shape for a in args])
    for i, (old, new) in enumerate(zip(args, bare, strict=True)):
        tried = [new if j == i else a for j, a in enumerate(args)]
        if old is not new and np.broadcast_shapes(*[a.shape for a in tried]) == shape:
            args = tuple(tried)
    return terms.op(op, args)


RULES: dict[type, Rule] = {
    LogSumExp: _log_sum_exp, Permute: _permute, Reshape: _reshape, BroadcastTo: _broadcast,
    Spread: _broadcast, MatMul: _matmul, SumTo: _sum_to, Elementwise: _elementwise,
    Where: _elementwise,
}  # fmt: skip


def simplified(program: Program, terms: Terms) -> Program:
    """The same program in simpler terms."""
    new: dict[Term, Term] = {}
    for t in in_order(program.roots):
        new[t] = t if t.op is None else _rewritten(t.op, tuple([new[a] for a in t.args]), terms, t)
    return Program(
        program.inputs,
        tuple([new[t] for t in program.results]),
        tuple([(i, new[t]) for i, t in program.updates]),
    )


def _rewritten(op: Any, args: tuple[Term, ...], terms: Terms, like: Term | None = None) -> Term:
    if all(a.op is None and a.index is None for a in args) and not op.many:
        return _folded(op, args, terms)
    rule = RULES.get(type(op))
    found = rule(terms, op, args) if rule is not None else None
    return terms.op(op, args, like=like) if found is None else found


def _folded(op: Any, args: tuple[Term, ...], terms: Terms) -> Term:
    """What can be computed now."""
    with np.errstate(all="ignore"):
        return terms.constant(np.asarray(op.eval(*[a.value for a in args])))
