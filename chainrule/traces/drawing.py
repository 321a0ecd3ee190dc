"""A trace as a `Picture` of `show`: its cards, its text for terminals, SVG and Graphviz."""

from __future__ import annotations

from chainrule.show.drawing import Drawing
from chainrule.show.picture import Card, Edge, Facts, Picture
from chainrule.traces.text import text_of
from chainrule.traces.trace import Kept, Summary, Trace

MAX_NODES = 200
"""Of a larger trace those nearest the result are drawn."""
NOT_RUN = "–: backward has not run, so there are no gradients"


def drawing_of(trace: Trace, max_nodes: int | None = MAX_NODES) -> Drawing:
    """The drawing of a trace: the last result first; gradients are those of the last sweep."""
    return Drawing(picture_of(trace, max_nodes))


def picture_of(trace: Trace, max_nodes: int | None = MAX_NODES) -> Picture:
    """The picture of a trace. Where backward has not run, gradients are `–`, and a note says so."""
    order = _nearest_first(trace)
    shown = order[:max_nodes]
    ids = {node: i for i, node in enumerate(shown)}
    cards: list[Card] = []
    edges: list[Edge] = []
    for i, node in enumerate(shown):
        inputs = trace.nodes[node].inputs
        here = [Edge(ids[n], i, p) for p, n in enumerate(inputs) if n in ids]
        edges += here
        cards.append(Card(i, _facts(trace, node), cut=len(inputs) - len(here)))
    cut = f"{len(shown):,} of {len(order):,} nodes, those nearest the result"
    notes = [cut] if len(shown) < len(order) else []
    return Picture(tuple(cards), tuple(edges), ". ".join(notes + _notes(trace)))


def _notes(trace: Trace) -> list[str]:
    if not trace.sweeps:
        return [NOT_RUN]
    return [f"{len(trace.sweeps)} backward passes: the gradients of the last"][
        : len(trace.sweeps) - 1
    ]


def _nearest_first(trace: Trace) -> list[int]:
    """From the last result to its inputs, then everything else."""
    count = len(trace.nodes)
    root = trace.sweeps[-1].result if trace.sweeps else count - 1
    queue = list(dict.fromkeys([root, *reversed(range(count))])) if count else []
    seen = {root}
    out: list[int] = []
    for start in queue:
        level = [start] if start == root or start not in seen else []
        seen.update(level)
        while level:
            out += level
            level = list(dict.fromkeys([n for i in level for n in trace.nodes[i].inputs]))
            level = [n for n in level if n not in seen]
            seen.update(level)
    return out


def _facts(trace: Trace, i: int) -> Facts:
    node = trace.nodes[i]
    grad = trace.gradient(i)
    constant = node.kind == "constant"
    return Facts(
        kind="constant" if constant else "op" if node.kind == "op" else "input",
        op=node.op if node.kind == "op" else "constant" if constant else "input",
        label=node.label,
        type=f"{node.dtype} {node.shape}" if node.shape else "",
        value="" if node.value is None else text_of(node.value),
        grad="" if grad is None else text_of(grad),
        size=_size(grad),
        line=node.line,
    )


def _size(x: Kept) -> float | None:
    """The largest magnitude of a gradient."""
    if x is None:
        return None
    if isinstance(x, Summary):
        return max(abs(x.low), abs(x.high))
    return float(abs(x).max()) if x.size else None
