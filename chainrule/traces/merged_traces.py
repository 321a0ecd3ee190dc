"""Several recordings as one: nodes are numbered on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from chainrule.traces.trace import Node, Sweep

_T = TypeVar("_T")


def merge(
    parts: Sequence[tuple[tuple[Node, ...], tuple[Sweep, ...]]],
) -> tuple[tuple[Node, ...], tuple[Sweep, ...]]:
    """The nodes and the sweeps of all parts, which have no node in common."""
    nodes: list[Node] = []
    sweeps: list[Sweep] = []
    for own, passes in parts:
        by = len(nodes)
        nodes += [replace(n, inputs=tuple([i + by for i in n.inputs])) for n in own]
        new = {i: i + by for i in range(len(own))}
        sweeps += [_renumber(s, new) for s in passes]
    return tuple(nodes), tuple(sweeps)


def without_unused(
    nodes: Sequence[Node], sweeps: Sequence[Sweep], ops: Sequence[_T]
) -> tuple[tuple[Node, ...], tuple[Sweep, ...], list[_T]]:
    """Without the nodes that no result of a sweep depends on; `ops` has something of each node."""
    used = {i for s in sweeps for i in s.seeds}
    for i in reversed(range(len(nodes))):
        if i in used:
            used.update(nodes[i].inputs)
    order = sorted(used)
    new = {old: i for i, old in enumerate(order)}
    kept = [replace(nodes[i], inputs=tuple([new[n] for n in nodes[i].inputs])) for i in order]
    return tuple(kept), tuple([_renumber(s, new) for s in sweeps]), [ops[i] for i in order]


def _renumber(s: Sweep, new: Mapping[int, int]) -> Sweep:
    messages = tuple([replace(m, node=new[m.node], target=new[m.target]) for m in s.messages])
    gradients = {new[i]: g for i, g in s.gradients.items()}
    more = {new[i]: g for i, g in s.more.items()}
    certificates = {new[i]: c for i, c in s.certificates.items()}
    return Sweep(new[s.result], s.seed, messages, gradients, more, certificates)
