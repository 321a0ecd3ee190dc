"""Records programs of tensors: every op that is applied, every message of every backward sweep.

The recorder stands at the door (`graph.interposed`) for ops, and watches rules (`watch.Watch`).
Composites run op by op while it does. Values are copied as they are made, so that what an optimizer
does to its parameters afterwards changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, final

import numpy as np

from chainrule.explain.modules import owners
from chainrule.graph import around, interposed
from chainrule.node import Node as GraphNode
from chainrule.node import Variable
from chainrule.op import Op, Pick
from chainrule.provenance import line_of as number_of_line
from chainrule.provenance import location, user_line
from chainrule.source_text import short_line, source_line
from chainrule.traces.formulas import formula_of
from chainrule.traces.jacobians import local_of
from chainrule.traces.keeping import Keeper
from chainrule.traces.trace import Kind, Message, Node, Sweep
from chainrule.watch import Watch, watching


@final
@dataclass(slots=True)
class _Event:
    """A node in the making: the op, and its inputs and output as they were."""

    kind: Kind
    op: Op | None
    inputs: tuple[int, ...]
    value: Any
    """The output; None where there is none of its own."""
    kept: Any
    place: tuple[CodeType, int] | None = None
    node: GraphNode | None = None
    label: str = ""
    spelled: str = ""


@final
@dataclass(slots=True)
class _Pass:
    """A backward sweep in the making."""

    walk: set[GraphNode]
    roots: Mapping[GraphNode, Any]
    sent: list[tuple[int, int, GraphNode, Any]] = field(default_factory=list)
    """Sender, place, target, contribution."""
    gradients: dict[int, Any] = field(default_factory=dict)


@final
class TensorRecorder:
    """Records while it is `running`; `finish` gives nodes and sweeps."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._events: list[_Event] = []
        self._of_node: dict[GraphNode, int] = {}
        self._of_array: dict[int, int] = {}
        self._held: list[Any] = []  # so that ids stay theirs
        self._passes: list[_Pass] = []

    @contextmanager
    def running(self) -> Generator[None]:
        """Within it, ops and rules are recorded."""
        with interposed(self._apply), watching(Watch(began=self._began, pulled=self._pulled)):
            yield

    # --- forward

    def _apply(self, op: Op, xs: Sequence[Any]) -> Any:
        y = op(*xs)
        if any(isinstance(x, Variable) for x in xs):
            self._note(op, xs, y)
        return y

    def _note(self, op: Op, xs: Sequence[Any], y: Any) -> None:
        place = user_line()
        inputs = tuple([self._input(x) for x in xs])
        if not isinstance(y, tuple):
            self._add(_Event("op", op, inputs, *self._both(_plain(y)), place), y)
            return
        parent = self._add(_Event("op", op, inputs, None, None, place), None)
        for i, part in enumerate(y):
            node = part.node if isinstance(part, Variable) else None
            if node is not None and node.inputs and node.inputs[0] is not None:
                self._of_node[node.inputs[0]] = parent
                self._events[parent].node = node.inputs[0]
            self._add(_Event("op", Pick(i), (parent,), *self._both(_plain(part)), place), part)

    def _both(self, value: Any) -> tuple[Any, Any]:
        return value, self._keeper.keep(value)

    def _add(self, event: _Event, x: Any) -> int:
        number = len(self._events)
        self._events.append(event)
        if isinstance(x, Variable) and x.node is not None:
            event.node = x.node
            self._of_node[x.node] = number
        if (value := event.value) is not None and isinstance(value, np.ndarray):
            self._of_array[id(value)] = number
            self._held.append(value)
        return number

    def _input(self, x: Any) -> int:
        """The number of an input, which is a new node if it was not seen yet."""
        node = x.node if isinstance(x, Variable) else None
        if node is not None and node in self._of_node:
            return self._of_node[node]
        value = _plain(x)
        if node is None and id(value) in self._of_array and isinstance(value, np.ndarray):
            return self._of_array[id(value)]
        kind: Kind = "input" if node is not None and node.needs else "constant"
        place = (node.code, node.at) if node is not None else None
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        event = _Event(kind, None, (), array if array is value else None, None, place)
        event.kept = self._keeper.keep(array)
        if array is not value:
            event.spelled = repr(value)
        return self._add(event, x)

    # --- backward

    def _began(self, walk: Sequence[GraphNode], seeds: Mapping[GraphNode, Any]) -> None:
        self._passes.append(_Pass(set(walk), dict(seeds)))

    def _pulled(self, node: GraphNode, g: Any, bars: Sequence[Any], alarm: bool) -> None:
        sender = self._of_node.get(node)
        current = next((p for p in reversed(self._passes) if node in p.walk), None)
        if sender is None or current is None:
            return
        current.gradients[sender] = self._keeper.keep(_gradient(g, node))
        for place, (target, bar) in enumerate(zip(node.inputs, bars, strict=True)):
            if bar is not None and target is not None:
                current.sent.append((sender, place, target, _gradient(bar, target)))

    # --- the result

    @property
    def has_passes(self) -> bool:
        """Whether a backward sweep ran."""
        return bool(self._passes)

    def lines(self) -> dict[str, str]:
        """The texts of the program's lines, by `file:line`."""
        places = {line_of(e.place): e.place for e in self._events if e.place is not None}
        return {
            line: source_line(code.co_filename, number_of_line(code, at)).strip()
            for line, (code, at) in places.items()
        }

    def name(self, pairs: Sequence[tuple[str, Any]], kind: Kind | None = None) -> None:
        """Label the nodes of these tensors and arrays, and say of what kind their leaves are."""
        for label, x in pairs:
            number = self.number_of(x)
            if number is None or (event := self._events[number]).label:
                continue
            event.label = label
            if kind is not None and event.op is None:
                event.kind = kind

    def number_of(self, x: Any) -> int | None:
        """The node of a tensor or an array, None if it has none."""
        if isinstance(x, Variable) and x.node is not None:
            return self._of_node.get(x.node)
        return self._of_array.get(id(_plain(x)))

    def finish(self) -> tuple[tuple[Node, ...], tuple[Sweep, ...]]:
        """All that was recorded."""
        with _unobserved():
            sweeps = [self._sweep(p) for p in self._passes]
        return self._nodes(), tuple([s for s in sweeps if s is not None])

    def _nodes(self) -> tuple[Node, ...]:
        known = {e.node: i for i, e in enumerate(self._events) if e.node is not None and e.op}
        modules = owners(list(known))
        out: list[Node] = []
        for e in self._events:
            out.append(
                Node(
                    e.kind,
                    e.op.name if e.op is not None else e.kind,
                    e.inputs,
                    "" if e.kept is None else str(e.kept.dtype),
                    () if e.kept is None else tuple(e.kept.shape),
                    e.kept,
                    e.label or e.spelled,
                    line_of(e.place),
                    modules.get(e.node, "") if e.node is not None else "",
                    "" if e.op is None else formula_of(e.op, len(e.inputs)),
                )
            )
        return tuple(out)

    def _sweep(self, done: _Pass) -> Sweep | None:
        roots = [(self._of_node[n], g) for n, g in done.roots.items() if n in self._of_node]
        if not roots:
            return None
        messages: list[Message] = []
        sums: dict[int, Any] = {}
        for sender, place, node, bar in done.sent:
            target = self._of_node.get(node)
            if target is None:
                continue
            e = self._events[sender]
            local = self._local(e, place)
            messages.append(Message(sender, place, target, local, self._keeper.keep(bar)))
            if not isinstance(bar, tuple):
                sums[target] = bar if target not in sums else sums[target] + bar
        gradients = {i: self._keeper.keep(total) for i, total in sums.items()}
        gradients |= done.gradients
        root, seed = roots[-1]
        return Sweep(root, self._keeper.keep(_plain(seed)), tuple(messages), gradients)

    def _local(self, e: _Event, place: int) -> Any:
        assert e.op is not None
        xs = [self._as_it_was(i) for i in e.inputs]
        many = e.value is None
        y = () if many else e.kept if isinstance(e.kept, np.ndarray) else e.value
        return local_of(e.op, place, xs, y, self._keeper)

    def _as_it_was(self, number: int) -> Any:
        """The value of a node: the copy, or for large arrays the array itself."""
        e = self._events[number]
        if e.spelled:
            return e.kept.item()
        return e.kept if isinstance(e.kept, np.ndarray) else e.value


def line_of(place: tuple[CodeType, int] | None) -> str:
    """A place as `file:line`, without folders."""
    return short_line(location(*place)) if place is not None else ""


def _plain(x: Any) -> Any:
    return x.value if isinstance(x, Variable) else x


def _gradient(g: Any, node: GraphNode) -> Any:
    """A cotangent as users see it: of the node's dtype, and not conjugated."""
    value = _plain(g)
    if isinstance(value, tuple):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "c":
        array = np.conjugate(array)
    return array if array.dtype == node.dtype else array.astype(node.dtype)


@contextmanager
def _unobserved() -> Generator[None]:
    """Within it, ops go to nobody else."""
    token = around.set(None)
    try:
        yield
    finally:
        around.reset(token)


def label_by_lines(nodes: Sequence[Node], target_of: Callable[[str], str]) -> tuple[Node, ...]:
    """Name the last node of each run of a line that assigns to a name, if it has no name yet."""
    out = list(nodes)
    ops = [i for i, node in enumerate(out) if node.kind == "op"]
    for i, after in zip(ops, [*ops[1:], None], strict=True):
        node = out[i]
        last = after is None or out[after].line != node.line
        if last and not node.label and (name := target_of(node.line)):
            out[i] = replace(node, label=name)
    return tuple(out)
