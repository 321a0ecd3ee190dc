"""The backward kernels: what each operand of a family gets of the family's gradient.

An operand can be shared along some of the loops (a weight by all positions). If the others can
stand outside, its contributions are added up in a register first, and memory is written once.
Otherwise they are added to memory one after the other. Derivatives are the op table's.

Notation: `g` a family's gradient, `target` the place of an operand's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local, Var
from chainrule.compile.loops.statements import Into, Let, Store
from chainrule.compile.scalars.formulas import partial
from chainrule.compile.scalars.reroll.family import CONSTANTS, Families, Family, Slot
from chainrule.compile.scalars.reroll.loops import (
    Loop,
    Point,
    Writer,
    in_order,
    length,
    neighbours,
    nested,
    over_lanes,
    varies,
)
from chainrule.compile.scalars.reroll.row_expressions import F64, Written
from chainrule.compile.scalars.reroll.split import split
from chainrule.compile.scalars.reroll.units import GATHER, SUM
from chainrule.ops.families import rows


@final
class Backward:
    """Writes the kernels, families in reverse; `begun` are the sources whose gradients have had a
    contribution."""

    def __init__(self, w: Writer, made: Families) -> None:
        self._w = w
        self._made = made
        self._begun: set[int] = set()

    def write(self, seeds: Buffer) -> None:
        """All kernels: results start with what `seeds` says."""
        w = self._w
        self._clear(w.adjoints[-1], -1)
        for i, (source, _) in enumerate(self._made.results):
            if source == CONSTANTS:
                continue
            target = w.adjoints[source]
            if source not in self._begun:
                self._clear(target, source)
            seed = w.make.load(seeds, Affine(i))
            at = w.result(self._made, i)
            w.kernel(f"seed{i}", [Store(target, at, seed, add=True)], "the start")
        for number in reversed(range(len(self._made.families))):
            if number in self._begun:  # the others have no gradient
                self._family(number, self._made.families[number])

    def _clear(self, target: Buffer, source: int) -> None:
        self._begun.add(source)
        n = length(target)
        i = Var("i", n)
        zero = [Store(target, Affine.of(i) if n != 1 else Affine(), self._w.number(0.0).e)]
        body = nested([Loop(i, n, None)], zero, i)
        self._w.kernel(f"zero_{target}", body, "no contributions yet")

    def _family(self, number: int, family: Family) -> None:
        for r, run in enumerate(family.runs):
            for q, slots in enumerate(run.terms):
                for s, slot in enumerate(slots):
                    if slot.needed:
                        self._operand(number, split(family, slot), (r, q, s))

    def _operand(self, number: int, family: Family, at: tuple[int, int, int]) -> None:
        """The kernel for an operand of a family: run, term, and which of the term."""
        w, (r, q, s) = self._w, at
        run = family.runs[r]
        slots = run.terms[q]
        p = w.point(family)
        inner = w.repeated(p, run)
        g = w.load_at(w.adjoints[number], p.own(family))
        more = self._contribution(family, number, inner, slots, s, g)
        name = f"b{number}_{r}_{q}_{s}"
        self._add(name, f"{family.op}: operand {s}", inner, slots[s], more.e)

    def _contribution(
        self, family: Family, number: int, p: Point, slots: Sequence[Slot], s: int, g: Written
    ) -> Written:
        """g times the derivative with respect to operand s; nothing of no gradient where the
        derivative may not be finite, as `Value.backward` has it."""
        w = self._w
        xs = [w.load(x, p) for x in slots]
        if family.op in (SUM, GATHER):
            return w.product(g, xs[1 - s]) if len(xs) == 2 else g
        row = rows[family.op]
        y = w.load_at(w.values[number], p.own(family))
        d: Written = partial(row, s, y, xs)
        name = "strong_mul" if any(x.singular for x in row.partials) else "mul"
        return w.product(g, d, name)

    def _add(self, name: str, about: str, p: Point, slot: Slot, more: Expr) -> None:
        """The kernel that adds `more` to the gradient of an operand."""
        target = self._w.adjoints[slot.source]
        at = self._w.offset(slot.at, p.at)
        outer = [x for x in p.loops if x.extent > 1 and varies(at, x.var)]
        inner = [x for x in p.loops if x.extent > 1 and not varies(at, x.var)]
        total = Local("s", F64)
        start = Let(total, self._w.number(-0.0).e)
        add = True
        if slot.source not in self._begun:
            if slot.at.table is None and in_order([*outer, *inner]) and _fills(target, at, outer):
                add = False
                self._begun.add(slot.source)
            else:
                self._clear(target, slot.source)
        if inner and in_order([*outer, *inner]):
            outer, lanes = over_lanes(outer, inner, neighbours(outer, at))
            folded = nested(inner, [Into(total, "add", more)])
            store = Store(target, at, self._w.make.local(total), add)
            body = nested(outer, [start, *folded, store], lanes)
        else:
            all_loops = [x for x in p.loops if x.extent > 1]
            loops, lanes = over_lanes(all_loops, [], neighbours(all_loops, at))
            body = nested(loops, [Store(target, at, more, add)], lanes)
        self._w.kernel(name, body, about)


def _fills(target: Buffer, at: Affine, loops: Sequence[Loop]) -> bool:
    """Whether the loops lead to each place of `target` exactly once."""
    step = 1
    for x in sorted(loops, key=lambda x: _step(at, x)):
        if x.upto is not None or _step(at, x) != step:
            return False
        step *= x.extent
    return at.const == 0 and target.shape == (step,)


def _step(at: Affine, x: Loop) -> int:
    c = at.coefficient(x.var)
    assert isinstance(c, int)
    return c
