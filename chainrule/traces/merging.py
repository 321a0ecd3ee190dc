"""Several recordings as one: nodes are numbered on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chainrule.traces.trace import Message, Node, Sweep


def merged(
    parts: Sequence[tuple[tuple[Node, ...], tuple[Sweep, ...]]],
) -> tuple[tuple[Node, ...], tuple[Sweep, ...]]:
    """The nodes and the sweeps of all parts, which have no node in common."""
    nodes: list[Node] = []
    sweeps: list[Sweep] = []
    for own, passes in parts:
        by = len(nodes)
        nodes += [replace(n, inputs=tuple([i + by for i in n.inputs])) for n in own]
        sweeps += [_shifted(s, by) for s in passes]
    return tuple(nodes), tuple(sweeps)


def _shifted(s: Sweep, by: int) -> Sweep:
    messages = tuple([_renumbered(m, by) for m in s.messages])
    gradients = {i + by: g for i, g in s.gradients.items()}
    return Sweep(s.result + by, s.seed, messages, gradients)


def _renumbered(m: Message, by: int) -> Message:
    return replace(m, node=m.node + by, target=m.target + by)
