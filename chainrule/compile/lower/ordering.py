"""In what order terms are computed: what is read comes before it is overwritten."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.compile.graph.sizes import product, typical
from chainrule.compile.graph.terms import Term
from chainrule.compile.lower.materialize import is_product

LARGE = 1 << 24
"""Bytes of a large result."""


def ordered(
    roots: list[Term],
    reads: dict[Term, list[Term]],
    waits: Mapping[Term, list[Term]],
) -> tuple[list[Term], dict[Term, list[Term]], set[Term]]:
    """The realized terms in an order in which a term comes after those that it `waits` for; for
    whom each term waits; and the terms for which there is no such order.
    """
    readers: dict[Term, list[Term]] = {}
    for t, xs in reads.items():
        for x in xs:
            readers.setdefault(x, []).append(t)
    before: dict[Term, list[Term]] = {}
    late: set[Term] = set()
    for t, others in waits.items():
        after = _reach(t, readers) if others else set[Term]()
        if t in others or any(r in after for r in others):
            late.add(t)
        else:
            before[t] = others
    while True:
        order, stuck = _sorted(roots, reads, before)
        if stuck is None:
            return order, before, late
        late.add(stuck)
        del before[stuck]


def numbers_first(
    order: list[Term], reads: dict[Term, list[Term]], before: dict[Term, list[Term]]
) -> list[Term]:
    """The same order, but single numbers that depend on nothing but inputs and each other (an
    optimizer's step size, say) come first: who needs one can then run with what came before."""
    first: dict[Term, None] = {}
    for t in order:
        single = not t.many and all(n == 1 for n in t.shape)
        known = all(x.op is None or x in first for x in reads[t])
        if single and known and all(x in first for x in before.get(t, [])):
            first[t] = None
    return [*first, *[t for t in order if t not in first]]


def _reach(t: Term, readers: dict[Term, list[Term]]) -> set[Term]:
    found: set[Term] = set()
    stack = list(readers.get(t, []))
    while stack:
        x = stack.pop()
        if x not in found:
            found.add(x)
            stack += readers.get(x, [])
    return found


def is_heavy(t: Term) -> bool:
    """Whether it is a large product, which comes last of what a term reads: so it need not be kept
    meanwhile, and what is done with it can be done with each element when that is there."""
    if not is_product(t):
        return False
    return typical(product(t.shape)) * t.dtype.itemsize > LARGE


def _sorted(
    roots: list[Term], reads: dict[Term, list[Term]], before: dict[Term, list[Term]]
) -> tuple[list[Term], Term | None]:
    """Depth first; a term of `before` that would have to wait for itself is given back instead."""
    done: dict[Term, None] = {}
    path: set[Term] = set()
    stack: list[tuple[Term, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        t, ready = stack.pop()
        if t in done:
            continue
        if ready:
            path.discard(t)
            done[t] = None
            continue
        if t in path:
            continue
        path.add(t)
        stack.append((t, True))
        first = [a for a in before.get(t, []) if a not in done]
        loop = [a for a in [*first, *reads[t]] if a in path]
        if loop:
            waiting = [x for x in path if before.get(x)]
            return [], waiting[-1] if t not in before else t
        nexts = [a for a in reads[t] if a.op is not None and a not in done]
        nexts = [*first, *sorted(nexts, key=is_heavy)]
        stack += [(a, False) for a in reversed(nexts)]
    return list(done), None
