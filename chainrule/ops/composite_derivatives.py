"""The derivatives of a function of ops, op by op: cotangents back, tangents forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chainrule.engine.derive import pullback_nodes, pushforward_nodes
from chainrule.engine.graph import (
    Variable,
    alias,
    is_recording,
    order,
    recording,
    variable,
)
from chainrule.engine.op import Need


def _aliases(wanted: Sequence[bool], xs: Sequence[Any]) -> list[Any]:
    """`xs` as variables, those that are wanted as places of their own."""
    given = [x if isinstance(x, Variable) else variable(x) for x in xs]
    return [alias(x) if w else x for w, x in zip(wanted, given, strict=True)]


Results = Callable[[Sequence[Any]], Sequence[Any]]
"""A function of ops, of a list of arrays, with a list of results."""


def pull_back(f: Results, need: Need, xs: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
    """The cotangents of those inputs that need one, op by op, from those of all results of f."""
    places = _aliases(need, xs)
    with recording(True):
        ys = f(places)
    nodes = [x.node for x, n in zip(places, need, strict=True) if n]
    seeds = {y.node: g for y, g in zip(ys, gs, strict=True)}
    walk = order(seeds, nodes)
    got = pullback_nodes(walk, seeds, set(nodes), record=is_recording(), free=False)
    return [got[n] for n in nodes]


def push_forward(f: Results, ts: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
    """The tangents of all results of f, op by op, from those of its inputs, None for zero."""
    places = _aliases([t is not None for t in ts], xs)
    with recording(True):
        nodes = [out.node for out in f(places)]
    tangents: dict[Any, Any] = {x.node: t for x, t in zip(places, ts, strict=True) if t is not None}
    record = is_recording() and any(isinstance(t, Variable) for t in (*ts, *xs))
    pushed = pushforward_nodes(order(nodes, tangents), tangents, record=record)
    return [pushed[n] for n in nodes]
