"""A graph of `Value`s as a tape: leaves and constants first, then an instruction for each op.

A sum that grew from a sum shares its instructions; a product inside a sum, which is no node of the
graph (see `scalar.walk.Sum`), becomes one again. The order of operations is the one in which they
were done, so that the numbers are the same.
"""

# The tape is read off what Value keeps to itself.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from chainrule.compile.scalars.gathers import NONE, Chosen, Gathers
from chainrule.compile.scalars.ints.gather import is_gathered
from chainrule.compile.scalars.machine import codes, loops
from chainrule.compile.scalars.reads import Maxima, Reads, ordered
from chainrule.compile.scalars.reroll.containers import Stand
from chainrule.engine.op import Array
from chainrule.engine.provenance import location
from chainrule.errors import TraceError
from chainrule.ops.families import rows
from chainrule.scalar import Value
from chainrule.scalar.rules import MARKS
from chainrule.scalar.walk import SUMMED

PART = 1 << 20
"""Instructions that run at a time: Python looks for signals in between."""
_LABELS = {MARKS.get(label, label): label for label in rows}


@final
class Tape:
    """What computes `results` from numbers given for `given`, and for the leaves that the graph
    has besides, `state`, whose `data` is read at every run. These are in the order of where they
    stand, so that a matrix lies together; `arrays` says where all leaves do. Of the constants the
    first `made` are of leaves that the function makes; `tops` are instructions of maxima."""

    def __init__(self, seen: Reads, where: Mapping[int, Stand], maxima: Maxima) -> None:
        """A graph, and what is known of its leaves; `where` says where these stand, `maxima` which
        numbers are the largest of several."""
        given, made = seen.given, seen.made
        order = ordered(seen.results, maxima) if maxima else seen.order
        known = {id(v) for v in (*given, *made)}
        state = [v for v in order if v._made is None and id(v) not in known]
        apart = (("", 1), (0,))  # what stands nowhere stays in the order of its use
        order_of = ranked(where)
        self.state = sorted(state, key=lambda v: order_of(where.get(id(v), apart)))
        leaves = [*given, *self.state]
        self.arrays: list[Stand] = [where.get(id(v), (("", 1), (i,))) for i, v in enumerate(leaves)]
        self.leaves, self.given = len(leaves), len(given)
        whole = self.whole, self.whole_room = _spots(len(given), self.state, where)
        few = self.whole_room - len(given) <= SPARSE * len(state)
        self.spots, self.room = whole if few else (np.arange(len(leaves)), len(leaves))
        self.made = len(made)
        self._at: dict[Any, Any] = {id(v): i for i, v in enumerate(leaves)}
        self._at |= {id(v): (n + 1) * 1j for n, v in enumerate(made)}
        self._maxima = maxima
        self._sums: dict[int, list[Any]] = {}
        """Of each sum the places of its parts, in the order in which it grew."""
        self._constants: dict[str, int] = {}
        self._numbers = [float(v.data) for v in made]
        self._lines: list[tuple[int, Any, Any]] = []
        self._apart: list[tuple[int, int]] = []
        self._tops: list[int] = []
        self._gathered: list[tuple[int, Value, list[Any]]] = []
        for v in order:
            if v._made is not None:
                self._at[id(v)] = self._sum(v) if v._made is SUMMED else self._op(v)
        self.files, self.lines = self._origins(seen)
        self._finish([self._at[id(v)] for v in seen.results])

    def _origins(self, seen: Reads) -> tuple[list[str], NDArray[np.int32]]:
        """Files of the program, and of each instruction the number of one of them and a line of it;
        0 where that is not known."""
        files: dict[str, int] = {"": 0}
        known: dict[Any, tuple[int, int]] = {}
        lines = np.zeros((len(self._lines), 2), np.int32)
        for v in seen.order:
            at, place = seen.lines.get(id(v)), self._at.get(id(v))
            if at is None or type(place) is not int or place >= 0:
                continue
            if at not in known:
                file, _, line = location(*at).rpartition(":")
                known[at] = files.setdefault(file, len(files)), int(line)
            lines[-1 - place] = known[at]
        return list(files), lines

    # While it is read, leaves are at 0, 1, ...; results of instructions at -1, -2, ...; constants
    # are complex numbers (n + 1)*1j, which `_finish` moves between the two.
    def _constant(self, x: float) -> Any:
        n = self._constants.setdefault(repr(float(x)), len(self._numbers))
        if n == len(self._numbers):
            self._numbers.append(float(x))
        return (n + 1) * 1j

    def _largest(self, number: int) -> int:
        """The instructions of a maximum, which has no derivative."""
        if ("largest", number) not in self._at:
            top: Any = self._constant(-inf)
            for v in self._maxima[number]:
                self._tops.append(len(self._lines))
                top = self._emit("maximum", top, self._at[id(v)])
            self._at["largest", number] = top
        return self._at["largest", number]

    def _emit(self, label: str, a: Any, b: Any = 0) -> int:
        code = codes().get(label)
        if code is None:
            raise TraceError(
                f"jit: {label} of Values has no machine code; there is: {', '.join(codes())}. "
                "Call the function without jit"
            )
        self._lines.append((code, a, b))
        return -len(self._lines)

    def _place(self, x: Any) -> Any:
        return self._at[id(x)] if isinstance(x, Value) else self._constant(x)

    def _op(self, v: Value) -> int:
        """Write the instruction of a Value, and return its place."""
        made: Any = v._made
        if is_gathered(v):
            places = [self._at[id(c)] for c in made.children]
            self._gathered.append((len(self._lines), v, places))
            return self._emit("add", self._at[id(v._a)], self._constant(-0.0))
        if made.children is not None:
            raise TraceError(
                f"jit: a Value made by hand, Value(data, children, {made.mark or 'partials'!r}), "
                "does not say how its number is computed: write it with operations on Values"
            )
        operands = v._operands
        places = list(map(self._place, operands))
        if self._maxima and id(v._b) in self._maxima:
            side = 0 if made.turned else 1
            places[side] = self._largest(id(v._b))
            self._apart.append((len(self._lines), 1 << side))
        return self._emit(_LABELS[made.mark], *places)

    def _sum(self, v: Value) -> Any:
        """The instructions of a sum, from the largest part of it that is there already on."""
        s, end, at, lines = v._chain, v._at, self._at, self._lines
        totals = self._sums.setdefault(id(s), [])
        add, mul = codes()["add"], codes()["mul"]
        total = totals[-1] if totals else None if s.start is None else self._place(s.start)
        for n in range(4 * len(totals), end, 4):
            x = at[id(s[n])]
            if s[n + 2] is not None:
                lines.append((mul, x, at[id(s[n + 2])]))
                x = -len(lines)
            if total is None:
                total = x
            else:
                lines.append((add, total, x))
                total = -len(lines)
            totals.append(total)
        return totals[end // 4 - 1] if end else total

    def _finish(self, results: Sequence[Any]) -> None:
        """The arrays: leaves, then constants, then what instructions compute."""
        first = self.leaves
        self.base = first + len(self._numbers)

        def final(places: Sequence[Any]) -> Array:
            p = np.array(places, np.complex128)
            at = np.where(p.real >= 0, p.real, self.base - 1 - p.real)
            return np.where(p.imag > 0, first + p.imag - 1, at).astype(np.int32)

        self.size = self.base + len(self._lines)
        self.code = np.array([c for c, _, _ in self._lines], np.int32)
        self.left = final([a for _, a, _ in self._lines])
        self.right = final([b for _, _, b in self._lines])
        fixed = (self.left >= first) & (self.left < self.base)
        also = (self.right >= first) & (self.right < self.base)
        self.need = np.where(fixed, 0, 1).astype(np.int32) + np.where(also, 0, 2).astype(np.int32)
        for i, bit in self._apart:
            self.need[i] &= ~bit
        self.tops = np.zeros(len(self._lines), bool)
        self.tops[self._tops] = True
        self.results: list[int] = final(results).tolist()
        self.gathers = Gathers(
            np.array([n for n, _, _ in self._gathered], np.int64),
            [final(places) for _, _, places in self._gathered],
            np.array([v._b for _, v, _ in self._gathered], np.int64),
            np.array([v._at for _, v, _ in self._gathered], np.int64),
        )
        self.need[self.gathers.lines] = 1
        self.constant_data = np.array(self._numbers, np.float64)
        del self._at, self._constants, self._numbers, self._lines, self._apart, self._tops
        del self._gathered, self._sums

    def run(self, numbers: Array, chosen: Chosen = NONE) -> tuple[Array, Array]:
        """The results for the numbers of all leaves, and of each its derivatives with respect to
        all leaves, a row each. `chosen` are the indices of gathers."""
        x = np.empty(self.size)
        x[: self.leaves] = numbers
        x[self.leaves : self.base] = self.constant_data
        g = np.empty(self.size)
        left = self.left
        if len(self.gathers.lines):
            left = left.copy()
            left[self.gathers.lines] = self.gathers.choice.addresses(chosen)
        arrays = [a.ctypes.data for a in (self.code, self.need, left, self.right, x, g)]
        code = loops()
        parts = [(n, min(PART, len(self.code) - n)) for n in range(0, len(self.code), PART)]
        for n, count in parts:
            code.forward(*_from(arrays, n), count, self.base + n)
        slopes = np.empty((len(self.results), self.leaves))
        for row, place in zip(slopes, self.results, strict=True):
            g[:] = 0.0
            g[place] = 1.0
            for n, count in reversed(parts):
                code.backward(*_from(arrays, n), count, self.base + n)
            row[:] = g[: self.leaves]
        return x[self.results], slopes


def _from(arrays: Sequence[int], n: int) -> list[int]:
    """The addresses of a tape from instruction `n` on; numbers and gradients are all there."""
    *words, x, g = arrays
    return [*[a + 4 * n for a in words], x, g]


SPARSE = 4
"""All of a container's Values are given room if there are at most so many for each that is read."""


def _spots(
    given: int, state: Sequence[Value], where: Mapping[int, Stand]
) -> tuple[NDArray[np.int64], int]:
    """Where leaves lie among all Values that stand in the containers of the state, and how many
    these are."""
    names = {where[id(v)][0] for v in state if id(v) in where}
    order_of = ranked(where)
    there = sorted([(order_of(s), i) for i, s in where.items() if s[0] in names])
    spot = {i: given + n for n, (_, i) in enumerate(there)}
    spots = list(range(given))
    room = given + len(there)
    for v in state:
        if id(v) in spot:
            spots.append(spot[id(v)])
        else:
            spots.append(room)
            room += 1
    return np.array(spots, np.int64), room


def ranked(where: Mapping[int, Stand]) -> Callable[[Stand], Any]:
    """What Values are sorted by: container by container, as they are met, and row by row."""
    ranks: dict[Any, int] = {}
    for names, _ in where.values():
        ranks.setdefault(names, len(ranks))
    return lambda stand: (ranks.get(stand[0], -1), stand[1])
