"""What a traced run leaves for the program that is made of it: nodes and specs, no tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final
from weakref import ref

from chainrule.compile.trace.captured_state import GradSlot, Lift
from chainrule.compile.trace.guards.guards import Guards
from chainrule.engine.node import Node
from chainrule.tree import Structure


@final
@dataclass(eq=False)
class Outcome:
    """What a traced run left: nodes, and what its result looks like."""

    args: list[tuple[int, Node]] = field(default_factory=list["tuple[int, Node]"])
    """The traced leaves of the arguments: which, and the node of its placeholder."""
    truths: list[tuple[int, bool]] = field(default_factory=list["tuple[int, bool]"])
    changed: list[tuple[int, Node]] = field(default_factory=list["tuple[int, Node]"])
    """The leaves of the arguments that were given new values, and the nodes of those."""
    gs: list[tuple[int, Node]] = field(default_factory=list["tuple[int, Node]"])
    """The differentiable results, and the placeholders of their cotangents."""
    bars: dict[Node, Node] = field(default_factory=dict[Node, Node])
    """By the leaf of an argument or a state tensor, the node of its cotangent."""
    updates: dict[Node, Node] = field(default_factory=dict[Node, Node])
    """By the leaf of a state tensor, or its gradient, the node of its new value."""
    outs: list[Node] = field(default_factory=list[Node])
    results: list[Any] = field(default_factory=list[Any])
    """The leaves of the result, `TENSOR` or `NUMBER` in the places of those that are computed."""
    structure: Structure | None = None
    guards: Guards = field(default_factory=Guards)
    """What the function read beside tensors."""


TENSOR: Any = object()
NUMBER: Any = object()


@final
class State:
    """A lifted tensor, which only others keep alive now."""

    def __init__(self, lift: Lift) -> None:
        self.tensor = ref(lift.tensor)
        self.spec = lift.spec
        self.value = lift.value
        self.node = lift.node
        self.leaf = lift.leaf
        self.slot: GradSlot | None = lift.grad
