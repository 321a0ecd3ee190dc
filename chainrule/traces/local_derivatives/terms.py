"""The exact sum behind one element of a gradient: which products it consists of.

`terms_of` lists them for one contribution: upstream element times local derivative. Their exact
sum differs from the number that was recorded by the rounding of whoever added them up, in an order
of its own; `rounding` says by how much, itself to the nearest float.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, final

import numpy as np

from chainrule.errors import GradientError
from chainrule.traces.trace import (
    NO_FACTOR,
    Factor,
    Gather,
    Matrix,
    Message,
    Opaque,
    Product,
    Scatter,
    Sweep,
    Trace,
)


@final
@dataclass(frozen=True, slots=True)
class Term:
    """`upstream * local`, from the element `source` of the gradient of the node that sent it."""

    source: tuple[int, ...]
    upstream: float
    local: float

    @property
    def product(self) -> float:
        """Their product; 0 where the upstream is 0 and the local derivative is not finite."""
        return 0.0 if self.upstream == 0 else self.upstream * self.local

    @property
    def exact(self) -> Fraction:
        """Their product without rounding."""
        if self.upstream == 0:
            return Fraction(0)
        return Fraction(self.upstream) * Fraction(self.local)


def terms_of(trace: Trace, sweep: Sweep, message: Message, at: tuple[int, ...]) -> list[Term]:
    """The terms of element `at` of a contribution, in the order of the upstream's elements.

    Raises `GradientError` where they are not recorded: arrays too large, an op without a form.
    """
    g = sweep.gradients.get(message.node)
    local = message.local
    if isinstance(local, Opaque):
        raise GradientError(f"the terms are not recorded: {local.why}")
    if not isinstance(g, np.ndarray):
        raise GradientError("the terms are not recorded: the upstream gradient is a summary")
    shape = trace.nodes[message.target].shape
    flat = int(np.ravel_multi_index(at, shape)) if shape else 0
    match local:
        case Factor():
            pairs = _factor(local, g.shape, shape, at)
        case Product():
            pairs = _product(trace, message, local, at)
        case Gather():
            places = np.flatnonzero(local.source == flat)
            pairs = [(int(j), float(local.coefficients[j])) for j in places]
        case Scatter():
            pairs = [(int(local.target[flat]), float(local.coefficients[flat]))]
        case Matrix():
            (places,) = np.nonzero(local.columns == flat)
            pairs = [(int(local.rows[k]), float(local.values[k])) for k in places]
    elements = g.ravel()
    return [
        Term(tuple([int(i) for i in np.unravel_index(j, g.shape)]), float(elements[j]), d)
        for j, d in pairs
    ]


def _factor(
    local: Factor, out: tuple[int, ...], shape: tuple[int, ...], at: tuple[int, ...]
) -> list[tuple[int, float]]:
    """All output elements to which the element was broadcast."""
    d = np.broadcast_to(local.values, out).ravel()
    lead = len(out) - len(shape)
    ranges: list[Any] = [range(n) for n in out[:lead]]
    for i, n, m in zip(at, shape, out[lead:], strict=True):
        ranges.append(range(m) if n == 1 else (i,))
    places = [int(np.ravel_multi_index(p, out)) if out else 0 for p in product(*ranges)]
    return [(j, float(d[j])) for j in places]


def _product(
    trace: Trace, message: Message, local: Product, at: tuple[int, ...]
) -> list[tuple[int, float]]:
    """All values of the letters that the input has not."""
    inputs, out = trace.nodes[message.node].inputs, trace.nodes[message.node].shape
    arrays: list[Any] = [trace.nodes[i].value for i in inputs]
    sizes: dict[str, int] = dict(zip(local.out, out, strict=True))
    factors = [k for k, term in enumerate(local.letters) if term != NO_FACTOR]
    others = [k for k in factors if k != local.place]
    if any(not isinstance(arrays[k], np.ndarray) for k in others):
        raise GradientError("the terms are not recorded: the other input is a summary")
    for term, i in [(local.letters[k], inputs[k]) for k in factors]:
        for c, n in zip(term, trace.nodes[i].shape, strict=True):
            sizes[c] = max(sizes.get(c, 1), n)
    mine = trace.nodes[message.target].shape
    fixed = {c: i for c, i, n in zip(local.letters[local.place], at, mine, strict=True) if n > 1}
    fixed |= {
        c: 0
        for c, n in zip(local.letters[local.place], mine, strict=True)
        if n == 1 and sizes[c] == 1
    }
    free = [c for c in sizes if c not in fixed]
    found: list[tuple[int, float]] = []
    for values in product(*[range(sizes[c]) for c in free]):
        where = fixed | dict(zip(free, values, strict=True))
        d = math.prod(
            [float(arrays[k][_at(local.letters[k], where, arrays[k].shape)]) for k in others]
        )
        place = _at(local.out, where, out)
        found.append((int(np.ravel_multi_index(place, out)) if out else 0, d))
    return found


def _at(term: str, where: dict[str, int], shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([0 if n == 1 else where[c] for c, n in zip(term, shape, strict=True)])


def exact_sum(terms: list[Term]) -> Fraction | None:
    """The sum without any rounding; None if a term is not finite."""
    if not all(math.isfinite(t.product) for t in terms):
        return None
    return sum([t.exact for t in terms], Fraction(0))


def rounding(terms: list[Term], recorded: float) -> float:
    """What was rounded away when `recorded` was added up; NaN if a term is not finite."""
    total = exact_sum(terms)
    return math.nan if total is None else float(Fraction(recorded) - total)
