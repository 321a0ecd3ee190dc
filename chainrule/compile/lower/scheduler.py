"""From terms to kernels: what all parts of it share, and the order in which they work.

`memory_plan` says what gets memory and where; `fusion` what shares a kernel; `row_kernels`,
`matmul`, `single_op` and `while_kernels` write the kernels.

Realized terms join a kernel as members. A kernel of rows loops over the leading axes that its
members share; within a row come phases: loops over the remaining axes, or none. What a phase
computes, the same phase uses from registers; later phases and kernels read it from memory. A
reduction's result is known in the phases after its own. A kernel of a product takes in maps that
use the product at the place where it is computed.

Notation: `rows` the counters of the shared axes; `inner` the sizes of a member's other axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

from chainrule.compile.graph.array_patterns import Pattern
from chainrule.compile.graph.sizes import Extent, product
from chainrule.compile.graph.terms import Program, Term
from chainrule.compile.loops import views
from chainrule.compile.loops.collapse import collapsed
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Exprs, Local, Var, strides_of
from chainrule.compile.loops.statements import For, Kernel, Loops, Mode, Stmt, Store
from chainrule.compile.loops.views import ZERO, Index, View, back, is_view, whole
from chainrule.compile.lower import (
    constants,
    fusion,
    materialize,
    matmul,
    memory_plan,
    op_rules,
    read_places,
    row_kernels,
    single_op,
    while_kernels,
)
from chainrule.compile.lower.algorithms import table
from chainrule.compile.lower.attention_blocks.bands import banded
from chainrule.compile.lower.concat_prefix import gathered
from chainrule.compile.lower.dead_stores import pruned
from chainrule.compile.lower.kernel_group import (
    Group,
)
from chainrule.compile.lower.materialize import is_product
from chainrule.compile.lower.matmul import for_blas
from chainrule.compile.lower.op_rules import is_map, is_scan, is_scatter, reduction
from chainrule.compile.lower.rematerialize import recomputed
from chainrule.compile.lower.scatter_sums import accumulated
from chainrule.compile.lower.transposed_matmul import turned
from chainrule.compile.target import Target
from chainrule.op import Pick
from chainrule.ops.shaping import Astype, Concat


@final
class Scheduler:
    """Turns a program into loops."""

    def __init__(
        self, program: Program, target: Target, called: Callable[[Term], bool] | None = None
    ) -> None:
        """`called` says which products are calls instead of being computed in place: those that
        are faster by BLAS, if nothing else is said."""
        self.target = target
        self.called = called or partial(for_blas, target=target)
        self.apart: set[Term] = set()
        program = accumulated(gathered(recomputed(turned(program))))
        while True:
            self._start(program)
            known = len(self.apart)
            shown = memory_plan.plan(self)
            if not shown and len(self.apart) == known:
                return
            program = materialize.copied(program, shown)

    def _start(self, program: Program) -> None:
        self.exprs = Exprs()
        self.program = program
        self.views: dict[Term, View] = {}
        self.buffers: list[Buffer] = []
        self.kernels: list[Kernel] = []
        self.groups: list[Group] = []
        self.group_of: dict[Term, Group] = {}
        self.requests: list[tuple[Term, Index]] = []
        self.held: dict[Term, Callable[[Index], Expr | None]] = {}
        self.memo: dict[Any, Expr] = {}
        self._guard: Expr | None = None
        self.patterns: dict[Term, Pattern | None] = {}
        self._names = 0
        self.packed: dict[Any, View] = {}
        self.outputs: dict[Term, list[Buffer]] = {}
        self.turns: dict[Term, tuple[Scheduler, Loops]] = {}
        self.order: list[Term] = []
        self.before: dict[Term, list[Term]] = {}
        self.late: list[tuple[Term, View]] = []
        self.reads: dict[Term, set[Term]] = {}
        self.readers: dict[Term, list[Term]] = {}
        self.lying: dict[Buffer, list[Term]] = {}
        self.reads_at: dict[Term, list[read_places.Read]] = {}
        self.results: list[Buffer] = []

    # --- names and memory

    def scratch(self, t: Term) -> None:
        """Memory for `t` alone."""
        if t.many:
            return  # several outputs: each has a buffer when the op is called
        self.views[t] = whole(self.buffer(t, "scratch"))

    def buffer(self, t: Term, role: Any, label: str = "") -> Buffer:
        """New memory for `t`."""
        return self.memory(t.dtype, t.shape, label or t.name, role)

    def memory(
        self,
        dtype: Any,
        shape: tuple[Extent, ...],
        label: str,
        role: Any = "scratch",
        value: Any = None,
    ) -> Buffer:
        """New memory: scratch memory, if nothing else is said."""
        b = Buffer(f"b{len(self.buffers)}", dtype, shape, role, value, label)
        self.buffers.append(b)
        return b

    def var(self, extent: Extent) -> Var:
        """A new counter."""
        self._names += 1
        return Var(f"i{self._names}", extent)

    def local(self, dtype: Any) -> Local:
        """A new number in a register."""
        self._names += 1
        return Local(f"r{self._names}", dtype)

    # --- elements

    def element(self, t: Term, at: Index, when: Expr | None = None) -> Expr:
        """The element of `t` at `at`; 0 where `when` is given and false."""
        if when is not None:
            return self._guarded(t, at, when)
        known = constants.element(self, t, at)
        if known is not None:
            return known
        if t in self.held and (value := self.held[t](at)) is not None:
            return value
        if (view := self.view(t)) is not None:
            if not is_view(t) and t.op is not None:
                self.requests.append((t, at))
            elif is_view(t):
                self._request_through(t, at)
            return self.exprs.load(view.buffer, view.at(at), self._guard)
        key = (t, at, self._guard)
        if key not in self.memo:
            if is_view(t):
                index = back(t, at)
                assert index is not None, f"{t} has an index that is not affine"
                self.memo[key] = self.element(t.args[0], index)
            else:
                self.memo[key] = op_rules.MAPS[type(t.op)](self, t, at)
        return self.memo[key]

    def forget(self) -> None:
        """Begin a kernel: nothing is in registers, and no expression is known."""
        self.memo, self.held = {}, {}

    def _guarded(self, t: Term, at: Index, when: Expr) -> Expr:
        e, outer = self.exprs, self._guard
        self._guard = (
            when if outer is None else e.fn("logical_and", outer, when, dtype=op_rules.BOOL)
        )
        value = self.element(t, at)
        self._guard = outer
        if value.kind == "load":
            return value
        return e.fn("where", when, value, e.lit(0, value.dtype), dtype=value.dtype)

    def _request_through(self, t: Term, at: Index) -> None:
        """Note that the realized term behind a view is read, and where, as far as is known."""
        x, index = t, at
        while is_view(x):
            new = back(x, index) if index else index
            x, index = x.args[0], new if new is not None else ()
        if x.op is not None:
            self.requests.append((x, index))

    def view(self, t: Term) -> View | None:
        """Where `t` lies, None if it does not lie anywhere or is in registers now."""
        if t in self.views:
            return self.views[t]
        if not is_view(t):
            return None
        x = views.source(t)
        if x in self.held or x not in self.views:
            return None
        inner = self.view(t.args[0])
        return None if inner is None else views.seen_through(t, inner)

    # --- groups

    def run(self) -> Loops:
        """The program."""
        for t in self.order:
            if isinstance(t.op, Pick):
                self.views[t] = whole(self.outputs[t.args[0]][t.op.index])
                self.group_of[t] = self.group_of[t.args[0]]
            elif isinstance(t.op, Concat) and is_map(t):
                fusion.joined(self, t)
            elif is_product(t):
                matmul.schedule(self, t)
            elif is_map(t) or reduction(t) is not None:
                fusion.place(self, fusion.member(self, t))
            elif is_scatter(t) or is_scan(t):
                fusion.fixed(self, "scatter" if is_scatter(t) else "scan", t)
            elif table.is_algorithm(t):
                if t.op is not None and t.op.many:
                    self.outputs_of(t)
                fusion.fixed(self, "algorithm", t)
            else:
                if t.op is not None and t.op.many:
                    self.outputs_of(t)
                fusion.fixed(self, "while" if while_kernels.is_native(self, t) else "host", t)
        for t, view in self.views.items():
            self.lying.setdefault(view.buffer, []).append(t)
        for g in self.groups:
            self._build(g)
        self._copy_late()
        symbols = sorted(
            {s for b in self.buffers for n in b.shape if not isinstance(n, int) for s in n.symbols}
        )
        program = banded(pruned(Loops(self.buffers, self.kernels, tuple(symbols))))
        for k in program.kernels:
            k.body = collapsed(k.body)
        return program

    # --- kernels

    def _build(self, g: Group) -> None:
        name = f"k{len(self.kernels)}_{_word(self._told(g.members[0].term))}"
        more: list[list[Stmt]] = []
        match g.kind:
            case "product":
                body = matmul.build(self, g)
            case "gemm":
                body = matmul.build_gemm(self, g)
            case "concat":
                body = single_op.concat(self, g.members[0].term)
            case "scatter":
                body = single_op.scatter(self, g.members[0].term)
            case "scan":
                body = single_op.scan(self, g.members[0].term)
            case "algorithm":
                body, *more = table.build(self, g.members[0].term)
            case "while":
                body = while_kernels.build(self, g.members[0].term)
            case "host":
                body = single_op.host(self, g.members[0].term)
            case _:
                body = row_kernels.Rows(self, g).body()
        about = [_about(self._told(m.term)) for m in g.members]
        self.kernels.append(Kernel(name, tuple(body), (*about, *while_kernels.told(body))))
        for body in more:
            self.kernels.append(
                Kernel(f"k{len(self.kernels)}_otherwise", tuple(body), tuple(about))
            )

    def _told(self, t: Term) -> Term:
        """What `t` is called by: a cast by what it casts, if that is computed nowhere else."""
        while isinstance(t.op, Astype):
            (x,) = t.args
            if x in self.group_of or not materialize.is_computed(x):
                break
            t = x
        return t

    def store(self, t: Term, at: Index, value: Expr) -> Store:
        """`value` is the element of `t` at `at`."""
        view = self.views[t]
        return Store(view.buffer, view.at(at), self.exprs.cast(value, view.buffer.dtype))

    def nest(self, axes: Sequence[Var], body: Sequence[Stmt], inner: Mode = "lanes") -> list[Stmt]:
        """Loops over `axes`, the last one as `inner` says: in lanes."""
        out: list[Stmt] = list(body)
        for n, v in enumerate(reversed(axes)):
            if v.extent != 1:
                out = [For(v, tuple(out), inner if n == 0 else "serial")]
        return out

    def counters(self, shape: Sequence[Extent]) -> tuple[list[Var], Index]:
        """A counter for each axis, and the index that they make."""
        axes = [self.var(n) for n in shape]
        return axes, tuple([ZERO if v.extent == 1 else Affine.of(v) for v in axes])

    def outputs_of(self, t: Term) -> None:
        """Memory for each output of an op that has several."""
        for i, (shape, dtype) in enumerate(zip(t.shape, t.dtype, strict=True)):
            self.outputs.setdefault(t, []).append(self.memory(dtype, shape, f"{t.name} {i}"))

    def contiguous(self, t: Term) -> Buffer:
        """Memory in which the elements of `t` lie in order; copied there if they do not yet."""
        view = self.view(t)
        size = product(t.shape)
        lies = view is not None and view.offset == 0 and _ordered(view.strides, t.shape)
        if view is not None and lies and view.buffer.size == size:
            return view.buffer
        b = self.buffer(t, "scratch", f"copy of {t.name}")
        self.forget()
        axes, at = self.counters(t.shape)
        value = self.element(t, at)
        store = Store(b, whole(b).at(at), self.exprs.cast(value, b.dtype))
        self.kernels.append(Kernel(f"k{len(self.kernels)}_copy", tuple(self.nest(axes, [store]))))
        return b

    def _copy_late(self) -> None:
        """What could not be computed in place is copied when everybody has read the old value."""
        for t, target in self.late:
            axes, at = self.counters(t.shape)
            value = self.exprs.load(self.views[t].buffer, self.views[t].at(at))
            store = Store(target.buffer, target.at(at), value)
            self.kernels.append(
                Kernel(f"k{len(self.kernels)}_copy", tuple(self.nest(axes, [store])))
            )


# --- small questions -----------------------------------------------------------------------------


def _ordered(strides: Sequence[Extent], shape: Sequence[Extent]) -> bool:
    return all(s == t or n == 1 for s, t, n in zip(strides, strides_of(shape), shape, strict=True))


def _word(t: Term) -> str:
    return "".join([c if c.isalnum() else "_" for c in t.name])


def _about(t: Term) -> str:
    from chainrule.provenance import location

    where = f"  {location(t.code, t.at)}" if t.code is not None else ""
    return f"{t.name} {t.dtype}{list(t.shape)}{where}"
