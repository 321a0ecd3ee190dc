"""Memory that two results of a kernel of rows share.

What is kept from one phase of a row to a later one (the exponentials of a softmax, say) needs no
memory of its own if something that has its shape is computed from it there, at the same place: each
element is overwritten when it has been read for the last time. So a row that is being worked on
stays in the first cache, and less is written to memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.accesses import accesses_of
from chainrule.compile.loops.expressions import Affine, Buffer, Exprs, Var
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import For, Stmt
from chainrule.compile.lower.plan import Group, Plan

_OWN = ("scratch", "result")


def share_memory(plan: Plan, exprs: Exprs, g: Group, body: list[Stmt]) -> list[Stmt]:
    """The kernel of `g`, with as little memory as can be between its phases."""
    members = {m.term for m in g.members}
    readers = {x: y for y in g.members for x, _ in y.requests}  # the last one of each
    uses: Uses | None = None
    shared: dict[Buffer, Buffer] = {}
    for m in g.members:
        old, last = plan.views[m.term].buffer, readers.get(m.term)
        if last is None or not _is_private(plan, members, m.term) or old in shared.values():
            continue
        new = plan.views[last.term].buffer
        alike = new.role in _OWN and new.dtype == old.dtype and new.size == old.size
        if not alike or new is old:
            continue
        uses = uses or Uses(body)
        if uses.can_share(old, new):
            uses.join(old, new)
            shared[old] = new
    return list(Renaming(buffers=shared, exprs=exprs).body(body)) if shared else body


def _is_private(plan: Plan, members: set[Term], t: Term) -> bool:
    """Whether nobody else knows of the memory of `t`: no other kernel, no copy that comes later,
    nothing that lies there."""
    memory = plan.memory
    buffer = memory.views[t].buffer
    return (
        buffer.role == "scratch"
        and members.issuperset(memory.readers.get(t, ()))
        and memory.terms_of_buffer[buffer] == (t,)
        and all(t is not x for x, _ in memory.delayed_copies)
    )


@final
@dataclass(frozen=True, slots=True)
class _Use:
    """Where in a kernel's order a place is used, in which loops, and by which statement."""

    number: int
    loops: tuple[For, ...]
    at: Affine
    store: bool


@final
class Uses:
    """Where a kernel uses which memory, by buffer and in order."""

    def __init__(self, body: Sequence[Stmt]) -> None:
        self._of: dict[Buffer, list[_Use]] = {}
        self._starts: dict[tuple[For, ...], int] = {}
        for n, (s, loops) in enumerate(_leaves(body, ())):
            self._starts.setdefault(loops, n)
            for x in accesses_of(s):
                self._of.setdefault(x.buffer, []).append(_Use(n, loops, x.at, x.writes))

    def join(self, old: Buffer, new: Buffer) -> None:
        """`new` is the memory of `old`, too."""
        found = [*self._of.pop(old, []), *self._of.get(new, [])]
        self._of[new] = sorted(found, key=lambda u: u.number)

    def can_share(self, old: Buffer, new: Buffer) -> bool:
        """Whether `new` can be the memory of `old`."""
        olds, news = self._of.get(old, []), self._of.get(new, [])
        first = [u for u in olds if u.store]
        if len(first) != 1 or len(olds) == 1 or len(news) != 1 or not news[0].store:
            return False  # stored more than once, never read, or in use already
        end = news[0]
        rows = {x.var for x, y in zip(first[0].loops, end.loops, strict=False) if x is y}
        start = self._starts[end.loops]
        return _covers(first[0].at, rows) == _covers(end.at, rows) and all(
            _same_row(u.at, end.at, rows)
            and (
                u.number < start
                or (u.loops == end.loops and u.at == end.at and u.number < end.number)
            )
            for u in olds
        )


def _leaves(body: Sequence[Stmt], loops: tuple[For, ...]) -> Iterator[tuple[Stmt, tuple[For, ...]]]:
    for s in body:
        if isinstance(s, For):
            yield from _leaves(s.body, (*loops, s))
        else:
            yield s, loops


def _covers(at: Affine, rows: set[Var]) -> tuple[object, frozenset[tuple[object, object]]]:
    """Which elements of its row a place runs over: where they begin, strides and sizes."""
    inner = [(c, v.extent if isinstance(v, Var) else v) for v, c in at.terms if v not in rows]
    return at.const, frozenset(inner)


def _same_row(a: Affine, b: Affine, rows: set[Var]) -> bool:
    return all(a.coefficient(v) == b.coefficient(v) for v in rows)
