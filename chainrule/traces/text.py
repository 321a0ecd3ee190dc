"""A trace as text, for terminals: the graph, then the messages of each sweep."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.page.graph.picture import number
from chainrule.traces.trace import Kept, Message, Sweep, Trace
from chainrule.traces.value_text import value_text

MAX_LINES = 40
"""Of a longer list the first half and the last half of so many are shown."""


def describe_trace(trace: Trace) -> str:
    """Nodes with values and gradients, and every message, a line each."""
    out = [f"{trace.name}: {len(trace.nodes):,} nodes"]
    out += _shorten([_node(trace, i) for i in range(len(trace.nodes))])
    if not trace.sweeps:
        out.append("backward has not run: there are no gradients")
    for sweep in trace.sweeps:
        out.append(
            f"backward from {name_of(trace, sweep.result)}: {len(sweep.messages):,} messages"
        )
        out += _shorten([_message(trace, sweep, m) for m in sweep.messages])
    return "\n".join(out)


def name_of(trace: Trace, i: int) -> str:
    """What a node is called: its label, or its op and number."""
    node = trace.nodes[i]
    return node.label or f"{node.op} #{i}"


def text_of(x: Kept) -> str:
    """A value in one line; `–` where there is none."""
    return value_text(x) or "–"


def _node(trace: Trace, i: int) -> str:
    node = trace.nodes[i]
    made = f" = {node.op}({', '.join([name_of(trace, n) for n in node.inputs])})"
    size = f"  {node.dtype} {node.shape}" if node.shape else ""
    gradient = text_of(trace.gradient(i)) if trace.sweeps else "–"
    grad = "" if node.kind == "constant" else f"  ∂ {gradient}"
    line = f"  {node.line}" if node.line else ""
    head = f"{name_of(trace, i)}{made if node.inputs else ''}"
    return f"  {head}  {text_of(node.value)}{grad}{size}{line}"


def _message(trace: Trace, sweep: Sweep, m: Message) -> str:
    local: Any = getattr(m.local, "values", None)
    rule = m.local.rule
    if local is not None and np.ndim(local) == 0 and rule != text_of(local):
        rule = f"{rule} = {text_of(local)}"
    upstream = text_of(sweep.gradients.get(m.node))
    return (
        f"  {name_of(trace, m.node)} → {name_of(trace, m.target)}:  "
        f"{upstream} · ({rule}) = {text_of(m.contribution)}{_verdict(m)}"
    )


def _verdict(m: Message) -> str:
    """A mark at a contribution that is wrong."""
    c = m.certificate
    if c is None or c.verdict != "differs":
        return ""
    return f"  ✗ {c.slip or 'differs from differences'} (off by {number(c.difference)})"


def _shorten(lines: list[str]) -> list[str]:
    if len(lines) <= MAX_LINES:
        return lines
    half = MAX_LINES // 2
    return [*lines[:half], f"  … {len(lines) - MAX_LINES:,} more", *lines[-half:]]
