"""From a tape's instructions to units: sums as wholes, everything else as it is.

An addition whose only use is as the left operand of another one is no unit but a step of that sum.
A product whose only use is to be added is written into the sum. So a dot product is one unit,
whatever its length, in the order in which it was added up.

A place is where a tape keeps a number: leaves first, then constants, then results of instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from chainrule.compile.scalars.formulas import arity
from chainrule.compile.scalars.gathers import Gathers
from chainrule.compile.scalars.machine import all_codes, codes
from chainrule.compile.scalars.reroll.containers import Stand

SUM, LARGEST, GATHER = "sum", "largest", "gather"
"""What units are called that fold many terms, or take one of several, in the place of a row's
label."""


class Recorded(Protocol):
    """What is read of a tape."""

    code: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    leaves: int
    given: int
    """How many of the leaves, the first, are arguments."""
    arrays: list[Stand]
    """Of each leaf the name of its container and its indices there."""
    spots: NDArray[np.int64]
    """Where leaves lie among `room` ones: all of their containers, if not too few are read."""
    room: int
    whole: NDArray[np.int64]
    """Where they lie among `whole_room` ones, however few of their containers are read."""
    whole_room: int
    base: int
    size: int
    results: list[int]
    made: int
    need: NDArray[np.int32]
    tops: NDArray[np.bool_]
    gathers: Gathers
    files: list[str]
    lines: NDArray[np.int32]
    """Of each instruction the number of a file of the program, and the line there."""
    constant_data: NDArray[np.float64]


@final
@dataclass(slots=True)
class Unit:
    """What one number is. It is the row `op` of one term, its operands' places, of which `need` has
    a bit for those with a gradient. Or it is the `SUM` of terms of one place each, or two for a
    product; or the `LARGEST` of terms, which has no gradient; or a `GATHER`, the tape's of the
    number `gather`."""

    place: int
    op: str
    terms: list[tuple[int, ...]]
    need: int = 3
    gather: int = 0


def units_of(tape: Recorded) -> list[Unit]:
    """The units of a tape, operands first."""
    labels = {number: label for label, number in all_codes().items()}
    label_of: list[str] = [labels.get(n, "") for n in range(max(labels) + 1)]
    binary = [arity(x) == 2 if x else False for x in label_of]
    grown, inner = _within_sums(tape, np.array(binary)[tape.code])
    folds = {codes()["add"]: SUM, codes()["maximum"]: LARGEST}
    left, right, need = tape.left.tolist(), tape.right.tolist(), tape.need.tolist()
    tops = tape.tops.tolist()
    gathers = {line: n for n, line in enumerate(tape.gathers.lines.tolist())}
    begun: dict[int, list[tuple[int, ...]]] = {}
    out: list[Unit] = []
    base = tape.base

    def term(p: int) -> tuple[int, ...]:
        i = p - base
        return (left[i], right[i]) if i >= 0 and inner[i] else (p,)

    for i, code in enumerate(map(int, tape.code)):
        if inner[i]:
            continue
        a = left[i]
        if i in gathers:
            out.append(Unit(base + i, GATHER, [(a,)], 1, gathers[i]))
        elif code in folds and (folds[code] is SUM or tops[i]):
            terms = begun.pop(a, None) or [term(a)]
            terms.append(term(right[i]))
            if grown[i]:
                begun[base + i] = terms
            else:
                out.append(Unit(base + i, folds[code], terms))
        else:
            operands = (a, right[i]) if binary[code] else (a,)
            out.append(Unit(base + i, label_of[code], [operands], need[i]))
    return out


def _within_sums(tape: Recorded, binary: Any) -> tuple[Sequence[bool], Sequence[bool]]:
    """Which instructions are additions that a sum goes on from, and which are products in sums."""
    add, mul = codes()["add"], codes()["mul"]
    n = len(tape.code)
    uses = np.bincount(tape.left, minlength=tape.size)
    uses += np.bincount(tape.right[binary], minlength=tape.size)
    np.add.at(uses, tape.results, 1)
    for entries in tape.gathers.entries:  # each may be chosen, so that it has to be there
        uses[entries] = 2
    single = uses[tape.base :] == 1
    user = np.zeros(tape.size, np.int64)
    steps = np.arange(n)
    user[tape.right[binary]] = steps[binary]
    by_right = user.copy()
    user[tape.left] = steps
    by_left = user
    added_left = single & (tape.code[by_left[tape.base :]] == add)
    is_left = tape.left[by_left[tape.base :]] == tape.base + steps
    added_right = single & (tape.code[by_right[tape.base :]] == add)
    is_right = (tape.right[by_right[tape.base :]] == tape.base + steps) & ~is_left
    grown = (tape.code == add) & added_left & is_left
    left_user = by_left[tape.base :]
    grown |= tape.tops & single & tape.tops[left_user] & is_left
    grown[tape.gathers.lines] = False
    inner = (tape.code == mul) & ((added_left & is_left) | (added_right & is_right))
    return grown.tolist(), inner.tolist()
