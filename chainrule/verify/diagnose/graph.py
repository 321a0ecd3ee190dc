"""The forward as a graph, asked at a case's point: what arrives at the input over each edge.

Edges over which nothing arrives in the end (the shift of a softmax, the mean within a variance) are
weighted 0 from the start: nobody writes them into a backward, and left in, they would carry
something as soon as another path is weighted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from chainrule.verify.diagnose import measure
from chainrule.verify.diagnose.case import Case
from chainrule.verify.subject import Array, Edge, Flow
from chainrule.verify.tolerances import CLOSE

MOST_EDGES = 240
_PROBES = 3
_NOTHING = 1e-10
_SECONDS = 2.0
"""Time for going over the edges of a large graph; those after it are not looked at."""
_STATISTICS = ("sum", "mean", "max", "amax", "min", "var", "std", "norm", "logsumexp")


@dataclass(frozen=True, eq=False)
class Contribution:
    """What arrives at the input through one edge, for all probes in one vector."""

    edge: int
    arrives: Array
    same: list[int] = field(default_factory=list[int])
    """Edges through which the very same arrives: they lie on one path."""


@dataclass(frozen=True, eq=False)
class Paths:
    """A flow at the case's point, and what it says about the case."""

    case: Case
    flow: Flow
    gs: tuple[tuple[Array, ...], ...]
    true: Array
    """N^T g by the flow, for all probes in one vector."""
    seen: Array
    """A^T g."""
    idle: dict[int, float]
    """Edges over which nothing arrives, weighted 0."""

    def pull(self, weights: Mapping[int, float]) -> Array:
        """x_bar for all probes, edges weighted."""
        return _stacked(self.flow, self.gs, self.case, {**self.idle, **weights})

    @property
    def difference(self) -> Array:
        """(A - N)^T g."""
        return self.seen - self.true

    def left(self, weights: Mapping[int, float]) -> float:
        """Share of the difference that these weights do not explain."""
        rest = self.seen - self.pull(weights)
        return float(np.linalg.norm(rest) / np.linalg.norm(self.difference))


def paths_of(case: Case) -> Paths | None:
    """The flow of a case, if there is one and if it agrees with the differences."""
    if np.iscomplexobj(case.A) or np.iscomplexobj(case.N):
        return None
    flow = case.subject.flow(case.xs)
    if flow is None or not flow.edges or not case.whole:
        return None
    rng = np.random.default_rng(11)
    o, shape = case.found.output, case.found.y_shape
    probes = [measure.drawn(rng, shape) for _ in range(_PROBES)]
    gs = tuple([measure.only(case.ys, o, g) for g in probes])
    true = _stacked(flow, gs, case, {})
    expected = np.concatenate([case.N.T @ g.ravel() for g in probes])
    if not np.linalg.norm(true - expected) <= max(CLOSE * np.linalg.norm(expected), case.noise):
        return None
    seen = np.concatenate([case.A.T @ g.ravel() for g in probes])
    return Paths(case, flow, gs, true, seen, _idle(flow, gs, case, true))


def _idle(flow: Flow, gs: Sequence[Sequence[Array]], case: Case, true: Array) -> dict[int, float]:
    """Edges that can be forgotten, all of them at once, without any change."""
    idle: dict[int, float] = {}
    one, expected = gs[:1], true[: true.size // len(gs)]
    limit, start = _NOTHING * float(np.linalg.norm(expected)), perf_counter()
    for i in _reaching(flow, case.k):
        without = _stacked(flow, one, case, {**idle, i: 0.0})
        if np.linalg.norm(expected - without) <= limit:
            idle[i] = 0.0
        if perf_counter() - start > _SECONDS:
            break
    return idle


def _reaching(flow: Flow, k: int) -> list[int]:
    """Edges over which input k reaches the output."""
    return [i for i, edge in enumerate(flow.edges[:MOST_EDGES]) if k in edge.inputs]


def _stacked(
    flow: Flow, gs: Sequence[Sequence[Array]], case: Case, weights: Mapping[int, float]
) -> Array:
    zero = np.zeros(case.found.x_shape)
    bars = [flow.pull(g, weights)[case.k] for g in gs]
    return np.concatenate([np.asarray(zero if b is None else b, np.float64).ravel() for b in bars])


def contributions(paths: Paths) -> list[Contribution]:
    """What arrives through each edge that reaches the input, equal ones once."""
    found: list[Contribution] = []
    start = perf_counter()
    for i in _reaching(paths.flow, paths.case.k):
        if i in paths.idle:
            continue
        if perf_counter() - start > _SECONDS:
            break
        arrives = paths.true - paths.pull({i: 0.0})
        for known in found:
            if np.linalg.norm(known.arrives - arrives) <= 1e-9 * np.linalg.norm(arrives):
                known.same.append(i)
                break
        else:
            found.append(Contribution(i, arrives))
    return found


def telling(flow: Flow, part: Contribution) -> Edge:
    """Of edges on one path, the one that says most: a statistic, else the first."""
    edges = [flow.edges[i] for i in (part.edge, *part.same)]
    return next((e for e in edges if e.op.rpartition(".")[2] in _STATISTICS), edges[0])


def path(edge: Edge) -> str:
    """An edge in words: the op, its settings, its line."""
    settings = f"({edge.settings})" if edge.settings else ""
    line = f" (line {edge.place.line})" if edge.place else ""
    return f"`{edge.op}{settings}`{line}"
