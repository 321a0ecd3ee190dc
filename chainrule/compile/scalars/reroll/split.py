"""A loop as two, where an operand lies at a multiple of `i // d`: `d` iterations then share it.

In attention each head has some of the columns, so that what belongs to a head lies at `i // d`,
which is a table. With a loop over heads, and in it one over the columns of a head, it is affine,
and what goes to its gradient is added up in a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chainrule.compile.scalars.reroll.coordinates import Axis
from chainrule.compile.scalars.reroll.family import Family, Slot
from chainrule.compile.scalars.reroll.index_maps import Map, Rule
from chainrule.compile.scalars.reroll.units import GATHER


def split(family: Family, slot: Slot) -> Family:
    """The same family with two loops in the place of one, if that makes the place of this operand
    affine; else the family."""
    table = slot.at.table
    rule = None if table is None else table.rule
    if table is None or rule is None or family.op == GATHER:
        return family
    used = [i for i, step in enumerate(table.steps) if step]
    if len(used) != 1 or not _is_plain(family, used[0], rule.each):
        return family
    j = used[0]

    def of(m: Map) -> Map:
        return _split_map(m, j, rule, m.table is table)

    def slots(term: tuple[Slot, ...]) -> tuple[Slot, ...]:
        return tuple([replace(x, at=of(x.at)) for x in term])

    axes: list[Axis] = []
    for i, axis in enumerate(family.nest.axes):
        if i == j:
            axes += [_whole(axis.extent // rule.each, i), _whole(rule.each, i + 1)]
        else:
            axes.append(replace(axis, low=of(axis.low), high=of(axis.high)))
    runs = [replace(r, terms=tuple(map(slots, r.terms)), count=of(r.count)) for r in family.runs]
    return replace(
        family,
        nest=replace(family.nest, axes=tuple(axes)),
        runs=tuple(runs),
        strides=_wider(family.strides, j, rule.each),
    )


def _is_plain(family: Family, j: int, each: int) -> bool:
    """Whether loop `j` always goes from 0 to the same end, and no other one depends on it."""
    if j >= len(family.nest.axes):  # a repetition
        return False
    axis = family.nest.axes[j]
    ends = [m for a in family.nest.axes for m in (a.low, a.high)]
    ends += [run.count for run in family.runs]
    free = not any(j < len(m.coefficients) and m.coefficients[j] for m in ends)
    fixed = axis.low.fixed and axis.low.const == 0 and axis.high.fixed
    return free and fixed and axis.extent == axis.high.const and axis.extent % each == 0


def _whole(n: int, around: int) -> Axis:
    return Axis(Map(0, (0,) * around), Map(n, (0,) * around), n)


def _wider(numbers: Sequence[int], j: int, each: int) -> tuple[int, ...]:
    """Coefficients of coordinates, with two in the place of number `j`."""
    if j >= len(numbers):
        return tuple(numbers)
    return (*numbers[:j], numbers[j] * each, numbers[j], *numbers[j + 1 :])


def _split_map(m: Map, j: int, rule: Rule, ruled: bool) -> Map:
    """A map of the coordinates with two in the place of `j`; one that is `ruled` needs no table."""
    coefficients = _wider(m.coefficients, j, rule.each)
    if ruled:
        coefficients = tuple([c + rule.step * (i == j) for i, c in enumerate(coefficients)])
        return replace(m, const=m.const + rule.start, coefficients=coefficients, table=None)
    table = m.table and replace(m.table, steps=_wider(m.table.steps, j, rule.each))
    return replace(m, coefficients=coefficients, table=table)
