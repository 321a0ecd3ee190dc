"""Which terms of a program get memory, where it is, and in what order they come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, final

from chainrule.compile.graph.compiled_ops import Onto
from chainrule.compile.graph.complex_parts import lying
from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.compile.loops import views
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.views import View, full_view
from chainrule.compile.lower import elements, head_layout, materialize, ordering
from chainrule.compile.lower.column_layouts import by_column, by_columns, column_memory
from chainrule.compile.lower.op_rules import is_map
from chainrule.compile.lower.plan import MemoryPlan
from chainrule.engine.op import Pick
from chainrule.ops.shapes.joining import Concat
from chainrule.ops.shapes.shaping import Reshape

K = TypeVar("K")
V = TypeVar("V")


def plan_memory(
    program: Program, is_small: Callable[[Term], bool], lanes: Callable[[int], int]
) -> MemoryPlan:
    """The plan; copies are added to the program where something cannot be read, or written, as it
    lies. `is_small` says of a product whether it may be laid out by columns,
    `lanes` how many numbers of so many bytes a vector has."""
    assembled: set[Term] = set()
    while True:
        draft = _Draft(program, assembled, is_small, lanes)
        reshapes = draft.impossible_reshapes()
        if reshapes:
            program = materialize.with_copies(program, reshapes)
            continue
        plan, more = draft.ordered()
        if assembled.issuperset(more):
            return plan
        assembled |= more


@final
class _Draft:
    """Memory for a program, in which the new values of the inputs `assembled`, concatenations, are
    put together elsewhere and then copied."""

    def __init__(
        self,
        program: Program,
        assembled: set[Term],
        is_small: Callable[[Term], bool],
        lanes: Callable[[int], int],
    ) -> None:
        self.program = program
        self.buffers: list[Buffer] = []
        self.views: dict[Term, View] = {}
        roots = materialize.roots_of(program, assembled)
        self.roots = [r.term for r in roots]
        self.terms = in_order(self.roots)
        self.patterns = elements.patterns(self.terms)
        uses = materialize.users(self.terms)
        self.realized = materialize.to_realize(self.terms, self.roots, uses)
        self._inputs({r.updated_input for r in roots if r.updated_input is not None})
        self._constants()
        returned = [r for r in roots if r.updated_input is None]
        self.results = [self._result(r, n) for n, r in enumerate(returned)]
        for r in roots:
            if r.updated_input is not None:
                self.views[r.term] = View(self.views[r.updated_input].buffer, 0, r.strides)
        free = self._free()
        self.columns, self.heads = by_columns(
            free, self.realized - free, uses, self.patterns, is_small, lanes
        )
        wish = materialize.layouts(self.terms, self.realized)
        for t in [t for t in self.terms if t in self.columns]:
            self._column(t)
        wish |= {
            t: head_layout.row_strides(t.shape)
            for t in head_layout.row_values(self.heads, uses) & free
            if len(t.shape) > 2 and t.shape[-1] == 1
        }
        for t in reversed(self.terms):
            if t in self.realized and not isinstance(t.op, Pick):
                self._settle(t, wish.get(t))
                if isinstance(t.op, Onto):
                    self.views |= materialize.base_view(t, self.views[t], self._free(), uses)

    def _inputs(self, written: Collection[Term]) -> None:
        for t in self.program.inputs:
            role = "state" if t in written else "input"
            shape, dtype = lying(t.shape, t.dtype)
            self.views[t] = self._whole(Buffer(f"x{t.index}", dtype, shape, role))

    def _constants(self) -> None:
        for t in self.terms:
            if t.op is None and t.index is None and t not in self.patterns:
                self.views[t] = self._whole(materialize.constant_buffer(t, len(self.buffers)))

    def _column(self, t: Term) -> None:
        """Memory for a term that is laid out by columns."""
        by_head = t in self.heads
        shape, run = (
            head_layout.column_memory(t.shape) if by_head else (column_memory(t.shape), t.shape[-2])
        )
        b = self._buffer(t.dtype, shape, t.name, run=run)
        self.views[t] = head_layout.by_head(b, t.shape) if by_head else by_column(b)

    def _result(self, r: materialize.Root, number: int) -> Buffer:
        b = self._buffer(r.term.dtype, r.shape, f"result {number}", "result")
        self.views[r.term] = View(b, 0, r.strides)
        return b

    def _whole(self, b: Buffer) -> View:
        self.buffers.append(b)
        return full_view(b)

    def _buffer(
        self,
        dtype: Any,
        shape: tuple[Extent, ...],
        label: str,
        role: Any = "scratch",
        run: Extent | None = None,
    ) -> Buffer:
        b = Buffer(f"b{len(self.buffers)}", dtype, shape, role, None, label, run)
        self.buffers.append(b)
        return b

    def _free(self) -> set[Term]:
        """The realized terms that have no place yet."""
        return self.realized - self.views.keys() - frozenset(self.roots)

    def _settle(self, t: Term, strides: tuple[Extent, ...] | None) -> None:
        """Decide where `t` lies, and with it the parts of which it is put together."""
        if t not in self.views:  # else a root, or a part of something that has its place
            self._scratch(t, strides)
        if isinstance(t.op, Concat) and is_map(t):
            self.views |= materialize.operand_views(t, self.views[t], self._free())

    def _scratch(self, t: Term, strides: tuple[Extent, ...] | None = None) -> None:
        """Memory for `t` alone, with such strides if they leave no gaps."""
        if t.many:
            return
        b = self._buffer(t.dtype, t.shape, t.name)
        dense = strides is not None and materialize.is_dense(strides, t.shape)
        self.views[t] = View(b, 0, strides) if strides is not None and dense else full_view(b)

    def impossible_reshapes(self) -> set[Term]:
        """Reshapes of what does not lie so that they are views: it must be copied first."""
        return {
            t for t in self.terms
            if isinstance(t.op, Reshape) and materialize.is_hard(t)
            and views.locate(t, self.views) is None and views.source(t) not in self.patterns
        }  # fmt: skip

    def ordered(self) -> tuple[MemoryPlan, set[Term]]:
        """The plan: terms in order, with copies at the end for what cannot be computed in place.
        And the inputs whose new values must be put together elsewhere for that."""
        terms = [t for t in self.terms if t in self.realized]
        reads = {t: ordering.read_by(t, self.realized) for t in terms}
        reads_at = {t: ordering.reads_at(t, self.realized, self.views) for t in terms}
        order, waits_for, delayed = ordering.order_terms(
            self.roots, reads, self._readers_of_overwritten(reads_at)
        )
        order = ordering.numbers_first(order, reads, waits_for)
        given = {self.views[x].buffer: x for x in self.program.inputs}
        copies = [(t, self.views[t]) for t in terms if t in delayed]
        for t, _ in copies:
            self._scratch(t)
        outputs = self._outputs(order)
        plan = MemoryPlan(
            program=self.program,
            buffers=tuple(self.buffers),
            views=MappingProxyType(self.views),
            terms_of_buffer=_group([(v.buffer, t) for t, v in self.views.items()]),
            outputs=MappingProxyType(outputs),
            patterns=MappingProxyType(self.patterns),
            results=tuple(self.results),
            order=tuple(order),
            waits_for=MappingProxyType({t: tuple(xs) for t, xs in waits_for.items()}),
            reads=MappingProxyType({t: frozenset(xs) for t, xs in reads.items()}),
            readers=_group([(x, t) for t, xs in reads.items() for x in xs]),
            reads_at=MappingProxyType({t: tuple(xs) for t, xs in reads_at.items()}),
            delayed_copies=tuple(copies),
            columns=frozenset(self.columns),
            heads=frozenset(self.heads),
        )
        parts = [view for t, view in copies if t not in self.roots]
        return plan, {given[view.buffer] for view in parts}

    def _readers_of_overwritten(
        self, reads_at: Mapping[Term, Sequence[ordering.Read]]
    ) -> dict[Term, list[Term]]:
        """By term that is computed into the caller's memory: who reads what it overwrites."""
        readers = _group(
            [
                (b, t)
                for t, xs in reads_at.items()
                for b in dict.fromkeys([x.view.buffer for x in xs])
            ]
        )
        out: dict[Term, list[Term]] = {}
        for t in reads_at:
            view = self.views.get(t)
            if view is None or view.buffer.role != "state":
                continue
            if isinstance(t.op, Concat) and is_map(t) and not operands_to_copy(self.views, t):
                continue
            others = readers.get(view.buffer, ())
            out[t] = [r for r in others if _clash(r, reads_at[r], view, t)]
        return out

    def _outputs(self, order: Sequence[Term]) -> dict[Term, tuple[Buffer, ...]]:
        """Memory for the outputs of ops that have several: that of a result of the program, where
        an output is one."""
        given = {
            (t.args[0], t.op.index): self.views[t].buffer
            for t in self.roots
            if isinstance(t.op, Pick)
        }
        out: dict[Term, tuple[Buffer, ...]] = {}
        for t in order:
            if isinstance(t.op, Pick):
                self.views[t] = full_view(out[t.args[0]][t.op.index])
            elif t.many:
                kinds = enumerate(zip(t.dtype, t.shape, strict=True))
                out[t] = tuple(
                    [
                        given.get((t, i)) or self._buffer(d, s, f"{t.name} {i}")
                        for i, (d, s) in kinds
                    ]
                )
        return out


def _group(pairs: Sequence[tuple[K, V]]) -> Mapping[K, tuple[V, ...]]:
    out: dict[K, list[V]] = {}
    for k, v in pairs:
        out.setdefault(k, []).append(v)
    return MappingProxyType({k: tuple(vs) for k, vs in out.items()})


def _clash(r: Term, reads: Sequence[ordering.Read], view: View, t: Term) -> bool:
    """Whether `r` reads memory that computing `t` at `view` overwrites, other than, as `t`
    itself, each element just before it is overwritten."""
    mine = ordering.read_range(view, t.shape, plain=True)
    return any(x.meets(mine) and (r is not t or not x.plain or x.view != view) for x in reads)


def operands_to_copy(views_of: Mapping[Term, View], t: Term) -> list[int]:
    """Which parts of a concatenation are not computed into their places."""
    view = views_of[t]
    out: list[int] = []
    axis: int = t.op.axis
    start: Extent = 0
    for i, a in enumerate(t.args):
        offset = start * view.strides[axis] + view.offset
        start = a.shape[axis] + start
        mine = views_of.get(views.source(a))
        if mine is None or mine.buffer is not view.buffer or mine.offset != offset:
            out.append(i)
    return out
