"""Traces of graphs that exist already: of a tensor, and of a scalar of any engine.

A tensor's graph keeps only the values that a rule reads. The others are known if the user named
their tensors, or computed again from known ones. Gradients are those that `backward` left; where
it has not run, they are computed, and nothing is stored.

A scalar is anything with `data`, `grad` and `_children` or `_prev`: chainrule's `Value`, and the
classes of micrograd and microgpt, which are read, not imported. `_operands`, where there are such,
also name the numbers that an op was applied to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from chainrule.engine.derive import pullback_nodes
from chainrule.engine.graph import order, recording
from chainrule.engine.node import Freed, Variable
from chainrule.engine.node import Node as GraphNode
from chainrule.engine.op import Spec
from chainrule.engine.source_text import short_line
from chainrule.engine.tensors import Tensor
from chainrule.traces.kept_values import Keeper, is_array
from chainrule.traces.names import Pairs
from chainrule.traces.tensors import TensorRecorder, plain
from chainrule.traces.trace import Kind, Node, Sweep, Trace


@final
class GraphTrace:
    """A trace of all that `root` depends on, `result` its number, and the numbers of what a user
    holds."""

    def __init__(self, trace: Trace, result: int, numbers: Mapping[Any, int]) -> None:
        self.trace, self.result = trace, result
        self._numbers = numbers

    def number(self, x: Any) -> int | None:
        """The node of a tensor or a scalar; None if it is not in the graph."""
        return self._numbers.get(_key(x))


def _key(x: Any) -> Any:
    return (x.node or id(x)) if isinstance(x, Variable) else id(x)


# --- Tensors -------------------------------------------------------------------------------------


def trace_of_tensor(root: Tensor, named: Pairs, *, others: Sequence[Any], left: bool) -> GraphTrace:
    """The graph of `root`, with these names; values of `others` are known as well.

    With `left`, gradients that `backward` left are shown, if there are any.
    """
    keeper, node = Keeper(), root.node
    recorder = TensorRecorder(keeper)
    tensors = [root, *[x for _, x in named], *others]
    values: dict[GraphNode, Any] = {}
    walk: Sequence[GraphNode] = ()
    if node is None:
        result = recorder.number_of(root)
    else:
        walk = order([node]) if node.needs else [node]
        values = _values(walk, tensors)
        result = recorder.adopt(node, values)
    recorder.name(named)
    nodes, _ = recorder.finish()
    gradients = _gradients(root, walk, left)
    kept = {recorder.number_of_node(n): keeper.keep(plain(g)) for n, g in gradients.items()}
    found = {i: g for i, g in kept.items() if i is not None}
    sweeps = (Sweep(result, found.get(result), (), found),) if found else ()
    numbers = {_key(x): i[-1] for x in tensors if (i := recorder.numbers_of(x))}
    return GraphTrace(Trace("graph", nodes, sweeps, {}), result, numbers)


def _values(walk: Sequence[GraphNode], tensors: Sequence[Any]) -> dict[GraphNode, Any]:
    """By node: what the user holds, what the graph kept, and what can be computed of both."""
    values: dict[GraphNode, Any] = {}
    for x in tensors:
        if isinstance(x, Variable) and x.node is not None and is_array(x.value):
            values[x.node] = x.value
    for node in walk:
        if is_array(node.y):
            values[node] = node.y
        xs: Sequence[Any] = () if isinstance(node.xs, Freed) else node.xs
        for n, x in zip(node.inputs, xs, strict=False):
            if n is not None and is_array(x):
                values[n] = x
    for node in reversed(walk):
        if node not in values and node.op is not None and not node.op.many:
            _compute(node, values)
    return values


def _compute(node: GraphNode, values: dict[GraphNode, Any]) -> None:
    """The value of a node whose inputs are all known."""
    kept: Sequence[Any] = (None,) * len(node.inputs) if isinstance(node.xs, Freed) else node.xs
    xs = [plain(x) if n is None else values.get(n) for n, x in zip(node.inputs, kept, strict=True)]
    if node.op is not None and all(x is not None and not isinstance(x, Spec) for x in xs):
        with recording(False), np.errstate(all="ignore"):
            values[node] = np.asarray(node.op.eval(*xs))


def _gradients(root: Tensor, walk: Sequence[GraphNode], left: bool) -> Mapping[GraphNode, Any]:
    """By node: what backward left if it ran, otherwise what it would bring."""
    found = {
        n: n.extra.grad.value for n in walk if n.extra is not None and n.extra.grad is not None
    }
    freed = any(isinstance(n.xs, Freed) for n in walk)
    if (found and left) or freed or not walk or not walk[0].needs or isinstance(root.value, Spec):
        return found
    seed = np.ones(root.shape, root.dtype)
    got = pullback_nodes(walk, {walk[0]: seed}, set(walk), record=False, free=False)
    return {n: g for n, g in got.items() if g.__class__ is not tuple}  # its outputs have their own


# --- Scalars -------------------------------------------------------------------------------------


def is_scalar(x: Any) -> bool:
    """Whether `x` has the attributes of a scalar in a graph."""
    named = _first(x, "data") is not None and _first(x, "_children", "_prev") is not None
    return named and type(x).__module__ != "builtins"


def trace_of_scalar(root: Any, named: Pairs) -> GraphTrace:
    """The graph of a scalar, with these names; gradients are those that its backward pass left."""
    labels = {id(x): name for name, x in reversed(named)}
    below = _operands_below(root)
    numbers = {id(x): i for i, (x, _) in enumerate(below)}
    nodes = [
        _scalar_node(x, tuple([numbers[id(a)] for a in xs]), labels.get(id(x), ""))
        for x, xs in below
    ]
    found = {i: _first(x, "grad") for i, (x, _) in enumerate(below) if not isinstance(x, _Number)}
    gradients = {i: np.asarray(float(g)) for i, g in found.items() if g is not None}
    result = numbers[id(root)]
    sweeps = (Sweep(result, gradients.get(result), (), gradients),) if gradients else ()
    return GraphTrace(Trace("graph", tuple(nodes), sweeps, {}), result, numbers)


@final
class _Number:
    """A number that a scalar met."""

    def __init__(self, data: Any) -> None:
        self.data = data


def _operands_below(root: Any) -> list[tuple[Any, Sequence[Any]]]:
    """Each scalar, and each number that one met, with its operands, which come before it."""
    operands: dict[int, tuple[Any, Sequence[Any]]] = {}
    order: dict[int, None] = {}
    stack = [root]
    while stack:
        x = stack[-1]
        if id(x) in operands:
            stack.pop()
            order.setdefault(id(x))
            continue
        found: Sequence[Any] = _first(x, "_operands", "_children", "_prev") or ()
        xs = [a if is_scalar(a) else _Number(a) for a in found]
        operands[id(x)] = x, xs  # with x, so that its id stays its own
        stack += [a for a in reversed(xs) if id(a) not in operands]
    return [operands[i] for i in order]


def _scalar_node(x: Any, inputs: tuple[int, ...], label: str) -> Node:
    value = np.asarray(x.data)
    if isinstance(x, _Number):
        return Node("constant", "constant", (), str(value.dtype), (), value, repr(x.data))
    op = str(_first(x, "_op") or "op") if inputs else "input"
    label = label or str(_first(x, "label") or "")
    line = short_line(str(_first(x, "where", "_where") or ""))
    kind: Kind = "op" if inputs else "input"
    return Node(kind, op, inputs, str(value.dtype), (), value, label, line)


def _first(x: Any, *names: str) -> Any:
    """The first of these attributes that `x` has, None if it has none of them."""
    for name in names:
        got = getattr(x, name, None)
        if got is not None:
            return got
    return None
