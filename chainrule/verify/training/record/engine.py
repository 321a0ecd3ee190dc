"""What parts ask of a framework: `Engine` of its tensors, `Nodes` of its graphs.

Nodes say how a loss was scaled after it was reduced. A mean is a sum that is divided by the number
of its elements; what is done to the loss after that is read off its graph, from its end back.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from chainrule.engine.op import Array


class Engine(abc.ABC):
    """What parts ask of a framework's tensors. None of it changes anything."""

    @abc.abstractmethod
    def token(self, tensor: Any) -> tuple[int, ...]:
        """Something that changes when the tensor is replaced or written to."""

    @abc.abstractmethod
    def serial(self) -> int:
        """No node that is there has one above it, none that is to come one below."""

    @abc.abstractmethod
    def norms(self, tensors: Sequence[Any]) -> list[float]:
        """Euclidean norms, NaN or inf if an element is."""

    @abc.abstractmethod
    def listen(self, tensor: Any, hear: Callable[[Sequence[Any]], None]) -> bool:
        """Let `hear` be given the gradients that arrive at a result; False if none can."""

    @abc.abstractmethod
    def copies(self, tensors: Sequence[Any]) -> list[Any]:
        """Their values, as they are now."""

    @abc.abstractmethod
    def moved(self, tensors: Sequence[Any], copies: Sequence[Any]) -> list[float]:
        """Euclidean norms of the differences to what `copies` gave."""

    @abc.abstractmethod
    def array(self, values: Any) -> Array:
        """What a tensor holds, in NumPy, in float32 or wider."""

    @abc.abstractmethod
    def params(self, optimizer: Any) -> list[Any]:
        """Parameters of an optimizer, each once, in its order."""

    @final
    def modules(self, root: Any) -> list[tuple[str, Any]]:
        """A module and all below it, by name; its own is ''."""
        return list(root.named_modules())

    @abc.abstractmethod
    def own(self, module: Any) -> list[tuple[str, Any]]:
        """Parameters of a module that are not those of a module below it, by name."""


_SUMS = ("add", "sub", "neg")
_DEEP = 12
"""Ops that are looked through."""


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


class Way(NamedTuple):
    """What was done to a loss, from its end back to some node."""

    divisor: float = 1.0
    divided: bool = False
    first: float = 0.0
    """What the node made was divided by this at once; 0 if it was not."""


class Nodes(abc.ABC):
    """What is asked of the nodes of a framework's graph."""

    @abc.abstractmethod
    def name(self, node: Any) -> str:
        """ "add", "sub", "neg", "mul" or "div"; others as they are called."""

    @abc.abstractmethod
    def below(self, node: Any) -> list[Any]:
        """Nodes that a gradient goes on to."""

    @abc.abstractmethod
    def number(self, node: Any) -> float | None:
        """The constant that the one argument was multiplied or divided by; None if it is none."""

    @abc.abstractmethod
    def reduced(self, node: Any, way: Way) -> Scale:
        """How what a node has reduced was scaled on the way to the loss."""

    @final
    def scale(self, node: Any, scaler: float | None) -> Scale | None:
        """How a loss was scaled after it was reduced, or None if its terms differ in that.

        `scaler`: the factor that a gradient scaler multiplied it by, which does not count.
        """
        return None if node is None else _common(list(self._terms(node, Way(), scaler, 0)))

    def _terms(self, node: Any, way: Way, scaler: float | None, depth: int) -> Iterator[Scale]:
        """Go through constant factors and sums of terms to what was reduced."""
        name, below = self.name(node), self.below(node)
        if depth < _DEEP and name in _SUMS and below:
            for n in below:
                yield from self._terms(n, way._replace(first=0.0), scaler, depth + 1)
            return
        is_scaled = depth < _DEEP and name in ("mul", "div") and len(below) == 1
        number = self.number(node) if is_scaled else None
        if not number:
            yield self.reduced(node, way)
            return
        if name == "div":
            way = Way(way.divisor * number, True, number)
        elif scaler is not None and abs(number - scaler) <= 1e-6 * scaler:
            scaler = None
        else:
            way = Way(way.divisor / number, way.divided)
        yield from self._terms(below[0], way, scaler, depth + 1)


def _common(terms: Sequence[Scale]) -> Scale | None:
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
