"""Records the graph of a `Value`, and the messages of its backward pass in the engine's order.

A Value keeps its graph, so nothing need be watched: the graph is read when a pass is over, before
the program changes its numbers. Messages are computed again from operands and local derivatives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np

from chainrule.errors import GradientError
from chainrule.ops.rows import rows
from chainrule.scalar import Value
from chainrule.scalar.rules import MARKS
from chainrule.traces.formulas import formula_of
from chainrule.traces.jacobians import rule_of
from chainrule.traces.trace import Factor, Message, Node, Sweep

_NAMES = {mark: label for label, mark in MARKS.items()}
"""By micrograd's word for an op, ours."""


@final
class ScalarRecorder:
    """The nodes below `root`, in an order in which operands come first."""

    def __init__(self, root: Value) -> None:
        self._root = root
        self._held: dict[int, Any] = {}
        self._operands: dict[int, tuple[Any, ...]] = {}
        self._order = self._sorted()
        self._number = {id(v): i for i, v in enumerate(self._order)}
        self._values = [_array(v.data) for v in self._order]
        self._recorded = self._sweep()

    def _sorted(self) -> list[Any]:
        """Operands before what is computed from them, in the order in which they are read."""
        out: list[Any] = []
        done: set[int] = set()
        stack: list[tuple[Any, bool]] = [(self._root, False)]
        while stack:
            v, ready = stack.pop()
            if id(v) in done:
                continue
            if ready:
                done.add(id(v))
                out.append(v)
                continue
            self._held[id(v)] = v
            stack.append((v, True))
            stack.extend([(x, False) for x in reversed(self._inputs(v))])
        return out

    def _inputs(self, v: Any) -> tuple[Any, ...]:
        """The operands of a Value; a plain number among them is a node of its own."""
        if not isinstance(v, Value):
            return ()
        if id(v) not in self._operands:
            xs = [x if isinstance(x, Value) else _Number(x) for x in v._operands]  # pyright: ignore[reportPrivateUsage]
            self._operands[id(v)] = tuple(xs)
        return self._operands[id(v)]

    def finish(self, names: Sequence[tuple[str, Any]]) -> tuple[tuple[Node, ...], Sweep]:
        """Nodes, and the sweep that gives the result a gradient of 1."""
        labels = {id(x): name for name, x in reversed(names) if isinstance(x, Value)}
        nodes = tuple([self._node(v, labels) for v in self._order])
        return nodes, self._recorded

    def _node(self, v: Any, labels: dict[int, str]) -> Node:
        inputs = tuple([self._number[id(x)] for x in self._inputs(v)])
        value = self._values[self._number[id(v)]]
        if isinstance(v, _Number):
            return Node("constant", "constant", (), "float64", (), value, repr(v.data))
        label = labels.get(id(v), "") or v.label
        if not inputs:
            return Node("input", "input", (), "float64", (), value, label)
        name = op_of(v)
        formula = formula_of(rows[name], len(inputs)) if name in rows else name
        return Node("op", name, inputs, "float64", (), value, label, formula=formula)

    def _sweep(self) -> Sweep:
        """As `walk.sweep`: a node sends when all that use it have sent to it."""
        waits = dict.fromkeys(self._number, 0)
        for v in self._order:
            for x in self._inputs(v):
                waits[id(x)] += 1
        gradients: dict[int, float] = {self._number[id(self._root)]: 1.0}
        messages: list[Message] = []
        ready = deque([self._root])
        while ready:
            v = ready.popleft()
            g = gradients[self._number[id(v)]]
            partials = _partials(v)
            for place, x in enumerate(self._inputs(v)):
                if isinstance(x, Value):
                    message = self._message(v, place, x, g, next(partials, None))
                    messages.append(message)
                    target = message.target
                    part = message.contribution
                    assert isinstance(part, np.ndarray)
                    gradients[target] = gradients.get(target, 0) + part.item()
                waits[id(x)] -= 1
                if waits[id(x)] == 0 and self._inputs(x):
                    ready.append(x)
        kept = {i: _array(g) for i, g in gradients.items()}
        return Sweep(self._number[id(self._root)], _array(1.0), tuple(messages), kept)

    def _message(self, v: Value, place: int, x: Value, g: float, partial: Any) -> Message:
        if not isinstance(partial, int | float):
            raise GradientError(
                "record: a node that was made by hand, with a _backward of its own, does not say "
                "its local derivatives: give them, as in Value(data, children, (d_a, d_b))"
            )
        d = float(partial)
        row = rows.get(op_of(v))
        strong = row is not None and any(p.singular for p in row.partials)
        rule = "" if row is None else rule_of(row.partials[place], len(row.partials))
        part = 0.0 if strong and g == 0 else g * d
        local = Factor(_array(d), rule, strong)
        return Message(self._number[id(v)], place, self._number[id(x)], local, _array(part))


def _partials(v: Value) -> Iterator[Any]:
    """The local derivative for each operand that is a Value."""
    known: Any = v._local_grads  # pyright: ignore[reportPrivateUsage]
    return iter(known)


@final
class _Number:
    """A plain number that met a Value."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data


def op_of(v: Value) -> str:
    """The name of the row of the op table that made `v`."""
    mark = v._op  # pyright: ignore[reportPrivateUsage]
    return _NAMES.get("**" if mark.startswith("**") else mark, mark)


def _array(x: float) -> Any:
    out = np.array(float(x))
    out.setflags(write=False)
    return out
