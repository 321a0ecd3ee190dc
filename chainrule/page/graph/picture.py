"""What is drawn, apart from how: a `Picture` of cards and edges, independent of any engine.

Text, SVG and Graphviz are three renderings of one picture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["input", "constant", "op"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one node.

    `op` is what made it, `value` and `grad` are texts ("" where unknown), `kind` tells what a
    gradient may flow to: `input` a leaf, `constant` none. `type` is a dtype and a shape, "" for a
    scalar. `size` is the largest magnitude in the gradient, None where that is unknown. `line` is
    the user's, as `file:line`.

    >>> a = cr.tensor(2.0, requires_grad=True)
    >>> [card.facts.op for card in cr.show.graph(a * a).picture.cards]
    ['mul', 'input']
    """

    kind: Kind
    op: str
    label: str = ""
    type: str = ""
    value: str = ""
    grad: str = ""
    size: float | None = None
    line: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """One node of a picture: its place in it, what is known of it, and how many of its inputs were
    left out. `step` is when a walk visited it, counted from 1, None if that is not shown.

    >>> a = cr.tensor(2.0, requires_grad=True)
    >>> card = cr.show.graph(a * a).picture.cards[0]
    >>> type(card).__name__
    'Card'
    """

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
    """From an input to what is computed from it; `input_index` is its position among the inputs.

    >>> a = cr.tensor(2.0, requires_grad=True)
    >>> edge = cr.show.graph(a * a).picture.edges[0]
    >>> type(edge).__name__
    'Edge'
    """

    source: int
    target: int
    input_index: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Cards (the result first), edges (by target, in the order of its inputs), and a note.

    >>> a = cr.tensor(2.0, requires_grad=True)
    >>> picture = cr.show.graph(a * a).picture
    >>> len(picture.cards), len(picture.edges)
    (2, 2)
    """

    cards: tuple[Card, ...]
    edges: tuple[Edge, ...]
    note: str = ""

    def inputs(self) -> list[list[int]]:
        """For each card the ids of its inputs, in order."""
        out: list[list[int]] = [[] for _ in self.cards]
        for e in self.edges:
            out[e.target].append(e.source)
        return out


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
