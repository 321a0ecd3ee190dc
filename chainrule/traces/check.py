"""The checker of traces: numbers of nodes, shapes, order, and whether the sweeps add up.

Raises `ValueError` with what is wrong; it is how a reader knows that a file holds a trace.
"""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from chainrule.traces.trace import (
    Factor,
    Gather,
    Kept,
    Kind,
    Matrix,
    Message,
    Node,
    Product,
    Scatter,
    Summary,
    Sweep,
    Trace,
)


def check_trace(trace: Trace) -> None:
    """Raise `ValueError` where a trace breaks its grammar."""
    for i, node in enumerate(trace.nodes):
        _check_node(i, node)
    for sweep in trace.sweeps:
        _check_sweep(trace, sweep)


def _fail(what: str) -> None:
    raise ValueError(what)


def _check_node(i: int, node: Node) -> None:
    if node.kind not in get_args(Kind):
        _fail(f"node {i} is of no known kind: {node.kind!r}")
    if (node.kind == "op") != bool(node.inputs) and node.kind != "op":
        _fail(f"node {i}, of kind {node.kind}, has inputs")
    for n in node.inputs:
        if type(n) is not int or not 0 <= n < i:
            _fail(f"node {i} has the input {n!r}, which is not made before it")
    _check_kept(f"the value of node {i}", node.value, node.shape)


def _check_kept(what: str, x: Kept, shape: tuple[int, ...]) -> None:
    if x is not None and not isinstance(x, np.ndarray | Summary):
        _fail(f"{what} is no array")
    if x is not None and tuple(x.shape) != tuple(shape):
        _fail(f"{what} has shape {tuple(x.shape)}, not {tuple(shape)}")


def _check_sweep(trace: Trace, sweep: Sweep) -> None:
    count = len(trace.nodes)
    if type(sweep.result) is not int or not 0 <= sweep.result < count:
        _fail(f"a sweep has the result {sweep.result!r}: there are {count} nodes")
    _check_kept("the seed", sweep.seed, trace.nodes[sweep.result].shape)
    for i, g in sweep.gradients.items():
        if not 0 <= i < count:
            _fail(f"there is a gradient of node {i}: there are {count} nodes")
        _check_kept(f"the gradient of node {i}", g, trace.nodes[i].shape)
    for k, m in enumerate(sweep.messages):
        _check_message(trace, sweep, k, m)


def _check_message(trace: Trace, sweep: Sweep, k: int, m: Message) -> None:
    what = f"message {k}"
    if type(m.node) is not int or not 0 <= m.node < len(trace.nodes):
        _fail(f"{what} comes from node {m.node!r}, which there is not")
    inputs = trace.nodes[m.node].inputs
    if type(m.place) is not int or not 0 <= m.place < len(inputs) or inputs[m.place] != m.target:
        _fail(f"{what} goes to node {m.target!r}, which is not input {m.place!r} of node {m.node}")
    if m.node not in sweep.gradients:
        _fail(f"{what} comes from node {m.node}, which has no gradient")
    shape = trace.nodes[m.target].shape
    _check_kept(f"the contribution of {what}", m.contribution, shape)
    out, size = trace.nodes[m.node].shape, math.prod(shape)
    match m.local:
        case Factor(values=d):
            np.broadcast_to(d, out)
        case Product(letters=letters, out=named):
            _check_letters(trace, m, letters, named)
        case Gather(source=which, coefficients=c):
            _check_places(what, which, c, math.prod(out), size)
        case Scatter(target=which, coefficients=c):
            _check_places(what, which, c, size, math.prod(out))
        case Matrix(rows=rows, columns=columns, values=values):
            _check_places(what, rows, values, len(values), math.prod(out))
            _check_places(what, columns, values, len(values), size)
        case _:
            pass


def _check_places(what: str, which: Any, numbers: Any, count: int, among: int) -> None:
    if which.shape != (count,) or numbers.shape != (count,):
        _fail(f"the local derivative of {what} names {which.shape} places, not {count}")
    if count and not (which.min() >= 0 and which.max() < among):
        _fail(f"the local derivative of {what} names an element beyond {among}")


def _check_letters(trace: Trace, m: Message, letters: tuple[str, ...], out: str) -> None:
    node = trace.nodes[m.node]
    shapes = [*[trace.nodes[i].shape for i in node.inputs], node.shape]
    for term, shape in zip([*letters, out], shapes, strict=True):
        if len(term) != len(shape):
            _fail(f"the letters {term!r} do not fit the shape {shape}")


def sums_differ(trace: Trace, sweep: Sweep) -> list[int]:
    """The nodes whose gradient is not, bit for bit, the sum of their contributions in order: where
    a hook changed it."""
    totals: dict[int, Any] = {}
    for m in sweep.messages:
        if isinstance(m.contribution, np.ndarray):
            before = totals.get(m.target)
            with np.errstate(all="ignore"):
                totals[m.target] = m.contribution if before is None else before + m.contribution
    out: list[int] = []
    for i, total in totals.items():
        g = sweep.gradients.get(i)
        if isinstance(g, np.ndarray) and not np.array_equal(
            g, total, equal_nan=g.dtype.kind in "fc"
        ):
            out.append(i)
    return out
