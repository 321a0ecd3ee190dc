"""The checker of traces: numbers of nodes, shapes, order, and whether the sweeps add up.

Raises `ValueError` with what is wrong; it is how a reader knows that a file holds a trace.
"""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from chainrule.traces.kept_values import is_array
from chainrule.traces.trace import (
    NO_FACTOR,
    Certificate,
    Factor,
    Gather,
    Kind,
    Matrix,
    Message,
    Node,
    Product,
    Scatter,
    Summary,
    Sweep,
    Trace,
    Verdict,
    gradient_sums,
)

MOST_AXES = 64


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
    if node.kind != "op" and node.inputs:
        _fail(f"node {i}, of kind {node.kind}, has inputs")
    for n in node.inputs:
        if type(n) is not int or not 0 <= n < i:
            _fail(f"node {i} has the input {n!r}, which is not made before it")
    if len(node.shape) > MOST_AXES or any(type(n) is not int or n < 0 for n in node.shape):
        _fail(f"node {i} has the shape {node.shape!r}")
    _check_kept(f"the value of node {i}", node.value, node)


def _check_kept(what: str, x: Any, node: Node) -> None:
    """Whether an array or a summary is of the node's dtype and shape."""
    if x is None:
        return
    if not (is_array(x) or type(x) is Summary):
        _fail(f"{what} is no array")
    kind = str(x.dtype), tuple(x.shape)
    if kind != (node.dtype, node.shape):
        _fail(f"{what} is {kind[0]} {kind[1]}, not {node.dtype} {node.shape}")


def _check_sweep(trace: Trace, sweep: Sweep) -> None:
    """Raise if a sweep names nodes that are not there, or its shapes do not fit."""
    count = len(trace.nodes)
    for i, seed in sweep.seeds.items():
        _check_number(i, count, "a sweep has the result")
        _check_kept("the seed", seed, trace.nodes[i])
        if i not in sweep.gradients:
            _fail(f"the result {i} of a sweep has no gradient")
    for i, c in sweep.certificates.items():
        if i not in sweep.gradients:
            _fail(f"there is a certificate of node {i!r}, which has no gradient")
        _check_certificate(f"the gradient of node {i}", c, trace.nodes[i].shape)
    for i, g in sweep.gradients.items():
        _check_number(i, count, "there is a gradient of node")
        _check_kept(f"the gradient of node {i}", g, trace.nodes[i])
    senders: set[int] = set()
    for k, m in enumerate(sweep.messages):
        _check_message(trace, sweep, k, m)
        senders.add(m.node)
        if m.target in senders:
            _fail(f"message {k} goes to node {m.target}, whose rule has run already")


def _check_number(i: Any, count: int, what: str) -> None:
    if type(i) is not int or not 0 <= i < count:
        _fail(f"{what} {i!r}: there are {count} nodes")


def _check_message(trace: Trace, sweep: Sweep, k: int, m: Message) -> None:
    """Raise if a message goes another way than its op does, or its arrays do not fit."""
    what = f"message {k}"
    if type(m.node) is not int or not 0 <= m.node < len(trace.nodes):
        _fail(f"{what} comes from node {m.node!r}, which there is not")
    inputs = trace.nodes[m.node].inputs
    if type(m.place) is not int or not 0 <= m.place < len(inputs) or inputs[m.place] != m.target:
        _fail(f"{what} goes to node {m.target!r}, which is not input {m.place!r} of node {m.node}")
    if m.node not in sweep.gradients:
        _fail(f"{what} comes from node {m.node}, which has no gradient")
    shape = trace.nodes[m.target].shape
    if m.certificate is not None:
        _check_certificate(what, m.certificate, shape)
    _check_kept(f"the contribution of {what}", m.contribution, trace.nodes[m.target])
    if m.target not in sweep.gradients:
        _fail(f"{what} goes to node {m.target}, which has no gradient")
    out, size = trace.nodes[m.node].shape, math.prod(shape)
    match m.local:
        case Factor(values=d):
            if not _broadcasts(d.shape, out):
                _fail(f"the local derivative of {what} has shape {d.shape}, not {out}")
        case Product(letters=letters, out=named, place=place):
            _check_letters(what, trace, m, letters, named)
            if place != m.place:
                _fail(f"the local derivative of {what} is for input {place!r}, not {m.place}")
        case Gather(source=which, coefficients=c):
            _check_places(what, which, c, math.prod(out), size)
        case Scatter(target=which, coefficients=c):
            _check_places(what, which, c, size, math.prod(out))
        case Matrix(rows=rows, columns=columns, values=values):
            _check_places(what, rows, values, len(values), math.prod(out))
            _check_places(what, columns, values, len(values), size)
        case _:
            pass


def _check_certificate(what: str, c: Certificate, shape: tuple[int, ...]) -> None:
    if c.verdict not in get_args(Verdict):
        _fail(f"{what} has no known verdict: {c.verdict!r}")
    for part in (c.elements, c.bounds):
        if part is not None and not (is_array(part) and part.shape == shape):
            _fail(f"the differences of {what} are not of shape {shape}")
    if (c.elements is None) != (c.bounds is None):
        _fail(f"the differences of {what} have no bounds")


def _broadcasts(shape: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Whether an array of `shape` can be repeated to the shape `out`."""
    ends = out[len(out) - len(shape) :]
    return len(shape) <= len(out) and all(n in (1, m) for n, m in zip(shape, ends, strict=True))


def _check_places(what: str, which: Any, numbers: Any, count: int, among: int) -> None:
    if which.shape != (count,) or numbers.shape != (count,) or which.dtype.kind not in "iu":
        _fail(f"the local derivative of {what} names {which.shape} places, not {count}")
    if count and not (which.min() >= 0 and which.max() < among):
        _fail(f"the local derivative of {what} names an element beyond {among}")


def _check_letters(what: str, trace: Trace, m: Message, letters: tuple[str, ...], out: str) -> None:
    """Each axis has a letter, and axes of one letter one size; of size 1 they are repeated."""
    node = trace.nodes[m.node]
    shapes = [*[trace.nodes[i].shape for i in node.inputs], node.shape]
    terms = [*letters, out]
    if len(letters) == len(node.inputs) and letters[m.place] != NO_FACTOR:
        factors = [k for k, term in enumerate(terms) if term != NO_FACTOR]
        shapes, terms = [shapes[k] for k in factors], [terms[k] for k in factors]
    if list(map(len, terms)) != list(map(len, shapes)):
        _fail(f"the letters of {what}, {','.join(letters)}->{out}, do not fit the axes {shapes}")
    sizes: dict[str, set[int]] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, n in zip(term, shape, strict=True):
            sizes.setdefault(letter, set()).add(n)
    if any(len(found - {1}) > 1 for found in sizes.values()):
        _fail(f"the letters of {what}, {','.join(letters)}->{out}, do not fit the sizes {shapes}")


def sums_differ(trace: Trace, sweep: Sweep) -> list[int]:
    """The nodes whose gradient is not, bit for bit, the sum of their contributions in order: where
    a hook changed it."""
    out: list[int] = []
    for i, total in gradient_sums(sweep.messages, sweep.seeds).items():
        g = sweep.gradients.get(i)
        if isinstance(g, np.ndarray) and not _same_bits(g, total):
            out.append(i)
    return out


def _same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same numbers, NaN for NaN."""
    numbers = a.dtype.kind in "fcV"
    equal = (a == b) | ((a != a) & (b != b)) if numbers else a == b
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.all(equal))
