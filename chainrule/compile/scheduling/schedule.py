"""From terms to kernels.

Realized terms join a kernel as members. A kernel of rows loops over the leading axes that its
members share; within a row come phases: loops over the remaining axes, or none. What a phase
computes, the same phase uses from registers; later phases and kernels read it from memory. A
reduction's result is known in the phases after its own. A kernel of a product takes in maps that
use the product at the place where it is computed.

Notation: `rows` the counters of the shared axes; `inner` the sizes of a member's other axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from chainrule.compile.banding.bands import banded
from chainrule.compile.loops import views
from chainrule.compile.loops.collapse import collapsed
from chainrule.compile.loops.language import (
    Affine,
    Buffer,
    Expr,
    Exprs,
    For,
    Host,
    Kernel,
    Local,
    Loops,
    Mode,
    Stmt,
    Store,
    Strided,
    Var,
    strides_of,
)
from chainrule.compile.loops.views import ZERO, Index, View, back, is_view, whole
from chainrule.compile.scheduling import lower, realize, rows
from chainrule.compile.scheduling.again import recomputed
from chainrule.compile.scheduling.gathering import gathered
from chainrule.compile.scheduling.lower import is_map, is_scan, is_scatter, reduction
from chainrule.compile.scheduling.members import (
    Group,
    Member,
    kept_axes,
    mapping,
    result_axis,
    runs_along,
)
from chainrule.compile.scheduling.places import SCATTERS
from chainrule.compile.scheduling.products import for_blas
from chainrule.compile.scheduling.prune import pruned
from chainrule.compile.scheduling.realize import is_product
from chainrule.compile.scheduling.scans import SCANS, direction
from chainrule.compile.terms.patterns import Pattern, Ratio, Steps, Triangle, Uniform, recognized
from chainrule.compile.terms.sizes import Extent, Size, product, typical
from chainrule.compile.terms.terms import Program, Term, in_order
from chainrule.op import Pick
from chainrule.ops.shaping import Concat, Reshape

NEAR = 32
"""How many kernels back a term looks for company."""


@final
class Scheduler:
    """Turns a program into loops."""

    def __init__(self, program: Program, called: Callable[[Term], bool] = for_blas) -> None:
        """`called` says which products are calls, of BLAS, instead of being computed in place."""
        self.called = called
        self._apart: set[Term] = set()
        program = gathered(recomputed(program))
        while True:
            self._start(program)
            known = len(self._apart)
            shown = self._plan()
            if not shown and len(self._apart) == known:
                return
            program = realize.copied(program, shown)

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
        self._patterns: dict[Term, Pattern | None] = {}
        self._names = 0
        self.packed: dict[Any, View] = {}
        self.outputs: dict[Term, list[Buffer]] = {}
        self.turns: dict[Term, tuple[Scheduler, Loops]] = {}

    # --- what is realized, and where

    def _plan(self) -> set[Term]:
        """Returns reshapes of what does not lie so that they are views: it must be copied."""
        wanted = realize.roots_of(self.program, self._apart)
        roots = [r.term for r in wanted]
        order = in_order(roots)
        held = realize.to_realize(order, roots, realize.users(order))
        self._inputs({r.given for r in wanted if r.given is not None})
        self._constants(order)
        self.results = [self._root(r, n) for n, r in enumerate(wanted) if r.given is None]
        for r in wanted:
            if r.given is not None:
                self._root(r, 0)
        fixed = frozenset(roots)
        wish = realize.layouts(order, held)
        for t in reversed(order):
            if t in held and not isinstance(t.op, Pick):
                self._settle(t, fixed, wish, held)
        shown = {
            t for t in order
            if isinstance(t.op, Reshape) and realize.is_hard(t) and self.view(t) is None
            and self._pattern(views.source(t)) is None
        }  # fmt: skip
        if not shown:
            self._order(roots, order, held)
        return shown

    def _root(self, r: realize.Root, number: int) -> Buffer:
        """The memory that a root is computed to."""
        if r.given is not None:
            b = self.views[r.given].buffer
        else:
            name = f"b{len(self.buffers)}"
            b = Buffer(name, r.term.dtype, r.shape, "result", None, f"result {number}")
            self.buffers.append(b)
        self.views[r.term] = View(b, 0, r.strides)
        return b

    def _settle(
        self,
        t: Term,
        roots: frozenset[Term],
        wish: dict[Term, tuple[Extent, ...]],
        held: set[Term],
    ) -> None:
        """Decide where `t` lies, and with it the parts of which it is put together."""
        strides = wish.get(t)
        if t in self.views:
            pass  # a root, or a part of something that has its place
        elif strides is None or not realize.is_dense(strides, t.shape):
            self._scratch(t)
        else:
            self.views[t] = View(self.buffer(t, "scratch"), 0, strides)
        if isinstance(t.op, Concat) and is_map(t):
            free = held - self.views.keys() - roots
            self.views |= realize.part_views(t, self.views[t], free)

    def _order(self, roots: list[Term], order: list[Term], held: set[Term]) -> None:
        """Put terms in order; what cannot be computed in place is copied at the end."""
        reads = {t: realize.read_by(t, held) for t in order if t in held}
        self.reads = {t: set(xs) for t, xs in reads.items()}
        at = {t: realize.reads_at(t, held, self.views) for t in reads}
        self.reads_at = at
        readers: dict[Buffer, list[Term]] = {}
        for r, seen in at.items():
            for b in dict.fromkeys([x.view.buffer for x in seen]):
                readers.setdefault(b, []).append(r)
        waits: dict[Term, list[Term]] = {}
        for t in reads:
            view = self.views.get(t)
            if view is None or view.buffer.role != "state":
                continue
            if isinstance(t.op, Concat) and is_map(t) and not self._unplaced(t):
                continue
            waits[t] = [r for r in readers.get(view.buffer, ()) if self._clash(r, view, t)]
        self.order, self.before, late = realize.ordered(roots, reads, waits)
        self.order = realize.numbers_first(self.order, reads, self.before)
        self.late: list[tuple[Term, View]] = []
        given = {self.views[x].buffer: x for x in self.program.inputs}
        for t in late:
            if t not in roots:  # a part: what it belongs to is put together elsewhere, then copied
                self._apart.add(given[self.views[t].buffer])
            self.late.append((t, self.views[t]))
            self._scratch(t)

    def _clash(self, r: Term, view: View, t: Term) -> bool:
        """Whether `r` reads memory that computing `t` at `view` overwrites, other than, as `t`
        itself, each element just before it is overwritten."""
        mine = realize.touched(view, t.shape, plain=True)
        return any(
            x.meets(mine) and (r is not t or not x.plain or x.view != view)
            for x in self.reads_at[r]
        )

    def _unplaced(self, t: Term) -> list[int]:
        """Which parts of a concatenation are not computed into their places."""
        view = self.views[t]
        out: list[int] = []
        axis: int = t.op.axis
        start: Extent = 0
        for i, a in enumerate(t.args):
            offset = start * view.strides[axis] + view.offset
            start = a.shape[axis] + start
            mine = self.views.get(views.source(a))
            if mine is None or mine.buffer is not view.buffer or mine.offset != offset:
                out.append(i)
        return out

    def _scratch(self, t: Term) -> None:
        if t.many:
            return  # several outputs: each has a buffer when the op is called
        self.views[t] = whole(self.buffer(t, "scratch"))

    def _inputs(self, written: set[Term]) -> None:
        for t in self.program.inputs:
            role = "state" if t in written else "input"
            b = Buffer(f"x{t.index}", t.dtype, t.shape, role)
            self.buffers.append(b)
            self.views[t] = whole(b)

    def _constants(self, order: Sequence[Term]) -> None:
        for t in order:
            if t.op is None and t.index is None and self._recognized(t, ()) is None:
                b = realize.constant_buffer(t, len(self.buffers))
                self.buffers.append(b)
                self.views[t] = whole(b)

    def buffer(self, t: Term, role: Any, label: str = "") -> Buffer:
        """New memory for `t`."""
        b = Buffer(f"b{len(self.buffers)}", t.dtype, t.shape, role, None, label or t.name)
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
        known = self._recognized(t, at)
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
                self.memo[key] = lower.MAPS[type(t.op)](self, t, at)
        return self.memo[key]

    def forget(self) -> None:
        """Begin a kernel: nothing is in registers, and no expression is known."""
        self.memo, self.held = {}, {}

    def _guarded(self, t: Term, at: Index, when: Expr) -> Expr:
        e, outer = self.exprs, self._guard
        self._guard = when if outer is None else e.fn("logical_and", outer, when, dtype=lower.BOOL)
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

    def _recognized(self, t: Term, at: Index) -> Expr | None:
        """The element of a constant that a pattern gives, without memory."""
        if t.op is not None or t.index is not None:
            return None
        p = self._pattern(t)
        e = self.exprs
        match p:
            case Uniform():
                return self._number(p.value, t.dtype)
            case Triangle():
                if not at:
                    return e.lit(True, bool)
                row, col = e.index(at[-2].plus(Affine(p.k))), e.index(at[-1])
                return e.fn("less_equal", col, row, dtype=lower.BOOL)
            case Steps():
                place = (at[p.axis] if at else ZERO).times(p.step).plus(Affine(p.start))
                return e.cast(e.index(place), t.dtype)
            case _:
                return None

    def _pattern(self, t: Term) -> Pattern | None:
        if t.op is not None or t.index is not None:
            return None
        if t not in self._patterns:
            known = isinstance(t.value, Uniform | Triangle | Steps)
            self._patterns[t] = t.value if known else recognized(t.value)
        return self._patterns[t]

    def _number(self, value: Any, dtype: Any) -> Expr:
        e = self.exprs
        if isinstance(value, Size):
            return e.cast(e.index(Affine(value)), dtype)
        if isinstance(value, Ratio):
            scale, size = e.lit(value.scale, dtype), e.cast(e.index(Affine(value.size)), dtype)
            return e.fn("div" if value.over else "mul", scale, size, dtype=dtype)
        return e.lit(value, dtype)

    # --- groups

    def run(self) -> Loops:
        """The program."""
        from chainrule.compile.scheduling import products, whiles

        for t in self.order:
            if isinstance(t.op, Pick):
                self.views[t] = whole(self.outputs[t.args[0]][t.op.index])
                self.group_of[t] = self.group_of[t.args[0]]
            elif isinstance(t.op, Concat) and is_map(t):
                self._joined(t)
            elif is_product(t):
                products.schedule(self, t)
            elif is_map(t) or reduction(t) is not None:
                self._place(self._member(t))
            elif is_scatter(t) or is_scan(t):
                self._fixed("scatter" if is_scatter(t) else "scan", t)
            else:
                if t.op is not None and t.op.many:
                    self._outputs(t)
                self._fixed("while" if whiles.is_native(self, t) else "host", t)
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

    def _member(self, t: Term) -> Member:
        red = reduction(t)
        own = tuple([self.var(n) for n in realize.space(t)])
        self.requests = []
        self.memo = {}
        at = tuple([ZERO if v.extent == 1 else Affine.of(v) for v in own])
        self.element(t.args[0], at) if red else lower.MAPS[type(t.op)](self, t, at)
        return Member(t, own, list(dict.fromkeys(self.requests)), {}, red)

    def _place(self, m: Member) -> None:
        waits = [self.group_of[x].number for x, _ in m.requests if x in self.group_of]
        waits += [
            self.group_of[x].number for x in self.before.get(m.term, []) if x in self.group_of
        ]
        last = max(waits, default=-1)
        for g in self._candidates(m, last):
            if self._join(g, m):
                self.group_of[m.term] = g
                return
        self._open(m)

    def _candidates(self, m: Member, last: int) -> list[Group]:
        """The kernel of the last term that `m` reads; then later ones that do as much and read
        something that `m` reads, too."""
        first = [self.groups[last]] if last >= 0 else []
        mine = self._sources(m.term)
        rows = [m.own[a].extent for a in kept_axes(m)[0]]
        later = [
            g
            for g in self.groups[last + 1 :][-NEAR:]
            if g.kind == "rows" and g.rows == rows
            and any(not mine.isdisjoint(self._sources(x.term)) for x in g.members)
        ]  # fmt: skip
        return [*first, *later]

    def _sources(self, t: Term) -> set[Term]:
        """What `t` reads in memory."""
        return {x for x in self.reads[t] if x.shape}

    def _open(self, m: Member) -> None:
        axes, inside = kept_axes(m)
        g = Group(len(self.groups), "rows", [m.own[a].extent for a in axes], [m])
        if m.reduces is not None:
            g.inside, g.across = inside, not inside
        m.along = {a: i for i, a in enumerate(axes)}
        self.groups.append(g)
        self.group_of[m.term] = g

    def _joined(self, t: Term) -> None:
        """A concatenation whose parts are in place is there when the last of them is."""
        if self._unplaced(t):
            self._fixed("concat", t)
            return
        groups = [self.group_of[x] for a in t.args if (x := views.source(a)) in self.group_of]
        self.group_of[t] = max(groups, key=lambda g: g.number)

    def _concat(self, t: Term) -> list[Stmt]:
        """Copies of those parts that are not in their places."""
        axis: int = t.op.axis
        out: list[Stmt] = []
        missing = self._unplaced(t)
        start: Extent = 0
        self.forget()
        for i, a in enumerate(t.args):
            if i in missing:
                axes, at = self.counters(a.shape)
                place = tuple([x.plus(Affine(start)) if n == axis else x for n, x in enumerate(at)])
                out += self.nest(axes, [self.store(t, place, self.element(a, at))])
            start = a.shape[axis] + start
        return out

    def _fixed(self, kind: str, t: Term) -> None:
        g = Group(len(self.groups), kind, [], [Member(t, (), [], {}, None)])
        self.groups.append(g)
        self.group_of[t] = g

    def _join(self, g: Group, m: Member) -> bool:
        """Whether `m` became a member of `g`."""
        if g.kind == "product":
            return self._join_product(g, m)
        if g.kind != "rows":
            return False
        axes, inside = kept_axes(m)
        own = [m.own[a].extent for a in axes]
        common = 0
        while common < min(len(own), len(g.rows)) and own[common] == g.rows[common]:
            common += 1
        if m.reduces is None:
            if g.across and not (len(own) == len(g.rows) == common):
                return False
            if g.inside and common < len(g.rows):
                return False
        elif inside:
            if g.across or common < len(own) or (g.inside and common < len(g.rows)):
                return False
        elif g.inside or not (len(own) == len(g.rows) == common):
            return False
        if not (g.inside or inside) and common < max(len(own), len(g.rows)):
            if common == 0:
                return False
            rest = [product(g.rows[common:]), product(own[common:])]
            if min(map(typical, rest)) < 8:
                return False
        along = {a: i for i, a in enumerate(axes[:common])}
        if not self._aligned(g, m, along, common) or not self._safe(g, m, along):
            return False
        m.along = along
        g.rows = g.rows[:common]
        for x in g.members:
            x.along = {a: i for a, i in x.along.items() if i < common}
        g.inside = g.inside or (m.reduces is not None and inside)
        g.across = g.across or (m.reduces is not None and not inside)
        g.members.append(m)
        return True

    def _join_product(self, g: Group, m: Member) -> bool:
        if m.reduces is not None:
            return False
        members = {x.term: x for x in g.members}
        along: dict[int, int] = {}
        for x, index in m.requests:
            if x in members and index:
                found = mapping(m, members[x], index)
                if found is None:
                    return False
                along = found
        wide = [a for a, v in enumerate(m.own) if v.extent != 1]
        if sorted(along) != wide or len(along) != len(g.rows):
            return False
        if not self._aligned(g, m, along, len(g.rows)) or not self._safe(g, m, along):
            return False
        m.along = along
        g.members.append(m)
        return True

    def _aligned(self, g: Group, m: Member, along: dict[int, int], rows: int) -> bool:
        """Whether `m` reads the members of `g` only in its own row."""
        mine = {i: m.own[a] for a, i in along.items()}
        for x, index in m.requests:
            member = next((y for y in g.members if y.term is x), None)
            if member is None:
                if self.group_of.get(x) is g:
                    return False  # put together of members, each in a phase of its own
                continue
            if not index and x.shape:
                return False
            if [
                i
                for a, i in member.along.items()
                if i < rows and not runs_along(index, result_axis(member, a), mine.get(i))
            ]:
                return False
            if len([i for i in member.along.values() if i < rows]) < rows:
                return False
        return True

    def _safe(self, g: Group, m: Member, along: dict[int, int]) -> bool:
        """Whether `m` overwrites nothing that another member still reads elsewhere."""
        view = self.views[m.term]
        for x in self.before.get(m.term, []):
            if self.group_of.get(x) is not g:
                continue
            other = next((y for y in g.members if y.term is x), None)
            if other is None or other.reduces is not None or len(along) != len(g.rows):
                return False
            if is_product(x) or len(other.along) != len(along):
                return False
            mine = realize.touched(view, m.term.shape, plain=True)
            if any(r.meets(mine) and not (r.plain and r.view == view) for r in self.reads_at[x]):
                return False
        return True

    # --- kernels

    def _build(self, g: Group) -> None:
        from chainrule.compile.scheduling import products, whiles

        name = f"k{len(self.kernels)}_{_word(g.members[0].term)}"
        match g.kind:
            case "product":
                body = products.build(self, g)
            case "gemm":
                body = products.build_gemm(self, g)
            case "concat":
                body = self._concat(g.members[0].term)
            case "scatter":
                body = self._scatter(g.members[0].term)
            case "scan":
                body = self._scan(g.members[0].term)
            case "while":
                body = whiles.build(self, g.members[0].term)
            case "host":
                body = self._host(g.members[0].term)
            case _:
                body = rows.Rows(self, g).body()
        about = [_about(m.term) for m in g.members]
        self.kernels.append(Kernel(name, tuple(body), (*about, *whiles.told(body))))

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

    def _scatter(self, t: Term) -> list[Stmt]:
        """The fill; then every element of the argument to its place, in order."""
        self.memo = {}
        how, e = SCATTERS[type(t.op)](self, t), self.exprs
        axes, at = self.counters(t.shape)
        first = self.store(t, at, how.fill(at))
        fill = [] if _is_there(first) else self.nest(axes, [first])
        axes, at = self.counters(how.shape)
        buffer, place = self.views[t].buffer, self.views[t].at(how.place(at))
        value = e.cast(how.value(at), t.dtype)
        if how.fold in ("maximum", "minimum"):
            value = e.fn(how.fold, e.load(buffer, place), value, dtype=t.dtype)
        store = Store(buffer, place, value, add=how.fold == "add")
        # one after the other where places may be equal, unless the backend adds in order
        ordered: Mode = "lanes" if how.fold == "add" else "serial"
        return [*fill, *self.nest(axes, [store], ordered)]

    def _scan(self, t: Term) -> list[Stmt]:
        """The first element along the axis, then each from the one before it."""
        self.memo = {}
        scan, (axis, back) = SCANS[type(t.op)], direction(t)
        view, n = self.views[t], t.shape[axis]
        inner: Mode = "serial" if axis == len(t.shape) - 1 else "lanes"

        def along(i: Affine) -> Affine:
            return Affine(n - 1).plus(i.times(-1)) if back else i

        def body(axes: list[Var], at: Index, place: Affine, first: bool) -> list[Stmt]:
            def moved(i: Affine) -> Index:
                return tuple([along(i) if a == axis else x for a, x in enumerate(at)])

            if first:
                value = scan.first(self, t, moved(place))
            else:
                before = self.exprs.load(view.buffer, view.at(moved(place.plus(Affine(-1)))))
                value = scan.step(self, t, moved(place), before)
            return self.nest(axes, [self.store(t, moved(place), value)], inner)

        axes, at = self.counters([1 if a == axis else m for a, m in enumerate(t.shape)])
        out = body(axes, at, ZERO, first=True)
        if n != 1:
            axes, at = self.counters([m - 1 if a == axis else m for a, m in enumerate(t.shape)])
            out += body(axes, at, at[axis].plus(Affine(1)), first=False)
        return out

    def _host(self, t: Term) -> list[Stmt]:
        op: Any = t.op
        outs = self.outputs[t] if op.many else None
        ys = [self._strided(whole(b), b.shape) for b in outs or ()] or [
            self._strided(self.views[t], t.shape)
        ]
        return [Host(op, tuple([self._array(a) for a in t.args]), tuple(ys))]

    def _array(self, t: Term) -> Strided:
        view = self.view(t)
        return self._strided(view or whole(self.contiguous(t)), t.shape)

    def _strided(self, view: View, shape: tuple[Extent, ...]) -> Strided:
        return Strided(view.buffer, view.offset, shape, view.strides)

    def _outputs(self, t: Term) -> None:
        """Memory for each output of an op that has several."""
        for i, (shape, dtype) in enumerate(zip(t.shape, t.dtype, strict=True)):
            name = f"b{len(self.buffers)}"
            b = Buffer(name, dtype, shape, "scratch", None, f"{t.name} {i}")
            self.buffers.append(b)
            self.outputs.setdefault(t, []).append(b)

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


def _is_there(s: Store) -> bool:
    """Whether what is stored is what is there."""
    value = s.value
    return value.kind == "load" and value.of == (s.buffer, s.at, None)


def _word(t: Term) -> str:
    return "".join([c if c.isalnum() else "_" for c in t.name])


def _about(t: Term) -> str:
    from chainrule.provenance import location

    where = f"  {location(t.code, t.at)}" if t.code is not None else ""
    return f"{t.name} {t.dtype}{list(t.shape)}{where}"
