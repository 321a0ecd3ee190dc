"""In what order terms are computed: what is read comes before it is overwritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from chainrule.compile.graph.compiled_ops import Onto
from chainrule.compile.graph.loop_body import Keep
from chainrule.compile.graph.sizes import Extent, product, typical
from chainrule.compile.graph.terms import Term
from chainrule.compile.graph.walks import reachable
from chainrule.compile.loops import views
from chainrule.compile.loops.views import View, is_view, source
from chainrule.compile.lower.materialize import is_product
from chainrule.ops.families import Elementwise
from chainrule.ops.indexing.selection import Where
from chainrule.ops.shapes.shaping import Astype

LARGE = 1 << 24
"""Bytes of a large result."""


def order_terms(
    roots: list[Term], reads: dict[Term, list[Term]], waits: Mapping[Term, list[Term]]
) -> tuple[list[Term], dict[Term, list[Term]], set[Term]]:
    """The realized terms, each after those that it `waits` for; for whom each term waits; and the
    terms for which there is no such order.
    """
    readers: dict[Term, list[Term]] = {}
    for t, xs in reads.items():
        for x in xs:
            readers.setdefault(x, []).append(t)
    before: dict[Term, list[Term]] = {}
    late: set[Term] = set()
    for t, others in waits.items():
        after = reachable([t], lambda x: readers.get(x, ())) if others else set[Term]()
        if t in others or any(r in after for r in others):
            late.add(t)
        else:
            before[t] = others
    while True:
        order, stuck = _sort(roots, reads, before)
        if stuck is None:
            return order, before, late
        late.add(stuck)
        del before[stuck]


def numbers_first(
    order: list[Term], reads: dict[Term, list[Term]], before: dict[Term, list[Term]]
) -> list[Term]:
    """The same order, but some single numbers come first: those that depend on nothing but inputs
    and each other (an optimizer's step size, say). Who needs one can then run with what came
    before."""
    first: dict[Term, None] = {}
    for t in order:
        single = not t.many and all(n == 1 for n in t.shape)
        known = all(x.op is None or x in first for x in reads[t])
        if single and known and all(x in first for x in before.get(t, [])):
            first[t] = None
    return [*first, *[t for t in order if t not in first]]


def is_heavy(t: Term) -> bool:
    """Whether it is a large product, which comes last of what a term reads. So it need not be kept
    meanwhile, and each element can be used as soon as it is there."""
    if not is_product(t):
        return False
    return typical(product(t.shape)) * t.dtype.itemsize > LARGE


def _sort(
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


# --- which memory is read -------------------------------------------------------------------------


def read_by(t: Term, realized: set[Term]) -> list[Term]:
    """The inputs, constants and realized terms that computing `t` reads: through views and maps."""
    found: dict[Term, None] = {}
    stack = list(reversed(t.args))
    while stack:
        x = source(stack.pop())
        if x.op is None or x in realized:
            found[x] = None
        else:
            stack += reversed(x.args)
    return list(found)


@final
@dataclass(frozen=True, slots=True)
class Read:
    """What a term reads of an input's memory: elements of `view`, from `start` to before `end`.

    `plain`: each element is read only for the element of the term at the same place.
    """

    view: View
    start: int | None
    end: int
    plain: bool

    def meets(self, other: Read) -> bool:
        """Whether both may touch the same element."""
        if self.view.buffer is not other.view.buffer:
            return False
        if self.start is None or other.start is None:
            return True
        return self.start < other.end and other.start < self.end


def read_range(view: View, shape: Sequence[Extent], *, plain: bool) -> Read:
    """The elements of an array of `shape` at `view`."""
    last: Extent = view.offset
    first: Extent = view.offset
    for n, stride in zip(shape, view.strides, strict=True):
        reach = (n - 1) * stride
        if not isinstance(reach, int) or reach >= 0:
            last = reach + last
        else:
            first = reach + first
    if isinstance(first, int) and isinstance(last, int):
        return Read(view, first, last + 1, plain)
    return Read(view, None, 0, plain)


def reads_at(t: Term, realized: set[Term], at: Mapping[Term, View]) -> list[Read]:
    """Which memory of inputs computing `t` reads."""
    out: list[Read] = []
    stack: list[tuple[Term, bool]] = [(a, is_plain(t, a)) for a in t.args]
    while stack:
        a, plain = stack.pop()
        x = source(a)
        if x.index is not None:
            out.append(_read(a, at[x], plain))
        elif x.op is not None and x not in realized:
            stack += [(b, plain and a is x and is_plain(x, b)) for b in x.args]
    return out


def _read(a: Term, view: View, plain: bool) -> Read:
    """Reading the chain of views `a` of what lies at `view`."""
    chain: list[Term] = []
    while is_view(a):
        chain.append(a)
        a = a.args[0]
    shape = a.shape
    for v in reversed(chain):
        through = views.seen_through(v, view)
        if through is None:
            return read_range(view, shape, plain=False)
        view, shape = through, v.shape
    return read_range(view, shape, plain=plain)


def is_plain(t: Term, a: Term) -> bool:
    """Whether each element of the map `t` is computed from the element of `a` at the same place.
    Elements of a tape stay there, but for a row; so does what others are added to."""
    if isinstance(t.op, Keep | Onto):
        return a is t.args[0] and a not in t.args[1:]
    return isinstance(t.op, Elementwise | Where | Astype) and a.shape == t.shape
