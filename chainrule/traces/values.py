"""The graph of a `Value` as the scalar engine walks it, so that sums have the engine's bits.

A long sum is one list of terms there (see `scalar.walk.Sum`). Here each of its partial sums is a
node, and so is each product that is written into it. A product that other ops use, too, is a node
once more, as it is for the engine.

Notation: a key is a Value, a place in a sum, or a number that met a Value.
"""

# The walk reads what Value keeps to itself.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, final

from chainrule.scalar import Value
from chainrule.scalar.views import LINK
from chainrule.scalar.walk import SUMMED, Sum


class SumPosition(NamedTuple):
    """The sum of the entries of a `Sum` before `at`, or, `inline`, the product written there."""

    sum: int
    at: int
    inline: bool


@final
class Number:
    """A plain number that met a Value."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data


Key = Any
"""A `Value` by its id, a `SumPosition`, or the id of a `Number`."""


@final
@dataclass(frozen=True, slots=True)
class Edge:
    """The rule of `source` sends to its input number `input_index`, with a local derivative."""

    source: Key
    input_index: int
    target: Key
    partial: Any


@final
class ValueGraph:
    """What lies below `root`."""

    def __init__(self, root: Value) -> None:
        self._values: dict[int, Any] = {}
        self._sums: dict[int, Sum] = {}
        self._totals: dict[int, list[Any]] = {}
        self._inputs: dict[Key, tuple[Key, ...]] = {}
        self.root = self.key(root)
        self._top = root

    # --- nodes

    def key(self, x: Any) -> Key:
        """The node of a Value, or of a number, which is a node of its own."""
        if not isinstance(x, Value):
            x = Number(x)
        elif x._made is SUMMED:
            return self._place(x._chain, x._at, False)
        self._values[id(x)] = x
        return id(x)

    def _place(self, s: Sum, at: int, inline: bool) -> SumPosition:
        self._sums[id(s)] = s
        return SumPosition(id(s), at, inline)

    def label_key(self, x: Value) -> Key:
        """The node to which the name of a Value belongs that no op uses but a sum."""
        chain: Any = x._chain
        if x._made is SUMMED or not isinstance(chain, Sum) or id(chain) not in self._sums:
            return self.key(x)
        return SumPosition(id(chain), x._at, True)

    def value(self, key: Key) -> Any:
        """The Value or `Number` of a key; None for a place in a sum."""
        return None if isinstance(key, SumPosition) else self._values[key]

    def data(self, key: Key) -> Any:
        """The number that a node holds."""
        if not isinstance(key, SumPosition):
            return self._values[key].data
        if key.inline:
            _, d_a, _, d_b = self._sums[key.sum][key.at : key.at + 4]
            return d_b * d_a
        return self._total(self._sums[key.sum], key.at)

    def _total(self, s: Sum, at: int) -> Any:
        totals = self._totals.setdefault(id(s), [s[3] if s.start is None else s.start])
        first = 4 if s.start is None else 0
        for i in range(first + 4 * (len(totals) - 1), at, 4):
            _, d_a, b, d_b = s[i : i + 4]
            totals.append(totals[-1] + (d_b if b is None else d_b * d_a))
        return totals[(at - first) // 4]

    def inputs(self, key: Key) -> tuple[Key, ...]:
        """The operands, in the order written."""
        if key not in self._inputs:
            self._inputs[key] = self._operands(key)
        return self._inputs[key]

    def _operands(self, key: Key) -> tuple[Key, ...]:
        if not isinstance(key, SumPosition):
            v = self._values[key]
            if not isinstance(v, Value) or v._made is None:
                return ()
            return tuple([self.key(x) for x in v._operands])
        s = self._sums[key.sum]
        if key.inline:
            a, _, b, _ = s[key.at : key.at + 4]
            return self.key(a), self.key(b)
        return self._before(s, key.at - 4), self._addend(s, key.at - 4)

    def _before(self, s: Sum, at: int) -> Key:
        """The sum that the addend at `at` is added to."""
        if s.start is None and at == 4:
            return self.key(s[0])
        if s.start is not None and at == 0:
            return self.key(s.start)
        return self._place(s, at, False)

    def _addend(self, s: Sum, at: int) -> Key:
        return self.key(s[at]) if s[at + 2] is None else self._place(s, at, True)

    def order(self) -> list[Key]:
        """Operands before what is computed from them, in the order in which they are read."""
        out: list[Key] = []
        done: set[Key] = set()
        stack: list[tuple[Key, bool]] = [(self.root, False)]
        while stack:
            key, ready = stack.pop()
            if key in done:
                continue
            if ready:
                done.add(key)
                out.append(key)
                continue
            stack.append((key, True))
            stack.extend([(x, False) for x in reversed(self.inputs(key)) if x not in done])
        return out

    # --- the sweep, as in `walk`

    def edges(self) -> Iterator[Edge]:
        """In the order in which the engine passes gradients on."""
        waits, below = self._count_edges()
        owner: dict[int, tuple[Value, int]] = {}
        ready = deque([self._top])
        while ready:
            v = ready.popleft()
            for edge, x in self._edges_of(v, below.get(id(v)), owner):
                if edge is not None:
                    yield edge
                if id(x) in waits:
                    waits[id(x)] -= 1
                    if waits[id(x)] == 0:
                        ready.append(x)

    def _count_edges(self) -> tuple[dict[int, int], dict[int, Value]]:
        """How many edges lead to each inner node; for each sum the next smaller one reached."""
        waits: dict[int, int] = {}
        reached: dict[int, dict[int, Value]] = {}
        counted: dict[int, int] = {}
        queue = [self._top]
        for v in queue:
            if v._made is SUMMED:
                s, at = v._chain, v._at
                reached.setdefault(id(s), {})[at] = v
                fresh: list[Any] = s[counted.get(id(s), 0) : at : 2]
                counted[id(s)] = max(counted.get(id(s), 0), at)
            else:
                fresh = [v._a] if v._d_b is None else [v._a, v._b]
            for x in fresh:
                if x is None or x._made is None:
                    continue
                waits[id(x)] = waits.get(id(x), 0) + 1
                if waits[id(x)] == 1:
                    queue.append(x)
        below: dict[int, Value] = {}
        for places in reached.values():
            ordered = [places[at] for at in sorted(places)]
            for low, high in pairwise(ordered):
                below[id(high)] = low
                waits[id(low)] = waits.get(id(low), 0) + 1
        return waits, below

    def _edges_of(
        self, v: Any, low: Any, owner: dict[int, tuple[Value, int]]
    ) -> Iterator[tuple[Edge | None, Any]]:
        """What a node hands on: an edge of ours, and the node of the engine that it goes to."""
        made = v._made
        if made is None:
            return
        if made is SUMMED:
            yield from self._sent_by_sum(v, low)
        elif made is LINK:
            yield from self._sent_by_link(v, owner.get(id(v)))
        elif made.children is not None:
            link: Any = v
            for place in range(len(made.children)):
                link = link._b
                owner[id(link)] = v, place
            yield None, v._a
            yield None, v._b
        else:
            turned = made.turned and v._b is not None
            yield Edge(id(v), int(turned), self.key(v._a), v._d_a), v._a
            if v._d_b is not None:
                yield Edge(id(v), int(not turned), self.key(v._b), v._d_b), v._b

    def _sent_by_link(
        self, v: Any, owner: tuple[Value, int] | None
    ) -> Iterator[tuple[Edge | None, Any]]:
        """One of the nodes by which a node that was made by hand reaches its children."""
        if owner is None:
            yield None, v._a
            return
        yield Edge(id(owner[0]), owner[1], self.key(v._a), v._d_a), v._a
        if v._d_b is not None:
            yield None, v._b

    def _sent_by_sum(self, v: Any, low: Any) -> Iterator[tuple[Edge | None, Any]]:
        """Down the partial sums first, then to the terms, then to the next smaller sum."""
        s = v._chain
        start = 0 if low is None else low._at
        first = 4 if s.start is None else 0
        for at in range(v._at, max(start, first), -4):
            target = self._before(s, at - 4)
            if isinstance(target, SumPosition):
                yield Edge(self._place(s, at, False), 0, target, 1), None
        for at in range(start, v._at, 4):
            a, d_a, b, d_b = s[at : at + 4]
            if s.start is None and at == 0:
                yield Edge(self._place(s, 8, False), 0, self.key(a), 1), a
                continue
            sender = self._place(s, at + 4, False)
            if b is None:
                yield Edge(sender, 1, self.key(a), d_a), a
                continue
            product = self._place(s, at, True)
            yield Edge(sender, 1, product, 1), None
            yield Edge(product, 0, self.key(a), d_a), a
            yield Edge(product, 1, self.key(b), d_b), b
        if low is not None:
            yield None, low
