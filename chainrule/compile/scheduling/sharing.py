"""Memory that two results of a kernel of rows share.

What is kept from one phase of a row to a later one (the exponentials of a softmax, say) needs no
memory of its own if something that has its shape is computed from it there, at the same place: each
element is overwritten when it has been read for the last time. So a row that is being worked on
stays in the first cache, and less is written to memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from chainrule.compile.loops.expressions import Affine, Buffer, Var, within
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import For, Stmt, Store, exprs_of
from chainrule.compile.scheduling.members import Group, Member
from chainrule.compile.terms.terms import Term

if TYPE_CHECKING:
    from chainrule.compile.scheduling.schedule import Scheduler

_OWN = ("scratch", "result")


def shared(s: Scheduler, g: Group, body: list[Stmt]) -> list[Stmt]:
    """The kernel of `g`, with as little memory as can be between its phases."""
    for m in g.members:
        old = s.views[m.term].buffer
        last = next((y for y in reversed(g.members) if _reads(y, m.term)), None)
        if last is None or old.role != "scratch" or not _is_alone(s, g, m.term):
            continue
        new = s.views[last.term].buffer
        alike = new.role in _OWN and new.dtype == old.dtype and new.size == old.size
        if alike and new is not old and _can_share(body, old, new):
            body = list(Renaming(buffers={old: new}, exprs=s.exprs).body(body))
            s.views[m.term] = s.views[last.term]
            s.lying[old].remove(m.term)
            s.lying[new].append(m.term)
    return body


def _reads(y: Member, t: Term) -> bool:
    return any(x is t for x, _ in y.requests)


def _is_alone(s: Scheduler, g: Group, t: Term) -> bool:
    """Whether nobody else knows of the memory of `t`: no other kernel, nothing that lies there."""
    members = {m.term for m in g.members}
    return members.issuperset(s.readers.get(t, ())) and s.lying[s.views[t].buffer] == [t]


@final
@dataclass(frozen=True, slots=True)
class _Use:
    """Where in a kernel's order a place is used, in which loops, and by which statement."""

    number: int
    loops: tuple[For, ...]
    at: Affine
    store: bool


def _can_share(body: Sequence[Stmt], old: Buffer, new: Buffer) -> bool:
    """Whether `new` can be the memory of `old` in a kernel."""
    leaves = list(_leaves(body, ()))
    olds, news = [list(_uses(leaves, b)) for b in (old, new)]
    first = [u for u in olds if u.store]
    if len(first) != 1 or len(olds) == 1 or len(news) != 1 or not news[0].store:
        return False  # stored more than once, never read, or in use already
    end = news[0]
    rows = {x.var for x, y in zip(first[0].loops, end.loops, strict=False) if x is y}
    start = next(n for n, (_, loops) in enumerate(leaves) if loops == end.loops)
    return _covers(first[0].at, rows) == _covers(end.at, rows) and all(
        _same_row(u.at, end.at, rows)
        and (
            u.number < start or (u.loops == end.loops and u.at == end.at and u.number < end.number)
        )
        for u in olds
    )


def _leaves(body: Sequence[Stmt], loops: tuple[For, ...]) -> Iterator[tuple[Stmt, tuple[For, ...]]]:
    for s in body:
        if isinstance(s, For):
            yield from _leaves(s.body, (*loops, s))
        else:
            yield s, loops


def _uses(leaves: Sequence[tuple[Stmt, tuple[For, ...]]], b: Buffer) -> Iterator[_Use]:
    for n, (s, loops) in enumerate(leaves):
        for e in exprs_of(s):
            for x in within(e):
                if x.kind == "load" and x.of[0] is b:
                    yield _Use(n, loops, x.of[1], store=False)
        if isinstance(s, Store) and s.buffer is b:
            yield _Use(n, loops, s.at, store=True)


def _covers(at: Affine, rows: set[Var]) -> tuple[object, frozenset[tuple[object, object]]]:
    """Which elements of its row a place runs over: where they begin, strides and sizes."""
    inner = [(c, v.extent if isinstance(v, Var) else v) for v, c in at.terms if v not in rows]
    return at.const, frozenset(inner)


def _same_row(a: Affine, b: Affine, rows: set[Var]) -> bool:
    return all(a.coefficient(v) == b.coefficient(v) for v in rows)
