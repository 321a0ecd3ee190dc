"""Families with sizes in the place of ends of loops, and how much room these need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chainrule.compile.scalars.reroll.coordinates import Axis
from chainrule.compile.scalars.reroll.family import (
    PARAMETERS,
    Family,
    Run,
    Slot,
)
from chainrule.compile.scalars.reroll.index_maps import (
    Map,
)
from chainrule.compile.scalars.reroll.sized_guide import Place
from chainrule.compile.scalars.reroll.units import GATHER


def loosened(families: Sequence[Family]) -> tuple[list[Family], list[int]]:
    """The same with sizes in the place of all ends of loops, and what these are."""
    numbers: list[int] = []

    def loose(m: Map) -> Map:
        numbers.append(m.const)
        return Map(0, m.coefficients, None, len(numbers) - 1)

    out: list[Family] = []
    for f in families:
        axes = [Axis(loose(a.low), loose(a.high), a.extent) for a in f.nest.axes]
        runs = f.runs
        if f.op != GATHER:
            runs = tuple([replace(r, count=loose(r.count)) for r in f.runs])
        out.append(replace(f, nest=replace(f.nest, axes=tuple(axes)), runs=runs))
    return out, numbers


def tightened(
    families: Sequence[Family], numbers: Sequence[int], most: Sequence[int]
) -> tuple[list[Family], list[int]]:
    """The same with the sizes only that have a `most`, which are numbered anew."""
    kept = [k for k, top in enumerate(most) if top >= 0]
    at = {k: i for i, k in enumerate(kept)}

    def tight(m: Map) -> Map:
        if m.size is None:
            return m
        if m.size in at:
            return replace(m, size=at[m.size])
        return Map(numbers[m.size], m.coefficients)

    out: list[Family] = []
    for f in families:
        axes = [Axis(tight(a.low), tight(a.high), a.extent) for a in f.nest.axes]
        runs = tuple([replace(r, count=tight(r.count)) for r in f.runs])
        out.append(replace(f, nest=replace(f.nest, axes=tuple(axes)), runs=runs))
    return out, [most[k] for k in kept]


def sides_of(f: Family, most: Sequence[int]) -> tuple[int, ...]:
    """The sides of the box that a family's coordinates are in for all sizes."""
    sides: list[int] = []
    for axis in f.nest.axes:
        sides.append(max(1, _top(axis.high, sides, most)))
    return tuple(sides)


def with_room(f: Family, sides: Sequence[int], most: Sequence[int]) -> Family:
    """The same with how often loops run at most."""
    axes: list[Axis] = []
    for i, axis in enumerate(f.nest.axes):
        low, high = axis.low, axis.high
        weights = [b - a for a, b in zip(low.coefficients, high.coefficients, strict=True)]
        least = 0 if low.size is not None else low.const
        ahead = Map(high.const - least, tuple(weights), None, high.size)
        axes.append(replace(axis, room=max(1, _top(ahead, sides[:i], most))))
    runs: list[Run] = []
    for run in f.runs:
        runs.append(replace(run, room=max(1, _top(run.count, sides, most))))
    return replace(f, nest=replace(f.nest, axes=tuple(axes)), runs=tuple(runs))


def _top(m: Map, sides: Sequence[int], most: Sequence[int]) -> int:
    """The largest number that a map gives within sides."""
    pairs = zip(m.coefficients, sides, strict=False)
    top = m.const + sum(max(0, c * (side - 1)) for c, side in pairs)
    return top + (most[m.size] if m.size is not None else 0)


def with_parameters(f: Family, number: int, parameters: Sequence[Place]) -> Family:
    """The same with parameters in the place of constants that differ."""

    def slot(x: Slot, place: Place) -> Slot:
        if place not in parameters:
            return x
        at = Map(parameters.index(place), x.at.coefficients)
        return Slot(PARAMETERS, at, False)

    runs = [
        replace(
            run,
            terms=tuple(
                [
                    tuple([slot(x, (number, r, q, s)) for s, x in enumerate(term)])
                    for q, term in enumerate(run.terms)
                ]
            ),
        )
        for r, run in enumerate(f.runs)
    ]
    return replace(f, runs=tuple(runs))
