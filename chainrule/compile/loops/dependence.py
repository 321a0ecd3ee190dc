"""Which iterations of a loop have nothing to do with each other.

An offset is a sum of counters times coefficients, so that it can be told from these alone where the
iterations of a loop reach, and whether those places meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops.accesses import Access, accesses
from chainrule.compile.loops.expressions import Affine, Buffer, Var
from chainrule.compile.loops.statements import (
    Stmt,
    counters_of,
    statements,
)


def independent(v: Var, body: Sequence[Stmt]) -> bool:
    """Whether no iteration of `v` touches what another one writes.

    In each part of a buffer that is written, the places that iteration i touches must lie in a
    window that moves with i: from c i on, less than c long, and perhaps again every c n.
    """
    found = list(accesses(body))
    places: dict[Buffer, list[Within]] = {x.buffer: [] for x in found if x.writes}
    for x in found:
        if x.buffer in places:
            places[x.buffer].append(_places(x))
    inner = {c for s in statements(body) for c in counters_of(s)} - {v}
    return all(
        _windows(v, inner, part) for found in places.values() for part in _parts({v, *inner}, found)
    )


Within = tuple[Affine, dict[Var, Extent]]
"""An offset, and its own counters."""


def _parts(counters: set[Var], places: Sequence[Within]) -> list[list[Within]]:
    """Places that lie apart, whatever the counters are, as parts of their own."""
    ends = [_ends(counters, at, own) for at, own in places]
    known = [e for e in ends if e is not None]
    if len(known) < len(places):
        return [list(places)]
    out: list[list[Within]] = []
    last = 0
    for (low, high), place in sorted(zip(known, places, strict=True), key=lambda x: x[0]):
        if out and low <= last:
            out[-1].append(place)
        else:
            out.append([place])
        last = max(last, high) if len(out[-1]) > 1 else high
    return out


def _ends(counters: set[Var], at: Affine, own: dict[Var, Extent]) -> tuple[int, int] | None:
    """The first and the last element of a place, if they are known."""
    high = low = at.const
    for x, c in at.terms:
        if not isinstance(x, Var) or not (x in counters or x in own):
            return None
        if not isinstance(c, int) or c < 0:
            return None
        high = c * (x.extent - 1) + high
    return (low, high) if isinstance(low, int) and isinstance(high, int) else None


def _places(x: Access) -> Within:
    """Where an access is; counters of its own go over what it touches at once."""
    own = {Var("own", n): step for n, step in x.block}
    return x.at.plus(Affine(0, tuple(own.items()))), {v: v.extent for v in own}


def _windows(v: Var, inner: set[Var], places: Sequence[Within]) -> bool:
    """Whether all of `places` lie in such windows. Counters of loops further out are the same in
    all iterations of `v`; they must be in the same way in all places."""
    step, n = places[0][0].coefficient(v), v.extent
    ends: set[Extent] = set()
    starts: set[Extent] = set()
    outer: set[Any] = set()
    far: set[Rows] = set()
    for at, own in places:
        if at.coefficient(v) != step or len(_counted(at)) < len(at.terms):
            return False
        mine = [(x, c) for x, c in _counted(at) if x in inner or x in own]
        rows = [(c, x.extent) for x, c in mine if _is_beyond(c, n * step)]
        far.add(tuple(sorted(rows, key=str)))
        spans = [_span(c, x.extent, step) for x, c in mine if (c, x.extent) not in rows]
        reach = at.const
        for span in spans:
            if span is None:
                return False
            reach = span + reach
        starts.add(at.const)
        ends.add(reach)
        outer.add(frozenset([(x, c) for x, c in at.terms if x is not v and (x, c) not in mine]))
    if len(outer) > 1 or not all(_in_rows(rows, n * step, len(far)) for rows in far):
        return False
    return all(_is_positive(step - (end - start)) for end in ends for start in starts)


def _counted(at: Affine) -> list[tuple[Var, Extent]]:
    """The terms of an offset that are not from data."""
    return [(x, c) for x, c in at.terms if isinstance(x, Var)]


Rows = tuple[tuple[Extent, Extent], ...]
"""How far apart rows of windows are, and how many there are, for each counter that goes over them.
"""


def _is_beyond(c: Extent, over: Extent) -> bool:
    """Whether a counter's term leads beyond a row of windows, which is `over` long."""
    return c == over or (isinstance(c, int) and isinstance(over, int) and 0 < over <= c)


def _in_rows(rows: Rows, over: Extent, kinds: int) -> bool:
    """Whether different rows of windows do not meet other windows: they are multiples of a row
    apart, or lie one after the other, in the same way in all places."""
    if not isinstance(over, int) or over <= 0:
        return True  # each is exactly a row
    known = [(c, count) for c, count in rows if isinstance(c, int)]
    if all(c % over == 0 for c, _ in known):
        return True
    reach = over
    for c, count in sorted(known, key=lambda row: row[0]):
        if not isinstance(count, int) or c < reach:
            return False
        reach = c * count
    return kinds == 1


def _span(c: Extent, count: Extent, step: Extent) -> Extent | None:
    """How far a counter's term reaches within a window; None if that is not known."""
    return c * (count - 1) if _is_positive(c) else None


def _is_positive(n: Extent) -> bool:
    """Whether `n` is more than 0 for all sizes of at least 1."""
    if isinstance(n, int):
        return n > 0
    return all(c > 0 for _, c in n.terms)
