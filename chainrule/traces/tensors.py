"""Records programs of tensors: every op that is applied is an event, every value a copy.

The recorder stands at the door (`graph.intercept_ops`) for ops, and `sweeps` watches the rules.
Composites run op by op while it does. Values are copied as they are made, so that what an optimizer
does to its parameters afterwards changes nothing here: a parameter that has changed is a new node.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, final

import numpy as np

from chainrule.engine.graph import intercept_ops
from chainrule.engine.node import Freed, Variable
from chainrule.engine.node import Node as GraphNode
from chainrule.engine.op import Op, Pick, Spec
from chainrule.engine.provenance import line_of as number_of_line
from chainrule.engine.provenance import location, user_line
from chainrule.engine.source_text import short_line, source_line
from chainrule.explain.modules import owners
from chainrule.nn.base.hooks import watching
from chainrule.traces.kept_values import Keeper, is_array, is_unchanged
from chainrule.traces.local_derivatives.formulas import formula_of
from chainrule.traces.modules import RunningModules
from chainrule.traces.sweeps import SweepRecorder
from chainrule.traces.trace import Kept, Kind, Node, Sweep

SourceLine = tuple[CodeType, int]


@final
@dataclass(slots=True)
class Event:
    """A node in the making: the op, its inputs, and the copy of its output."""

    kind: Kind
    op: Op | None
    inputs: tuple[int, ...]
    kept: Kept
    dtype: str = ""
    shape: tuple[int, ...] = ()
    source: SourceLine | None = None
    node: GraphNode | None = None
    label: str = ""
    spelled: str = ""
    """A number of the program, as it would be written there."""
    module: str | None = None
    """The module that ran; None for what ran before, of which it is found out at the end."""


@final
class TensorRecorder:
    """Records while it is `running`; `finish` gives nodes and sweeps."""

    def __init__(self, keeper: Keeper) -> None:
        self.events: list[Event] = []
        self._keeper = keeper
        self._thread = threading.get_ident()
        self._of_node: dict[GraphNode, list[int]] = {}
        self._of_array: dict[int, list[int]] = {}
        self._held: list[Any] = []  # so that ids stay theirs
        self._runs = False
        self._modules = RunningModules()
        self._sweeps = SweepRecorder(self, keeper)

    @contextmanager
    def running(self) -> Generator[None]:
        """Within it, ops and rules are recorded."""
        with intercept_ops(self._apply), self._sweeps.running(), watching(self._modules.during):
            self._runs = True
            try:
                yield
            finally:
                self._runs = False

    # --- forward

    def _apply(self, op: Op, xs: Sequence[Any]) -> Any:
        y = op(*xs)
        seen = self._runs and self._sweeps.is_open and threading.get_ident() == self._thread
        if seen and _has_values(xs) and any(isinstance(x, Variable) for x in xs):
            self._note(op, xs, y)
        return y

    def _note(self, op: Op, xs: Sequence[Any], y: Any) -> None:
        """Record an op that was applied; of several outputs each is an event of its own."""
        place = user_line()
        inputs = tuple([self.number_of(x) for x in xs])
        if type(y) is not tuple:
            self._add(self._event("op", op, inputs, plain(y), place), y)
            return
        module = self._modules.innermost
        parent = self._add(Event("op", op, inputs, None, source=place, module=module), None)
        parts: Any = tuple(y)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        for i, part in enumerate(parts):
            self._add(self._event("op", Pick(i), (parent,), plain(part), place), part)
            node = part.node if isinstance(part, Variable) else None
            if node is not None and (above := node.inputs[0]) is not None:
                self.events[parent].node = above
                self._of_node[above] = [parent]

    def _event(
        self,
        kind: Kind,
        op: Op | None,
        inputs: tuple[int, ...],
        value: Any,
        place: SourceLine | None,
    ) -> Event:
        array = np.asarray(value)
        kept, module = self._keeper.keep(array), self._modules.innermost
        return Event(kind, op, inputs, kept, str(array.dtype), array.shape, place, module=module)

    def _add(self, event: Event, x: Any) -> int:
        """Number an event, whose output is `x`."""
        number = len(self.events)
        self.events.append(event)
        if isinstance(x, Variable) and x.node is not None:
            event.node = x.node
            self._of_node.setdefault(x.node, []).append(number)
        value: Any = plain(x)
        if is_array(value):
            self._of_array.setdefault(id(value), []).append(number)
            self._held.append(value)
        return number

    def number_of(self, x: Any) -> int:
        """The number of an input, which is a new node if it was not seen yet, or has changed."""
        node = x.node if isinstance(x, Variable) else None
        value = plain(x)
        known = self.numbers_of(x)
        if known and self._is_current(known[-1], value):
            return known[-1]
        if node is not None and node.op is not None and not known:
            return self.adopt(node, {node: value})
        kind: Kind = "input" if node is not None and node.needs else "constant"
        event = self._event(kind, None, (), value, (node.code, node.at) if node else None)
        if not is_array(value):
            event.spelled = repr(value)
        return self._add(event, x)

    def _is_current(self, number: int, value: Any) -> bool:
        e = self.events[number]
        return e.op is not None or not is_array(value) or is_unchanged(e.kept, value)

    # --- what ran before, or behind the door

    def adopt(self, node: GraphNode, known: Mapping[GraphNode, Any] | None = None) -> int:
        """The number of a node of a graph that was not recorded; its own inputs come before it.

        Values are those that are `known`, or what the graph kept.
        """
        values = dict(known or {})
        stack = [node]
        while stack:
            top = stack[-1]
            inputs = [n for n in top.inputs if n is not None and n not in self._of_node]
            if inputs and top not in self._of_node:
                values |= _kept_inputs(top, values)
                stack += inputs
                continue
            stack.pop()
            if top not in self._of_node:
                self._add_adopted(top, values.get(top))
        return self._of_node[node][-1]

    def _add_adopted(self, node: GraphNode, value: Any) -> None:
        xs: Sequence[Any] = () if isinstance(node.xs, Freed) else node.xs
        inputs = [
            self._of_node[n][-1] if n is not None else self.number_of(xs[i] if xs else None)
            for i, n in enumerate(node.inputs)
        ]
        known = value if is_array(value) else node.y
        kept = self._keeper.keep(known) if is_array(known) else None
        kind: Kind = "op" if node.op is not None else "input" if node.needs else "constant"
        event = Event(kind, node.op, tuple(inputs), kept, source=(node.code, node.at), node=node)
        if not isinstance(node.dtype, tuple):
            event.dtype, event.shape = str(node.dtype), tuple(node.shape)
        self._of_node[node] = [len(self.events)]
        self.events.append(event)

    # --- the result

    @property
    def has_passes(self) -> bool:
        """Whether a backward sweep ran."""
        return self._sweeps.has_passes

    def lines(self) -> dict[str, str]:
        """The texts of the program's lines, by `file:line`."""
        places = {line_of(e.source): e.source for e in self.events if e.source is not None}
        return {
            line: source_line(code.co_filename, number_of_line(code, at)).strip()
            for line, (code, at) in places.items()
        }

    def name(self, pairs: Sequence[tuple[str, Any]], kind: Kind | None = None) -> None:
        """Label the nodes of these tensors and arrays, and say of what kind their leaves are."""
        for label, x in pairs:
            for number in self.numbers_of(x):
                event = self.events[number]
                if not event.label:
                    event.label = label
                    event.kind = event.kind if kind is None or event.op is not None else kind

    def numbers_of(self, x: Any) -> Sequence[int]:
        """The nodes of a tensor or an array: several, where it has changed between its uses."""
        if isinstance(x, Variable) and x.node is not None:
            return self._of_node.get(x.node, ())
        value: Any = plain(x)
        return self._of_array.get(id(value), ()) if is_array(value) else ()

    def number_of_node(self, node: GraphNode) -> int | None:
        """The latest event of a node of the graph, None if it was not recorded."""
        known = self._of_node.get(node)
        return known[-1] if known else None

    @property
    def ops(self) -> list[Op | None]:
        """The op of each node."""
        return [e.op for e in self.events]

    def finish(self) -> tuple[tuple[Node, ...], tuple[Sweep, ...]]:
        """All that was recorded."""
        return tuple(self._nodes()), self._sweeps.finish()

    def _nodes(self) -> Iterator[Node]:
        """The nodes of the trace, with the modules that their ops ran in."""
        before = [e.node for e in self.events if e.node is not None and e.op and e.module is None]
        modules = owners(before) if before else {}
        for e in self.events:
            yield Node(
                e.kind,
                e.op.name if e.op is not None else e.kind,
                e.inputs,
                e.dtype,
                e.shape,
                e.kept,
                e.label or e.spelled,
                line_of(e.source),
                (modules.get(e.node, "") if e.node is not None else "")
                if e.module is None
                else e.module,
                "" if e.op is None else formula_of(e.op, len(e.inputs)),
            )


def line_of(place: SourceLine | None) -> str:
    """A place as `file:line`, without folders."""
    return short_line(location(*place)) if place is not None else ""


def plain(x: Any) -> Any:
    """The value of a variable; anything else as it is."""
    return x.value if isinstance(x, Variable) else x


def _has_values(xs: Sequence[Any]) -> bool:
    """Whether none is a placeholder, of a function that is being traced."""
    return not any(isinstance(plain(x), Spec) for x in xs)


def _kept_inputs(node: GraphNode, values: dict[GraphNode, Any]) -> dict[GraphNode, Any]:
    """The values of its inputs that `node` keeps, where `values` does not know them yet."""
    xs: Sequence[Any] = () if isinstance(node.xs, Freed) else node.xs
    pairs = [(n, x) for n, x in zip(node.inputs, xs, strict=False) if n is not None]
    return {n: x for n, x in pairs if is_array(x) and values.get(n) is None}


def label_by_lines(nodes: Sequence[Node], target_of: Callable[[str], str]) -> tuple[Node, ...]:
    """Name the last node of each run of a line that assigns to a name, if it has no name yet."""
    out = list(nodes)
    ops = [i for i, node in enumerate(out) if node.kind == "op"]
    for i, after in zip(ops, [*ops[1:], None], strict=False):
        node = out[i]
        last = after is None or out[after].line != node.line
        if last and not node.label and (name := target_of(node.line)):
            out[i] = replace(node, label=name)
    return tuple(out)
