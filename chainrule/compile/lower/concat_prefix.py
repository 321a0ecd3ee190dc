"""Concatenations that go on with others: [a, b] and [a, b, c] as x = [a, b] and [x, c].

Then x is computed into its place in the longer one, and whoever reads it reads it there.
"""

from __future__ import annotations

from dataclasses import replace

from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.ops.shaping import Concat


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
