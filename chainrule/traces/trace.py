"""What a trace consists of. The grammar:

    trace   := name, node*, sweep*, {line: text}
    node    := kind, op, label, input*, dtype, shape, line, module, formula, value
    sweep   := node (its result), seed, message*, {node: gradient}, {node: seed} (more results),
               {node: certificate}
    message := node, place, target, local, contribution, certificate?
    local   := Factor | Product | Gather | Scatter | Matrix | Opaque    (see `local_derivatives`)
    value   := array | Summary | nothing

Nodes are numbered from 0 in the order in which they were made, so inputs come before what is
computed from them. A message is sent by a node, whose gradient is complete by then, to its input
number `place`, which is the node `target`. Its contribution is upstream gradient times local
derivative, of the target's shape; the contributions to one node, added in order, are its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Literal, final

import numpy as np

Kind = Literal["input", "parameter", "constant", "op"]
Array = np.ndarray[Any, np.dtype[Any]]


@final
@dataclass(frozen=True, slots=True)
class Summary:
    """Stands for an array that is too large to be kept: statistics of its finite elements, and how
    many are not finite. `norm` is the root of the sum of squares."""

    dtype: str
    shape: tuple[int, ...]
    low: float
    high: float
    mean: float
    norm: float
    not_finite: int


Kept = Array | Summary | None


@final
@dataclass(frozen=True, slots=True)
class Node:
    """A value of the program: what made it, from what, where. `line` is `file:line` of the user's
    program; `module` the name of the module that made it; `formula` the value in symbols. An op
    with several outputs has no value of its own: nodes named `output 0`, ... pick them."""

    kind: Kind
    op: str
    inputs: tuple[int, ...]
    dtype: str
    shape: tuple[int, ...]
    value: Kept = field(repr=False)
    label: str = ""
    line: str = ""
    module: str = ""
    formula: str = ""


# --- Local derivatives ---------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Factor:
    """Element by element: contribution = upstream * values, summed over the axes along which the
    input was broadcast. Where `strong`, an upstream of exactly 0 contributes exactly 0."""

    values: Array
    rule: str
    strong: bool = False


@final
@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products, each axis named by a letter: the contribution to input `place` is the sum,
    over the letters that it has not, of upstream times the other inputs. What is no factor, but is
    added to the product, has `NO_FACTOR` for letters."""

    letters: tuple[str, ...]
    out: str
    place: int
    rule: str


@final
@dataclass(frozen=True, slots=True)
class Gather:
    """Each output element j is coefficient[j] times the input element source[j]."""

    source: Array
    coefficients: Array
    rule: str


@final
@dataclass(frozen=True, slots=True)
class Scatter:
    """Each input element i goes into one output element, target[i], times coefficient[i]."""

    target: Array
    coefficients: Array
    rule: str


@final
@dataclass(frozen=True, slots=True)
class Matrix:
    """The entries of the Jacobian that are not 0: d output[rows] / d input[columns]."""

    rows: Array
    columns: Array
    values: Array
    rule: str


@final
@dataclass(frozen=True, slots=True)
class Opaque:
    """The derivative is known as a rule only; `why` says why its entries are not here."""

    why: str
    rule: str


NO_FACTOR = "-"
Local = Factor | Product | Gather | Scatter | Matrix | Opaque


Verdict = Literal["agrees", "differs", "not checked"]


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """How far a contribution, or a gradient, is from differences of a value, and the most that
    differences and rounding explain, along a direction. Differences are those of the op's value for
    a contribution, and of the sweep's results for a gradient, the program run again from its node.

    Where it is not checked, `why` says why. Where a contribution differs, `slip` is the verifier's
    name for what is wrong; `before` and `after` are the lines of its correction, which has been
    tried. Where there are few elements, `elements` is what differences give for each of them, and
    `bounds` how far off that may be.
    """

    difference: float
    bound: float
    verdict: Verdict
    slip: str = ""
    before: str = ""
    after: str = ""
    why: str = ""
    elements: Kept = field(default=None, repr=False)
    bounds: Kept = field(default=None, repr=False)


def unchecked(why: str) -> Certificate:
    """The certificate of what was not checked."""
    return Certificate(math.nan, math.nan, "not checked", why=why)


# --- The sweep -----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Message:
    """What the rule of `node` sends to `target`, its input number `place`."""

    node: int
    place: int
    target: int
    local: Local = field(repr=False)
    contribution: Kept = field(repr=False)
    certificate: Certificate | None = None


@final
@dataclass(frozen=True, slots=True)
class Sweep:
    """One backward pass from `result`, whose own gradient is `seed`.

    Where it began at several results, `more` are the others, with their seeds.

    `gradients` are those of all nodes that were reached. Where a node's gradient is not the sum of
    its contributions, something changed it on its way: a hook. `certificates` are of gradients.
    """

    result: int
    seed: Kept = field(repr=False)
    messages: tuple[Message, ...] = field(repr=False)
    gradients: Mapping[int, Kept] = field(repr=False)
    more: Mapping[int, Kept] = field(default_factory=dict[int, Kept], repr=False)
    certificates: Mapping[int, Certificate] = field(
        default_factory=dict[int, Certificate], repr=False
    )

    @property
    def seeds(self) -> dict[int, Kept]:
        """The seed of each result."""
        return {self.result: self.seed, **self.more}


def gradient_sums(messages: Sequence[Message], seeds: Mapping[int, Kept]) -> dict[int, Array]:
    """Of each node the seed and the contributions, added in order, where all of them are kept."""
    totals: dict[int, Any] = dict(seeds)
    for m in messages:
        before = totals.get(m.target)
        if m.target not in totals:
            totals[m.target] = m.contribution
        elif isinstance(before, np.ndarray) and isinstance(m.contribution, np.ndarray):
            with np.errstate(all="ignore"):
                totals[m.target] = before + m.contribution
        else:
            totals[m.target] = None
    return {i: x for i, x in totals.items() if isinstance(x, np.ndarray)}


@final
@dataclass(frozen=True, slots=True)
class Trace:
    """A program that ran: its nodes, and its backward sweeps in order. `lines` are the texts of the
    program's lines, by `file:line`.

    >>> trace = cr.record(lambda x: cr.sum(x * x), cr.tensor([1.0, 2.0]))
    >>> trace.find("x"), len(trace.nodes)
    (0, 3)
    """

    name: str
    nodes: tuple[Node, ...]
    sweeps: tuple[Sweep, ...]
    lines: Mapping[str, str]

    def __repr__(self) -> str:
        from chainrule.traces.text import describe_trace  # which reads traces

        return describe_trace(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace as `.json`, which reads back, as `.html`, which plays, or as a picture:
        `.svg`, `.dot`, `.txt`.

        All of the file is written, or nothing at all.
        """
        from chainrule.traces.saving import save_trace  # which reads traces

        save_trace(self, fspath(path))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows: the player, a picture where it shows no HTML, or text."""
        from chainrule.traces.saving import shown_forms  # which reads traces

        return shown_forms(self)

    def gradient(self, node: int) -> Kept:
        """The gradient of a node in the last sweep that reached it; None if none did."""
        for sweep in reversed(self.sweeps):
            if node in sweep.gradients:
                return sweep.gradients[node]
        return None

    def find(self, label: str) -> int:
        """The number of the node with that label. Raises `KeyError` if there is none."""
        for i in range(len(self.nodes) - 1, -1, -1):
            if self.nodes[i].label == label:
                return i
        known = ", ".join(sorted({n.label for n in self.nodes if n.label}))
        raise KeyError(f"no node of this trace is called {label!r}; there are: {known}")


def users(nodes: Sequence[Node]) -> list[list[int]]:
    """For each node those that are computed from it."""
    out: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for n in dict.fromkeys(node.inputs):
            out[n].append(i)
    return out
