"""How a loss was scaled after it was reduced: what an accumulation of gradients depends on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """A mean over some of the elements of an array: all but those that are padding, say."""

    count: float
    elements: int


@dataclass(frozen=True)
class Scale:
    """What was done to a loss last: it was divided by `divisor`; before that it was a mean or a
    sum over its batch, or something else."""

    divisor: float
    reduction: str
    """"mean", "sum" or ""."""
    by_division: bool = False
    """Whether that was written as a division."""
    terms: int = 1
    """How many of them were added up."""
    counts: frozenset[float] = frozenset()
    """Divided by one of these a sum is a mean: over examples, or over all elements."""
    share: Share | None = None
    """What a mean is over, or what a sum was divided by first, where that is known."""


def common_scale(terms: Sequence[Scale]) -> Scale | None:
    """What is true of all terms of a loss; None if they were divided by different numbers."""
    first = terms[0] if terms else None
    if first is None or any(abs(s.divisor - first.divisor) > 1e-6 * s.divisor for s in terms):
        return None
    reductions = {s.reduction for s in terms}
    reduction = reductions.pop() if len(reductions) == 1 else ""
    counts = frozenset[float].intersection(*[s.counts for s in terms])
    divided = all(s.by_division for s in terms)
    share = first.share if len(terms) == 1 else None
    return Scale(first.divisor, reduction, divided, len(terms), counts, share)


def counts_of(shape: Sequence[int]) -> frozenset[float]:
    """What a sum over an array is divided by to make it a mean."""
    return frozenset([float(n) for n in (*shape[:1], math.prod(shape)) if n > 1])
