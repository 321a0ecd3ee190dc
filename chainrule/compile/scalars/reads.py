"""What a function of Values took from outside the graph that it made.

A number can be read from the `data` of a computed Value and go into the graph again. It is the very
float that the Value holds. Where such a number meets several Values, and is the largest of theirs
each time, it is their maximum, as a softmax subtracts it: that is computed anew in each run. What a
number was instead cannot be told from the graph.

A leaf is either the function's own state or was made by it. A second run tells: state is the same
object there.
"""

# The graph is read off what Value keeps to itself.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from chainrule.compile.scalars.lines import Lines
from chainrule.scalar import Value
from chainrule.scalar.walk import SUMMED

Maxima = dict[int, list[Value]]
"""By the `id` of a number, the Values of which it is the largest."""


@final
class Reads:
    """What a graph read: `made`, leaves that the function makes; `maxima`. As long as it is `open`
    which these are, runs for other numbers have to tell; without one there are none.

    `state` are the leaves that are certainly state: those that stand somewhere, and those that
    another run met again.
    """

    def __init__(
        self,
        given: Sequence[Value],
        results: Sequence[Value],
        where: Mapping[int, Any],
        lines: Lines,
    ) -> None:
        self.lines = lines
        self.given, self.results = given, results
        self.order = order = ordered(results)
        known = {id(v) for v in given}
        leaves = [v for v in order if v._made is None and id(v) not in known]
        self.state = [v for v in leaves if id(v) in where]
        self._doubtful = [v for v in leaves if id(v) not in where]
        self._found = [_Found(order, leaves=x) for x in (True, False)]
        self.open = bool(self._doubtful or any(x.places for x in self._found))
        self.made: list[Value] = []

    def compare(self, results: Sequence[Value]) -> None:
        """Look at the graph of another run, as long as its numbers are there."""
        order = ordered(results)
        again = {id(v) for v in order if v._made is None}
        self.made = [v for v in self._doubtful if id(v) not in again]
        self.state = [*self.state, *[v for v in self._doubtful if id(v) in again]]
        self._doubtful = self.made
        for found in self._found:
            found.compare(order)

    def maxima(self) -> tuple[Maxima, bool]:
        """The numbers that are the largest of several in all runs, and whether that is certain."""
        # a constant of the program can be the very float of a leaf, though never with other numbers
        for found in self._found:
            if found.confirmed:
                return found.maxima, found.certain
        return {}, True


@final
class _Found:
    """The maxima of a graph, and whether other runs confirm them: as many are there, and of several
    the largest is not always the same one."""

    def __init__(self, order: Sequence[Value], *, leaves: bool) -> None:
        self._leaves = leaves
        self.maxima, self.places = maxima_in(order, leaves=leaves)
        self._several = [len(met) > 1 for met in self.maxima.values()]
        self._seen = self._wander = False
        self._same = bool(self.places)

    def compare(self, order: Sequence[Value]) -> None:
        """Look at the graph of another run."""
        there = maxima_in(order, leaves=self._leaves)[1]
        self._seen = True
        self._same = self._same and len(there) == len(self.places)
        if self._same:
            pairs = zip(self._several, self.places, there, strict=True)
            self._wander = self._wander or any(several and p != q for several, p, q in pairs)

    @property
    def confirmed(self) -> bool:
        """Whether each is the largest of those that it meets, in several runs."""
        return self._seen and self._same

    @property
    def certain(self) -> bool:
        """Whether none can be one that is always the same."""
        return self._wander or not any(self._several)


def maxima_in(order: Sequence[Value], *, leaves: bool) -> tuple[Maxima, list[int]]:
    """The numbers read from computed Values in a graph, with `leaves` from leaves, too. For each,
    which one of the Values that it meets it is; none if one is not the largest of these."""
    computed = {
        id(v.data) for v in order if type(v.data) is float and (leaves or v._made is not None)
    }
    found: Maxima = {}
    tops: dict[int, float] = {}
    for v in order:
        if (top := number_in(v)) is not None and id(top) in computed:
            found.setdefault(id(top), []).append(v._a)
            tops[id(top)] = top
    places: list[int] = []
    for i, met in found.items():
        place = next((n for n, x in enumerate(met) if x.data is tops[i]), None)
        if place is None or any(x.data > tops[i] for x in met):
            return {}, []
        places.append(place)
    return found, places


def number_in(v: Value) -> float | None:
    """The float that an op was applied to beside a Value."""
    made: Any = v._made
    if made is None or made is SUMMED or made.children is not None or v._d_b is not None:
        return None
    return v._b if type(v._b) is float else None


def below(v: Value, maxima: Mapping[int, Sequence[Value]]) -> list[Any]:
    """The Values that `v` was computed from."""
    made: Any = v._made
    if made is None:
        return []
    if made.children is not None:
        return list(made.children)
    if made is SUMMED:
        return [x for x in v._chain[: v._at : 2] if isinstance(x, Value)]
    if maxima and id(v._b) in maxima:
        return [v._a, *maxima[id(v._b)]]
    return [x for x in (v._a, v._b) if isinstance(x, Value)]


def ordered(
    results: Sequence[Value], maxima: Mapping[int, Sequence[Value]] | None = None
) -> list[Value]:
    """All Values below `results`, operands first; graphs of any depth."""
    out: list[Value] = []
    state: dict[int, bool] = {}
    stack: list[Value] = list(reversed(results))
    while stack:
        v = stack[-1]
        done = state.get(id(v))
        if done is None and v._made is not None:
            state[id(v)] = False
            found = v._chain[: v._at : 2] if v._made is SUMMED else below(v, maxima or {})
            stack += [x for x in reversed(found) if x is not None and id(x) not in state]
            continue
        stack.pop()
        if not done:
            state[id(v)] = True
            out.append(v)
    return out
