"""The two walks of a backward pass over single numbers, without recursion.

`count` lets each inner node know how many edges lead to it; `sweep` passes gradients on, from a
node once all that come to it have come. Values are `Value`s, inner ones of the class `Value`.

A sum of three or more is no chain of nodes: it shares a list of terms with the sums that it grew
from (`Sum`). Where nobody looks at the sums in between, they leave nothing to walk over.
"""

# The walks work on what Value keeps to itself.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

from chainrule.scalar.rules import Made

if TYPE_CHECKING:
    from chainrule.scalar.value import Value


SUMMED = Made("+")
"""What made a node that stands at a place in a `Sum`."""


@final
class Sum(list[Any]):
    """The terms of a growing sum, four entries each: operand, partial, operand, partial.

    The product of a and b is written `a, d_a, b, d_b`, and is then no node of the walk; any other
    addend x is `x, 1, None, number of x`. A Value that stands at place n is the sum of the first n
    entries, after the number `start` if there is one.

    What the last backward pass left here: its number `epoch`, which nodes it `reached`, and the
    gradient at the place of each (`stops`). From these a sum in between, or a product, that
    somebody still holds knows its gradient. By place, `~n` for the product written at n: `seen`,
    the nodes to show; `given`, gradients that a user set, and when.
    """

    __slots__ = ("counted", "epoch", "given", "reached", "seen", "start", "stops")

    start: float | None
    epoch: int
    counted: int
    reached: list[Value]
    stops: list[tuple[int, Any]]
    seen: dict[int, Value]
    given: dict[int, tuple[int, Any]]

    def above(self, place: int) -> Any:
        """The gradient of the next larger sum that was reached, which is that of what stands at
        `place` and goes into no other; None if none was reached."""
        i = bisect_left(self.stops, -place, key=lambda stop: -stop[0])  # larger sums come first
        return self.stops[i - 1][1] if i else None

    def __reduce_ex__(self, protocol: Any) -> Any:
        """There is one `APART`, also for copies of what refers to it."""
        return "APART" if self is APART else super().__reduce_ex__(protocol)


APART = Sum()
"""The sum of a node that stands in none and shall not be written into one: it has a label."""


_NO_STOPS: list[tuple[int, Any]] = []
"""Of sums that no pass has reached: a pass starts a list of its own."""


def sum_of(start: float | None, first: Value | None = None) -> Sum:
    """A sum that grows from a number, or from one addend."""
    s = Sum() if first is None else Sum((first, 1, None, first.data))
    s.start = start
    s.epoch = 0
    s.stops = _NO_STOPS
    s.seen = {}
    s.given = {}
    return s


def count(root: Value, epoch: int, earlier: list[tuple[Value, Any]]) -> None:
    """Set `_waits` of each inner node to how many edges lead to it from above; clear gradients.

    What leaves held moves to `earlier`, so that the new gradient is summed by itself.
    """
    queue = [root]  # a list that grows while it is iterated over needs no pop
    push = queue.append
    shared: list[Sum] = []
    root._epoch = epoch
    for v in queue:
        for x in (
            _new_terms(v, epoch, shared)
            if v._made is SUMMED
            else ((v._a,) if v._d_b is None else (v._a, v._b))
        ):
            if x is None:
                continue
            if n := x._waits:
                x._waits = n + 1
            elif x._made is not None:
                x._waits = 1
                x._g = 0
                x._epoch = epoch
                push(x)
            elif x._g:
                earlier.append((x, x._g))
                x._g = 0
    for s in shared:
        _link(s.reached)


def _new_terms(v: Value, epoch: int, shared: list[Sum]) -> list[Any]:
    """The operands in a sum that no other sum reached in this pass has brought; Nones."""
    s, place = v._chain, v._at
    v._b = v._d_b = None
    if s.epoch != epoch:
        s.epoch, s.counted, s.reached, s.stops = epoch, place, [v], []
        return s[:place:2]
    if len(s.reached) == 1:
        shared.append(s)
    s.reached.append(v)
    fresh = s[s.counted : place : 2]
    s.counted = max(s.counted, place)
    return fresh


def _link(reached: list[Value]) -> None:
    """Sums that share terms: each goes as far as the next smaller one, which it waits for."""
    reached.sort(key=lambda v: v._at)
    for low, high in pairwise(reached):
        high._b, high._d_b = low, 1
        low._waits += 1


def sweep(root: Value) -> None:
    """Pass gradients on; every `_waits` ends at 0.

    Written out, one operand after the other: this is the cost of a backward pass, and a call or an
    inner loop would double it.
    """
    root._g = 1
    queue = [root]
    push = queue.append
    for v in queue:
        g = v._g
        made: Any = v._made
        live = g or not made.singular
        if made is SUMMED:
            _pass_on(v, g, push)
        else:
            x = v._a
            if live:
                x._g += g * v._d_a
            if n := x._waits:
                x._waits = n - 1
                if n == 1:
                    push(x)
        if (d := v._d_b) is not None:
            x = v._b
            if live:
                x._g += g * d
            if n := x._waits:
                x._waits = n - 1
                if n == 1:
                    push(x)


def _pass_on(v: Value, g: Any, push: Any) -> None:
    """A sum's gradient to its terms, down to the next smaller sum that was reached."""
    s, place = v._chain, v._at
    start = 0 if v._b is None else v._b._at
    s.stops.append((place, g))
    s.reached = []
    entries: Iterable[Any] = s if place - start == len(s) else s[start:place]
    it = iter(entries)
    for a, d_a, b, d_b in zip(it, it, it, it, strict=True):
        a._g += g * d_a
        if n := a._waits:
            a._waits = n - 1
            if n == 1:
                push(a)
        if b is not None:
            b._g += g * d_b
            if n := b._waits:
                b._waits = n - 1
                if n == 1:
                    push(b)


def forget(root: Value) -> None:
    """After an interruption: let no node wait any more."""
    stack, seen = [root], {id(root)}
    while stack:
        v = stack.pop()
        v._waits = 0
        inner: Iterable[Any] = v._chain[::2] if v._made is SUMMED else (v._a, v._b)
        for x in inner:
            if x.__class__ is root.__class__ and x._made is not None and id(x) not in seen:
                seen.add(id(x))
                stack.append(x)
