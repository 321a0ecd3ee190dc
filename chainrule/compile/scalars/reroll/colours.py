"""Families: units that are alike as far down as one can see.

A unit's colour is its op and the colours of its operands; units of one colour are a family. A sum's
colour forgets how often its terms repeat. So sums that differ only in length are one family
(position 0 of a sequence and all later ones). A constant has no colour, a leaf that of the
container it stands in. Since a colour is made of earlier ones, families have an order in which each
needs only those before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.compile.scalars.reroll.units import GATHER, LARGEST, SUM, Unit

LONGEST = 6
"""Terms of a sum that may repeat together."""
CONSTANT = -1

Colours = tuple[int, ...]
Pattern = tuple[Colours, ...]
"""The colours of a few terms, each of one operand or two."""


@final
@dataclass(slots=True)
class Members:
    """The units of one colour. `runs` are the patterns of which their terms are repetitions;
    `counts` how often each repeats, by unit."""

    op: str
    need: int
    runs: tuple[Pattern, ...]
    units: list[Unit] = field(default_factory=list[Unit])
    counts: list[list[int]] = field(default_factory=list[list[int]])


def families_of(
    units: Sequence[Unit],
    entries: Sequence[Any],
    colour: list[int],
    first: int,
    most: int,
    apart: Collection[int] = (),
) -> list[Members] | None:
    """Units by their colours, which are numbered from `first` on and noted in `colour` by place;
    None if they have more than `most` runs together. Those at places in `apart` are alike only if
    their terms repeat equally often. `entries` are the places that gathers choose from."""
    known: dict[Any, int] = {}
    out: list[Members] = []
    kinds = 0
    for u in units:
        if u.op in (SUM, LARGEST):
            seq = [tuple([colour[p] for p in t]) for t in u.terms]
            runs, counts = compressed(seq)
        else:
            runs, counts = ((tuple([colour[p] for p in u.terms[0]]),),), [1]
        key: Any = u.op, u.need, runs, tuple(counts) if u.place in apart else ()
        if u.op == GATHER:
            places: list[int] = entries[u.gather].tolist()
            key = u.op, frozenset([colour[p] for p in places])
        number = known.get(key)
        if number is None:
            number = known[key] = len(out)
            out.append(Members(u.op, u.need, runs))
            kinds += len(runs)
            if kinds > most:
                return None
        out[number].units.append(u)
        out[number].counts.append(counts)
        colour[u.place] = first + number
    return out


def compressed(seq: Sequence[Colours]) -> tuple[tuple[Pattern, ...], list[int]]:
    """A sequence as patterns and how often each repeats; the shortest that repeats is taken."""
    runs: list[Pattern] = []
    counts: list[int] = []
    i, n = 0, len(seq)
    while i < n:
        period, times = 1, _times(seq, i, 1)
        if times == 1:
            for p in range(2, min(LONGEST, (n - i) // 2) + 1):
                if (found := _times(seq, i, p)) > 1:
                    period, times = p, found
                    break
        runs.append(tuple(seq[i : i + period]))
        counts.append(times)
        i += period * times
    return tuple(runs), counts


def _times(seq: Sequence[Colours], i: int, period: int) -> int:
    """How often the `period` entries from i on stand there one after the other."""
    if period == 1:
        x, j = seq[i], i + 1
        while j < len(seq) and seq[j] == x:
            j += 1
        return j - i
    pattern, times = seq[i : i + period], 1
    while seq[i + period * times : i + period * (times + 1)] == pattern:
        times += 1
    return times
