"""The forward kernels of families: each number is computed as the program computes it, and a sum is
added up in the program's order."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from math import inf

from chainrule.compile.loops.expressions import Local, Var
from chainrule.compile.loops.statements import Into, Let, Stmt, Store
from chainrule.compile.scalars.reroll.family import LEAVES, Family, Slot
from chainrule.compile.scalars.reroll.loops import Point, Writer, neighbours, nested, over_lanes
from chainrule.compile.scalars.reroll.packing import Packing
from chainrule.compile.scalars.reroll.row_expressions import F64, Written
from chainrule.compile.scalars.reroll.units import GATHER, LARGEST, SUM


def write_forward(w: Writer, number: int, family: Family) -> None:
    """The kernel of a family, over lanes along its last axis where sums are equally long."""
    p = w.point(family)
    at = p.own(family)
    points = [w.repeated(p, run) for run in family.runs]
    repeats = [q.loops[-1] for q in points]
    loops, lanes = over_lanes(p.loops, repeats, neighbours(p.loops, at))
    read = [_reader(w, f"f{number}", q, lanes) for q in points]
    if family.op in (SUM, LARGEST, GATHER):
        total = Local("s", F64)
        body = _fold(w, family, points, read, total)
        y = w.make.local(total)
    else:
        (slots,) = family.runs[0].terms
        body, y = [], w.computed(family.op, [read[0](s) for s in slots]).e
    body = nested(loops, [*body, Store(w.values[number], at, y)], lanes)
    w.kernel(f"f{number}", body, f"{family.op}, {family.units} times")


def write_together(
    w: Writer, members: Sequence[int], families: Sequence[Family], stored: Container[int]
) -> None:
    """The kernel of families that are computed in one loop, of which some are `stored`; some of
    these in the place of leaves, once all are computed."""
    p = w.point(families[members[0]])
    loops, lanes = over_lanes(p.loops, [], neighbours(p.loops, p.own(families[members[0]])))
    here: dict[int, Local] = {}
    body: list[Stmt] = []

    def reader(q: Point) -> Callable[[Slot], Written]:
        def read(slot: Slot) -> Written:
            local = here.get(slot.source)
            return w.load(slot, q) if local is None else Written(w.make, w.make.local(local))

        return read

    for number in members:
        family = families[number]
        total = here[number] = Local(f"s{number}", F64)
        points = [w.repeated(p, run) for run in family.runs]
        if family.op == SUM:
            body += _fold(w, family, points, list(map(reader, points)), total)
        else:
            (slots,) = family.runs[0].terms
            y = w.computed(family.op, list(map(reader(points[0]), slots)))
            body.append(Let(total, y.e))
        if number in stored and number not in w.homes:
            body.append(Store(w.values[number], p.own(family), w.make.local(total)))
    for number in members:
        if number in w.homes:
            at = p.own(families[number]) + w.homes[number]
            body.append(Store(w.values[LEAVES], at, w.make.local(here[number])))
    ops = ", ".join(dict.fromkeys(families[i].op for i in members))
    w.kernel(f"f{members[0]}", nested(loops, body, lanes), f"{ops} of {p.loops[0].extent}")


def _reader(w: Writer, name: str, p: Point, lanes: Var | None) -> Callable[[Slot], Written]:
    packing = Packing(w, name, p.loops, lanes)
    return lambda slot: packing.read(w.load(slot, p))


def _fold(
    w: Writer,
    family: Family,
    points: Sequence[Point],
    read: Sequence[Callable[[Slot], Written]],
    total: Local,
) -> list[Stmt]:
    """Adding up into `total`, from -0 on, the one number that any addition leaves as the other is;
    or the largest."""
    fold, start = ("maximum", -inf) if family.op == LARGEST else ("add", -0.0)
    out: list[Stmt] = [Let(total, w.number(start).e)]
    for run, p, each in zip(family.runs, points, read, strict=True):
        terms: list[Stmt] = []
        for slots in run.terms:
            xs = [each(s) for s in slots]
            x = w.product(xs[0], xs[1]) if len(xs) == 2 else xs[0]
            terms.append(Into(total, fold, x.e))
        out += nested(p.loops[-1:], terms)
    return out
