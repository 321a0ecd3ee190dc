"""Families as kernels of the loop language: what forward and backward kernels have in common.

Notation: `axes` the counters of a family's loops, `step` that of the repetitions of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Exprs, Var
from chainrule.compile.loops.statements import For, Kernel, Stmt
from chainrule.compile.scalars.formulas import computed
from chainrule.compile.scalars.reroll.family import LEAVES, Families, Family, Run, Slot
from chainrule.compile.scalars.reroll.index_maps import Map
from chainrule.compile.scalars.reroll.row_expressions import F64, INT, Written

SHORT = 3
"""So few iterations are no loop over lanes."""


@final
@dataclass(slots=True)
class Loop:
    """A counter below `extent`; where its loop ends if that is earlier, and the counters that this
    depends on."""

    var: Var
    extent: int
    upto: Affine | None
    after: frozenset[Any] = frozenset()


@final
@dataclass(slots=True)
class Point:
    """Where a family's loops stand: `at` are its coordinates, and the repetitions of a run last, as
    offsets of counters."""

    loops: list[Loop]
    at: list[Affine]

    def plus(self, name: str, extent: int, low: Affine, end: Affine) -> Point:
        """The same within one more loop, whose coordinate goes from `low` to below low + `end`."""
        var = Var(name, extent)
        loop = Loop(var, extent, end if end.terms else None, _counters(end))
        place = low + var if extent > 1 else low
        return Point([*self.loops, loop], [*self.at, place])

    def own(self, family: Family) -> Affine:
        """Where the family's own number lies."""
        at = Affine()
        for c, stride in zip(self.at, family.strides, strict=False):
            at += c * stride
        return at


def _counters(at: Affine) -> frozenset[Any]:
    return frozenset[Any]().union(
        *[v.free if isinstance(v, Expr) else frozenset([v]) for v, _ in at.terms]
    )


@final
@dataclass(slots=True)
class Writer:
    """Buffers and kernels as they are being written. `values` are the numbers of each source,
    `adjoints` their gradients."""

    values: dict[int, Buffer]
    adjoints: dict[int, Buffer]
    constants: Any
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    kernels: list[Kernel] = field(default_factory=list[Kernel])
    make: Exprs = field(default_factory=Exprs)
    tables: dict[int, Buffer] = field(default_factory=dict[int, Buffer])
    """The memory of each table, by the `id` of its numbers."""
    homes: Mapping[int, int] = field(default_factory=dict[int, int])
    """The families that lie among the leaves, with where these begin there."""
    sizes: Buffer | None = None
    """The memory of the sizes of a run, each at `most` so large."""
    most: Sequence[int] = ()
    any_order: bool = False
    """Whether sums may be added up in any order, and quotients rounded otherwise."""

    def buffer(self, name: str, size: int, role: Any, dtype: Any = F64) -> Buffer:
        """New memory."""
        b = Buffer(name, dtype, (max(1, size),), role)
        self.buffers.append(b)
        return b

    def kernel(self, name: str, body: Sequence[Stmt], about: str) -> None:
        """One more kernel."""
        self.kernels.append(Kernel(name, tuple(body), (about,)))

    def offset(self, m: Map, coordinates: Sequence[Affine]) -> Affine:
        """A map of coordinates that stand there."""
        at = Affine(m.const)
        for c, x in zip(m.coefficients, coordinates, strict=False):
            at += x * c
        if m.table is not None:
            where = Affine()
            for c, x in zip(m.table.steps, coordinates, strict=False):
                where += x * c
            at += self.make.load(self.tables[id(m.table.values)], where)
        return at if m.size is None else at + self.size(m.size)

    def size(self, number: int) -> Affine:
        """A size of the run."""
        assert self.sizes is not None, "only code of several sizes has some"
        found = self.make.load(self.sizes, Affine(number))
        most = self.make.lit(self.most[number], INT)
        return Affine.of(self.make.fn("minimum", found, most, dtype=INT))

    def result(self, made: Families, i: int) -> Affine:
        """Where a result lies."""
        end = -1 if made.sizes is None else made.sizes.results[i]
        return Affine(made.results[i][1]) if end < 0 else self.size(end)

    def point(self, family: Family) -> Point:
        """The loops over a family's coordinates."""
        p = Point([], [])
        for i, axis in enumerate(family.nest.axes):
            low = self.offset(axis.low, p.at)
            p = p.plus(f"i{i}", axis.most, low, self.offset(axis.high, p.at) - low)
        return p

    def repeated(self, p: Point, run: Run) -> Point:
        """The loops of a family, and in them the repetitions of a run."""
        return p.plus("k", run.most, Affine(), self.offset(run.count, p.at))

    def load(self, slot: Slot, p: Point) -> Written:
        """The number of an operand."""
        if slot.literal:
            return self.number(float(self.constants[slot.at.const]))
        at = self.offset(slot.at, p.at)
        home = self.homes.get(slot.source)
        if home is not None:
            return self.load_at(self.values[LEAVES], at + home)
        return self.load_at(self.values[slot.source], at)

    def load_at(self, memory: Buffer, at: Affine) -> Written:
        """The number that lies there."""
        return Written(self.make, self.make.load(memory, at))

    def product(self, a: Written, b: Written, name: str = "mul") -> Written:
        """a times b, by a function of that name."""
        return Written(self.make, self.make.fn(name, a.e, b.e))

    def computed(self, op: str, xs: Sequence[Written]) -> Written:
        """What an op gives."""
        if self.any_order and op in ("div", "quotient"):
            once = xs[1].e.kind == "load" and not xs[1].e.free  # the same in all iterations
            if once:
                return self.product(xs[0], self.product(self.number(1.0), xs[1], "div"))
            return self.product(xs[0], xs[1], "div")
        if self.any_order and op == "pow" and xs[1].e.kind == "lit" and xs[1].e.of == -1:
            return self.product(self.number(1.0), xs[0], "div")
        return computed(op, xs)

    def number(self, x: float) -> Written:
        """A literal."""
        return Written(self.make, self.make.lit(x, F64))


def nested(loops: Sequence[Loop], body: Sequence[Stmt], lanes: Var | None = None) -> list[Stmt]:
    """`body` in loops, the first outermost; that of `lanes` runs over lanes."""
    inner: list[Stmt] = list(body)
    for x in reversed(loops):
        if x.extent == 1 and x.upto is None:
            continue
        mode = "lanes" if x.var is lanes else "serial"
        inner = [For(x.var, tuple(inner), mode, x.upto)]
    return inner


def in_order(loops: Sequence[Loop]) -> bool:
    """Whether the end of each loop depends only on loops around it."""
    seen: set[Any] = set()
    for x in loops:
        if not x.after <= seen:
            return False
        seen.add(x.var)
    return True


def over_lanes(
    loops: Sequence[Loop], inner: Sequence[Loop], wanted: Sequence[Loop]
) -> tuple[list[Loop], Var | None]:
    """The loops with the first of the `wanted` ones that can be: innermost, over lanes. `inner` are
    loops within them, which have to end at the same place in all lanes."""
    for x in wanted:
        order = [*[y for y in loops if y is not x], x]
        even = all(x.var not in y.after for y in inner)
        if x.extent > SHORT and even and in_order(order):
            return order, x.var
    return list(loops), None


def neighbours(loops: Sequence[Loop], at: Affine) -> list[Loop]:
    """The loops whose iterations go to neighbours, the innermost first."""
    return [x for x in reversed(loops) if at.coefficient(x.var) == 1 and is_plain(at, x.var)]


def is_plain(at: Affine, var: Var) -> bool:
    """Whether no table of an offset depends on a counter."""
    return not any(isinstance(v, Expr) and var in v.free for v, _ in at.terms)


def varies(at: Affine, var: Var) -> bool:
    """Whether an offset depends on a counter."""
    return at.coefficient(var) != 0 or not is_plain(at, var)


def length(buffer: Buffer) -> int:
    """How many numbers there is room for; a tape's sizes are no symbols."""
    n = buffer.size
    assert isinstance(n, int)
    return n
