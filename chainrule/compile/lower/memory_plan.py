"""Which terms of a program get memory, where it is, and in what order they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chainrule.compile.graph.complex_parts import lying
from chainrule.compile.graph.scatter_onto import Onto
from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term, in_order
from chainrule.compile.loops import views
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.views import View, whole
from chainrule.compile.lower import constants, materialize, ordering, read_places, scatter_sums
from chainrule.compile.lower.op_rules import is_map
from chainrule.op import Pick
from chainrule.ops.shaping import Concat, Reshape

if TYPE_CHECKING:
    from chainrule.compile.lower.scheduler import Scheduler


def plan(s: Scheduler) -> set[Term]:
    """Returns reshapes of what does not lie so that they are views: it must be copied."""
    wanted = materialize.roots_of(s.program, s.apart)
    roots = [r.term for r in wanted]
    order = in_order(roots)
    uses = materialize.users(order)
    held = materialize.to_realize(order, roots, uses)
    _inputs(s, {r.given for r in wanted if r.given is not None})
    _constants(s, order)
    s.results = [_root(s, r, n) for n, r in enumerate(wanted) if r.given is None]
    for r in wanted:
        if r.given is not None:
            _root(s, r, 0)
    fixed = frozenset(roots)
    wish = materialize.layouts(order, held)
    for t in reversed(order):
        if t in held and not isinstance(t.op, Pick):
            _settle(s, t, fixed, wish, held)
            if isinstance(t.op, Onto):
                free = held - s.views.keys() - fixed
                s.views |= scatter_sums.base_view(t, s.views[t], free, uses)
    shown = {
        t for t in order
        if isinstance(t.op, Reshape) and materialize.is_hard(t) and s.view(t) is None
        and constants.pattern(s, views.source(t)) is None
    }  # fmt: skip
    if not shown:
        _order(s, roots, order, held)
    return shown


def _root(s: Scheduler, r: materialize.Root, number: int) -> Buffer:
    """The memory that a root is computed to."""
    if r.given is not None:
        b = s.views[r.given].buffer
    else:
        name = f"b{len(s.buffers)}"
        b = Buffer(name, r.term.dtype, r.shape, "result", None, f"result {number}")
        s.buffers.append(b)
    s.views[r.term] = View(b, 0, r.strides)
    return b


def _settle(
    s: Scheduler,
    t: Term,
    roots: frozenset[Term],
    wish: dict[Term, tuple[Extent, ...]],
    held: set[Term],
) -> None:
    """Decide where `t` lies, and with it the parts of which it is put together."""
    strides = wish.get(t)
    if t in s.views:
        pass  # a root, or a part of something that has its place
    elif strides is None or not materialize.is_dense(strides, t.shape):
        s.scratch(t)
    else:
        s.views[t] = View(s.buffer(t, "scratch"), 0, strides)
    if isinstance(t.op, Concat) and is_map(t):
        free = held - s.views.keys() - roots
        s.views |= materialize.part_views(t, s.views[t], free)


def _order(s: Scheduler, roots: list[Term], order: list[Term], held: set[Term]) -> None:
    """Put terms in order; what cannot be computed in place is copied at the end."""
    reads = {t: read_places.read_by(t, held) for t in order if t in held}
    s.reads = {t: set(xs) for t, xs in reads.items()}
    for t, xs in s.reads.items():
        for x in xs:
            s.readers.setdefault(x, []).append(t)
    at = {t: read_places.reads_at(t, held, s.views) for t in reads}
    s.reads_at = at
    readers: dict[Buffer, list[Term]] = {}
    for r, seen in at.items():
        for b in dict.fromkeys([x.view.buffer for x in seen]):
            readers.setdefault(b, []).append(r)
    waits: dict[Term, list[Term]] = {}
    for t in reads:
        view = s.views.get(t)
        if view is None or view.buffer.role != "state":
            continue
        if isinstance(t.op, Concat) and is_map(t) and not unplaced(s, t):
            continue
        waits[t] = [r for r in readers.get(view.buffer, ()) if _clash(s, r, view, t)]
    s.order, s.before, late = ordering.ordered(roots, reads, waits)
    s.order = ordering.numbers_first(s.order, reads, s.before)
    s.late = []
    given = {s.views[x].buffer: x for x in s.program.inputs}
    for t in late:
        if t not in roots:  # a part: what it belongs to is put together elsewhere, then copied
            s.apart.add(given[s.views[t].buffer])
        s.late.append((t, s.views[t]))
        s.scratch(t)


def _clash(s: Scheduler, r: Term, view: View, t: Term) -> bool:
    """Whether `r` reads memory that computing `t` at `view` overwrites, other than, as `t`
    itself, each element just before it is overwritten."""
    mine = read_places.touched(view, t.shape, plain=True)
    return any(
        x.meets(mine) and (r is not t or not x.plain or x.view != view) for x in s.reads_at[r]
    )


def unplaced(s: Scheduler, t: Term) -> list[int]:
    """Which parts of a concatenation are not computed into their places."""
    view = s.views[t]
    out: list[int] = []
    axis: int = t.op.axis
    start: Extent = 0
    for i, a in enumerate(t.args):
        offset = start * view.strides[axis] + view.offset
        start = a.shape[axis] + start
        mine = s.views.get(views.source(a))
        if mine is None or mine.buffer is not view.buffer or mine.offset != offset:
            out.append(i)
    return out


def _inputs(s: Scheduler, written: set[Term]) -> None:
    for t in s.program.inputs:
        role = "state" if t in written else "input"
        shape, dtype = lying(t.shape, t.dtype)
        b = Buffer(f"x{t.index}", dtype, shape, role)
        s.buffers.append(b)
        s.views[t] = whole(b)


def _constants(s: Scheduler, order: Sequence[Term]) -> None:
    for t in order:
        if t.op is None and t.index is None and constants.element(s, t, ()) is None:
            b = materialize.constant_buffer(t, len(s.buffers))
            s.buffers.append(b)
            s.views[t] = whole(b)
