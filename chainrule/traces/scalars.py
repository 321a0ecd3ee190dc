"""Records the graph of a `Value`, and the messages of its backward pass in the engine's order.

A Value keeps its graph, so nothing need be watched: the graph is read when a pass is over, before
the program changes its numbers. Messages are computed again from operands and local derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from chainrule.engine.op import Op
from chainrule.errors import GradientError
from chainrule.ops import families
from chainrule.ops.rows import rows
from chainrule.scalar import Value
from chainrule.scalar.rules import MARKS
from chainrule.traces.local_derivatives.formulas import formula_of
from chainrule.traces.local_derivatives.jacobians import rule_of
from chainrule.traces.trace import Array, Factor, Message, Node, Sweep
from chainrule.traces.values import Edge, Key, Number, SumPosition, ValueGraph

_NAMES = {mark: label for label, mark in MARKS.items()}
"""By micrograd's word for an op, ours."""


@final
class ScalarRecorder:
    """The nodes below `root`, and the sweep that gives it a gradient of 1."""

    def __init__(self, root: Value) -> None:
        self._graph = ValueGraph(root)
        self._order = self._graph.order()
        self._number = {key: i for i, key in enumerate(self._order)}
        self._values = [_array(self._graph.data(key)) for key in self._order]
        self._sweep = self._swept()

    def finish(self, names: Sequence[tuple[str, Any]]) -> tuple[tuple[Node, ...], Sweep]:
        """Nodes, with the names of these Values, and the sweep."""
        labels: dict[Key, str] = {}
        for name, x in reversed(names):
            if isinstance(x, Value):
                labels[self._graph.key(x)] = labels[self._graph.label_key(x)] = name
        return tuple([self._node(key, labels) for key in self._order]), self._sweep

    @property
    def ops(self) -> list[Op | None]:
        """The op of each node, where the op table has it."""
        ops: Mapping[str, Any] = families.rows
        return [ops.get(self._op(k)) if self._graph.inputs(k) else None for k in self._order]

    def _node(self, key: Key, labels: Mapping[Key, str]) -> Node:
        inputs = tuple([self._number[x] for x in self._graph.inputs(key)])
        value, v = self._values[self._number[key]], self._graph.value(key)
        if isinstance(v, Number):
            return Node("constant", "constant", (), "float64", (), value, repr(v.data))
        label = labels.get(key, "") or ("" if v is None else v.label)
        if not inputs:
            return Node("input", "input", (), "float64", (), value, label)
        name = self._op(key)
        formula = formula_of(rows[name], len(inputs)) if name in rows else name
        return Node("op", name, inputs, "float64", (), value, label, formula=formula)

    def _op(self, key: Key) -> str:
        if isinstance(key, SumPosition):
            return "mul" if key.inline else "add"
        return op_of(self._graph.value(key))

    def _swept(self) -> Sweep:
        root = self._number[self._graph.root]
        gradients: dict[int, float] = {root: 1.0}
        messages: list[Message] = []
        for edge in self._graph.edges():
            messages.append(message := self._message(edge, gradients))
            part: Any = message.contribution
            gradients[message.target] = gradients.get(message.target, 0) + part.item()
        kept = {i: _array(g) for i, g in gradients.items()}
        return Sweep(root, _array(1.0), tuple(messages), kept)

    def _message(self, edge: Edge, gradients: Mapping[int, float]) -> Message:
        if not isinstance(edge.partial, int | float):
            raise GradientError(
                "record: a node that was made by hand, with a _backward of its own, does not say "
                "its local derivatives: give them, as in Value(data, children, (d_a, d_b))"
            )
        d, sender = float(edge.partial), self._number[edge.source]
        row = rows.get(self._op(edge.source))
        strong = row is not None and any(p.singular for p in row.partials)
        rule = "" if row is None else rule_of(row.partials[edge.input_index], len(row.partials))
        g = gradients[sender]
        part = 0.0 if strong and g == 0 else g * d
        local = Factor(_array(d), rule, strong)
        return Message(sender, edge.input_index, self._number[edge.target], local, _array(part))


def op_of(v: Value) -> str:
    """The name of the row of the op table that made `v`."""
    mark = v._op  # pyright: ignore[reportPrivateUsage]
    return _NAMES.get("**" if mark.startswith("**") else mark, mark)


def _array(x: float) -> Array:
    out = np.array(float(x))
    out.setflags(write=False)
    return out
