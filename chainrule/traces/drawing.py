"""A trace as a `Picture` of `show`: its cards, its text for terminals, SVG and Graphviz."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chainrule.page.graph.drawing import Drawing
from chainrule.page.graph.picture import Card, Edge, Facts, Picture
from chainrule.traces.trace import Kept, Summary, Trace
from chainrule.traces.value_text import value_text

MAX_NODES = 200
"""Of a larger trace those nearest the result are drawn."""
NOT_RUN = "–: backward has not run, so there are no gradients"


def drawing_of(trace: Trace, max_nodes: int | None = MAX_NODES) -> Drawing:
    """The drawing of a trace: the last result first; gradients are those of the last sweep."""
    return Drawing(picture_of(trace, max_nodes))


def picture_of(
    trace: Trace,
    max_nodes: int | None = MAX_NODES,
    *,
    steps: Mapping[int, int] | None = None,
    hint: str = "",
) -> Picture:
    """The picture of a trace. Where backward has not run, gradients are `–`, and a note says so.

    `steps` says of nodes when a walk visited them; `hint`, what to do about unknown numbers.
    """
    order = _nearest_first(trace)
    shown = order[:max_nodes]
    ids = {node: i for i, node in enumerate(shown)}
    cards: list[Card] = []
    edges: list[Edge] = []
    for i, node in enumerate(shown):
        inputs = trace.nodes[node].inputs
        here = [Edge(ids[n], i, p) for p, n in enumerate(inputs) if n in ids]
        edges += here
        step = (steps or {}).get(node)
        cards.append(Card(i, _facts(trace, node), step, len(inputs) - len(here)))
    found = len(order)
    few = f"{len(shown):,} of {found:,} nodes, those nearest the result"
    cut = f"{few}; max_nodes={found} shows all"
    unknown = any(not c.facts.value or (c.facts.kind == "op" and not c.facts.grad) for c in cards)
    own = [hint] if hint and unknown else [] if hint else _notes(trace)
    return Picture(tuple(cards), tuple(edges), ". ".join([cut] * (len(shown) < found) + own))


def _notes(trace: Trace) -> list[str]:
    if not trace.sweeps:
        return [NOT_RUN]
    return [f"{len(trace.sweeps)} backward passes: the gradients of the last"][
        : len(trace.sweeps) - 1
    ]


def _nearest_first(trace: Trace) -> list[int]:
    """From the last result to its inputs, level by level, then everything else."""
    count = len(trace.nodes)
    root = trace.sweeps[-1].result if trace.sweeps else count - 1
    out: list[int] = []
    seen: set[int] = set()
    for start in [root, *reversed(range(count))] if count else []:
        level = [] if start in seen else [start]
        while level:
            out += level
            seen.update(level)
            inputs = [n for i in level for n in trace.nodes[i].inputs if n not in seen]
            level = list(dict.fromkeys(inputs))
    return out


def _facts(trace: Trace, i: int) -> Facts:
    node = trace.nodes[i]
    grad = trace.gradient(i)
    constant = node.kind == "constant"
    return Facts(
        kind="constant" if constant else "op" if node.kind == "op" else "input",
        op=node.op if node.kind == "op" else "constant" if constant else "input",
        label="" if constant and node.label == _literal(node.value) else node.label,
        type=f"{node.dtype} {node.shape}" if node.shape else "",
        value=value_text(node.value),
        grad=value_text(grad),
        size=_size(grad),
        line=node.line,
    )


def _literal(x: Kept) -> str:
    """A number as a program writes it."""
    return repr(x.item()) if isinstance(x, np.ndarray) and not x.shape else ""


def _size(x: Kept) -> float | None:
    """The largest magnitude of a gradient."""
    if x is None:
        return None
    if isinstance(x, Summary):
        return max(abs(x.low), abs(x.high))
    return float(abs(x).max()) if x.size else None
