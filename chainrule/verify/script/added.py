"""Numbers that left their graph and come back as terms of the loss: known by their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from chainrule.verify.place import Place
from chainrule.verify.script.cuts import Slice
from chainrule.verify.script.entries import Calls
from chainrule.verify.script.sums import AFFINE
from chainrule.verify.where import users_line


def added_numbers(part: Slice) -> list[tuple[Place, str, float, float]]:
    """Numbers that left and are added to the loss: where, how, value, factor."""
    constants = [x for e in part.entries if e.name in AFFINE for x in _numbers(e.args)]
    found: list[tuple[Place, str, float, float]] = []
    for place, how, value in _taken_out(part.tape):
        factors = [k for x in constants if (k := _factor(x, value)) is not None]
        if factors and _only_added(part, value):
            found.append((place, how, value, factors[0]))
    return found


def _only_added(part: Slice, value: float) -> bool:
    """Whether all calls that were given the number, times a factor, just add it to the loss."""
    given = [
        i
        for i, e in zip(part.numbers, part.entries, strict=True)
        if any(_factor(x, value) is not None for x in _numbers(e.args))
    ]
    reached = part.below(given) if given else set[int]()
    after = [e for i, e in zip(part.numbers, part.entries, strict=True) if i in given]
    after += [e for e in part.entries if reached.intersection(e.inputs)]
    return bool(given) and all(e.name in AFFINE for e in after)


def _taken_out(tape: Calls) -> list[tuple[Place, str, float]]:
    """Numbers that left by a line of the user's: each one, and the sum of a line's."""
    by: dict[tuple[str, str], tuple[Place, list[float]]] = {}
    for exit_ in tape.exits:
        place = users_line(exit_.frames)
        if isinstance(exit_.value, float) and place is not None:
            by.setdefault((str(place), exit_.how), (place, []))[1].append(exit_.value)
    found: list[tuple[Place, str, float]] = []
    for (_, how), (place, numbers) in by.items():
        found += [(place, how, n) for n in dict.fromkeys([*numbers, sum(numbers)])]
    return found


def _numbers(args: Any) -> list[float]:
    """Floats among the arguments of a call."""
    items = cast("Sequence[Any]", args)
    return [x for x in items if isinstance(x, float) and math.isfinite(x) and x]


def _factor(x: float, value: float) -> float | None:
    """The number of few digits by which `value` must be multiplied to give x; None if none."""
    if not value or not math.isfinite(value) or _short(value) == value:
        return None  # a number of few digits is met by chance
    factor = x / value
    return _short(factor) if math.isclose(factor, _short(factor), rel_tol=1e-14) else None


def _short(x: float) -> float:
    return float(f"{x:.4g}")
