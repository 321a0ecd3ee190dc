"""What is drawn, apart from how: a `Picture` of cards and edges, independent of any engine.

A `Source` says what an engine's graph looks like from outside (`tensors`, `scalars`); `build`
chooses what is drawn and freezes it. Text, SVG and Graphviz are three renderings of one picture.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from chainrule.errors import ConfigError

Kind = Literal["input", "constant", "op"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one node.

    `op` is what made it, `value` and `grad` are texts ("" where unknown), `kind` tells what a
    gradient may flow to: `input` a leaf, `constant` none. `type` is a dtype and a shape, "" for a
    scalar. `size` is the largest magnitude in the gradient, None where that is unknown. `line` is
    the user's, as `file:line`.
    """

    kind: Kind
    op: str
    label: str = ""
    type: str = ""
    value: str = ""
    grad: str = ""
    size: float | None = None
    line: str = ""


@final
class Constant:
    """An input that is no node: a number, say. Shown, but nothing flows to it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True, slots=True)
class Card:
    """One node of a picture: its place in it, what is known of it, and how many of its inputs were
    left out. `step` is when a walk visited it, counted from 1, None if that is not shown."""

    id: int
    facts: Facts
    step: int | None = None
    cut: int = 0

    @property
    def name(self) -> str:
        """The label if it has one, otherwise the op."""
        return self.facts.label or self.facts.op


@dataclass(frozen=True, slots=True)
class Edge:
    """From an input to what is computed from it; `place` is its position among the inputs."""

    source: int
    target: int
    place: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Cards (the result first), edges (by target, in the order of its inputs), and a note."""

    cards: tuple[Card, ...]
    edges: tuple[Edge, ...]
    note: str = ""

    def inputs(self) -> list[list[int]]:
        """For each card the ids of its inputs, in order."""
        out: list[list[int]] = [[] for _ in self.cards]
        for e in self.edges:
            out[e.target].append(e.source)
        return out


class Source(ABC):
    """A graph as an engine holds it. Nodes are compared by identity."""

    @property
    @abstractmethod
    def root(self) -> Any:
        """The node of the result."""

    @property
    @abstractmethod
    def hint(self) -> str:
        """What to do when values or gradients are unknown."""

    @abstractmethod
    def key(self, x: Any) -> Any:
        """The node of something that a user holds, None if it is not of this kind."""

    @abstractmethod
    def inputs(self, node: Any) -> Sequence[Any]:
        """The nodes of the inputs, in order."""

    @abstractmethod
    def observe(self, nodes: Sequence[Any]) -> None:
        """Find out values and gradients of `nodes`, which come before what they depend on."""

    @abstractmethod
    def facts(self, node: Any, label: str) -> Facts:
        """What is known of a node."""


def build(
    source: Source,
    names: Sequence[tuple[str, Any]] = (),
    steps: Iterable[Any] = (),
    max_nodes: int | None = 200,
) -> Picture:
    """The picture of a graph: the `max_nodes` nodes nearest the result, all of them for None."""
    if max_nodes is not None and (isinstance(max_nodes, bool) or max_nodes < 1):
        raise ConfigError(f"max_nodes: at least 1, or None for all, not {max_nodes!r}")
    found = _nearest_first(source)
    shown = found[:max_nodes]
    source.observe(shown)
    ids = {id(node): i for i, node in enumerate(shown)}
    labels = {id(source.key(x)): name for name, x in names}
    visits = {id(source.key(x)): i for i, x in enumerate(steps, 1)}
    cards: list[Card] = []
    edges: list[Edge] = []
    for i, node in enumerate(shown):
        inputs = source.inputs(node)
        here = [(ids[id(n)], p) for p, n in enumerate(inputs) if id(n) in ids]
        edges.extend([Edge(j, i, p) for j, p in here])
        facts = source.facts(node, labels.get(id(node), ""))
        cards.append(Card(i, facts, visits.get(id(node)), len(inputs) - len(here)))
    left_out = _note(len(shown), len(found))
    unknown = any(not c.facts.value or (c.facts.kind == "op" and not c.facts.grad) for c in cards)
    notes = [note for note in (left_out, source.hint if unknown else "") if note]
    return Picture(tuple(cards), tuple(edges), ". ".join(notes))


def _nearest_first(source: Source) -> list[Any]:
    """Every node that the result depends on, by distance from it, inputs in order."""
    seen = {id(source.root)}
    queue = deque([source.root])
    out: list[Any] = []
    while queue:
        node = queue.popleft()
        out.append(node)
        for n in source.inputs(node):
            if id(n) not in seen:
                seen.add(id(n))
                queue.append(n)
    return out


def _note(shown: int, found: int) -> str:
    if shown == found:
        return ""
    return f"{shown:,} of {found:,} nodes, those nearest the result; max_nodes={found} shows all"


def number(x: Any) -> str:
    """A number in at most five significant digits, with a real minus sign.

    >>> number(-1.50083), number(4.0), number(True)
    ('−1.5008', '4', 'True')
    """
    if isinstance(x, bool):
        return str(x)
    if isinstance(x, int) and abs(x) < 10**9:
        return f"{x}".replace("-", "−")
    if isinstance(x, complex):
        sign = "−" if math.copysign(1, x.imag) < 0 else "+"
        return f"{number(x.real)} {sign} {number(abs(x.imag))}i"
    return f"{x:.5g}".replace("-", "−").replace("e+", "e")
