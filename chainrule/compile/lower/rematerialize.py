"""What is computed again where it is needed later, so that it need not be kept: a pass over terms.

Scores and weights of attention are (T, T) for each head. The forward pass uses them once; the
backward pass, much later, again. Computed twice, they need never be in memory as a whole (see
`attention_blocks`). That is worth it where they are large, and where they are causal, since
half of every product is left out then.

What follows a product *closely* is as large as it, and computed from it element by element, with
arguments that are small beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from chainrule.compile.graph.array_patterns import Triangle, recognized
from chainrule.compile.graph.sizes import product, typical
from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.compile.loops.views import is_view, source
from chainrule.compile.lower.materialize import is_product
from chainrule.compile.lower.matmul_choice import sizes
from chainrule.compile.lower.op_rules import is_map
from chainrule.ops.selection import Where

SIDE = 128
"""Rows and columns of a product that may be computed again, at least."""
CAUSAL, FULL = 1 << 20, 1 << 25
"""Bytes of such a product, at least: with a causal mask, and without."""
SMALL = 8
"""How many times smaller than the product the other arguments are, at least."""


def rematerialized(program: Program) -> Program:
    """The program in which late users of such terms have copies of their own."""
    order = in_order(program.roots)
    readers = _readers(order)
    late: dict[Term, list[_Close]] = {}
    for s in order:
        if is_product(s) and _is_wide(s):
            close = _close(s, readers)
            for u in _late(s, close, readers):
                late.setdefault(u, []).append(close)
    if not late:
        return program
    new: dict[Term, Term] = {}
    copies: dict[Term, Term] = {}
    for t in order:
        args = [new[a] for a in t.args]
        for close in late.get(t, ()):
            args = [
                _copy(a, close, copies, new) if a in close else x
                for a, x in zip(t.args, args, strict=True)
            ]
        new[t] = t.of(args)
    return program.of(new)


_Close = dict[Term, None]
"""A product and what follows it closely, in order."""


def _copy(t: Term, close: _Close, copies: dict[Term, Term], new: Mapping[Term, Term]) -> Term:
    """A copy of `t`, and of all of `close` that it needs."""
    if t not in copies:
        args = [_copy(a, close, copies, new) if a in close else new[a] for a in t.args]
        copies[t] = replace(t, args=tuple(args))
    return copies[t]


def _readers(order: Sequence[Term]) -> dict[Term, list[Term]]:
    out: dict[Term, list[Term]] = {}
    for t in order:
        for a in dict.fromkeys(t.args):
            out.setdefault(a, []).append(t)
    return out


def _is_wide(s: Term) -> bool:
    """Whether it is the product of many pairs of matrices, as the scores of attention are, with so
    many rows and columns, and few numbers in each of its sums. A layer's product is not computed
    again: that would save memory, and take time."""
    m, n, k = map(typical, sizes(s))
    return typical(product(s.shape[:-2])) > 1 and min(m, n) >= max(SIDE, 2 * k)


def _late(s: Term, close: _Close, readers: Mapping[Term, list[Term]]) -> set[Term]:
    """The users that come after another user, which is a product; none if copies are not worth
    it."""
    least = CAUSAL if any(_is_causal(t) for t in close) else FULL
    if typical(product(s.shape)) * s.dtype.itemsize < least:
        return set()
    users = {u for t in close for u in readers.get(t, []) if u not in close}
    return _after([u for u in users if is_product(u)], readers) & users


def _close(s: Term, readers: Mapping[Term, list[Term]]) -> _Close:
    count = product(s.shape)
    most = typical(count) // SMALL
    close: _Close = {s: None}

    def fits(t: Term) -> bool:
        same = not t.many and product(t.shape) == count
        return same and (is_map(t) or is_view(t)) and all(
            a in close or (x := source(a)).value is not None or typical(product(x.shape)) <= most
            for a in t.args
        )  # fmt: skip

    waiting = list(readers.get(s, []))
    while waiting:
        t = waiting.pop(0)
        if t not in close and fits(t):
            close[t] = None
            waiting += readers.get(t, [])
    return close


def _is_causal(t: Term) -> bool:
    if not isinstance(t.op, Where):
        return False
    test = source(t.args[0])
    if test.op is not None or test.index is not None:
        return False
    return isinstance(test.value, Triangle) or isinstance(recognized(test.value), Triangle)


def _after(terms: Sequence[Term], readers: Mapping[Term, list[Term]]) -> set[Term]:
    """What depends on one of `terms`."""
    found: set[Term] = set()
    stack = [r for t in terms for r in readers.get(t, [])]
    while stack:
        t = stack.pop()
        if t not in found:
            found.add(t)
            stack += readers.get(t, [])
    return found
