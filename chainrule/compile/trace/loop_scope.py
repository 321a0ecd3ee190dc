"""What is around the body of a loop: the state before it, and which nodes are its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from chainrule.compile.trace.captured_state import Lift
from chainrule.compile.trace.tracer import Tracer
from chainrule.engine.node import Node
from chainrule.engine.op import Spec


@final
@dataclass(eq=False)
class Before:
    """How the state of a trace is at some moment: tensors, gradients, how many random draws."""

    nodes: list[Node]
    grads: list[tuple[Any, bool]]
    draws: int

    @classmethod
    def of(cls, tracer: Tracer, count: int | None = None) -> Before:
        """As it is now."""
        lifts = tracer.lifts[:count]
        return cls(
            [lift.tensor.node for lift in lifts],
            [(s.now, s.set) if (s := lift.grad) is not None else (None, False) for lift in lifts],
            len(tracer.draws),
        )

    def pairs(self, tracer: Tracer) -> list[tuple[Lift, Node]]:
        """What is lifted by now, and where each was in the graph: as it is lifted, if it was not
        yet."""
        olds = [*self.nodes, *[lift.leaf for lift in tracer.lifts[len(self.nodes) :]]]
        return list(zip(tracer.lifts, olds, strict=True))

    def back(self, tracer: Tracer) -> None:
        """Let everything be as it was then; what was lifted since, as when it was lifted."""
        for k, (lift, node) in enumerate(self.pairs(tracer)):
            known = k < len(self.nodes)
            lift.tensor.node = node
            lift.tensor.value = Spec(lift.tensor.value.shape, lift.tensor.value.dtype)
            if lift.grad is not None:
                now, was = self.grads[k] if known else (None, False)
                lift.grad.now, lift.grad.set = now, was
        del tracer.draws[self.draws :]


@final
class BodyScope:
    """What a body is made of: the nodes since `start`, but for the places where values come in.

    `keeping` those ops, too, that only stand there for the sake of derivatives.
    """

    def __init__(
        self, tracer: Tracer, start: int, places: set[Node], *, keeping: bool = False
    ) -> None:
        self._tracer = tracer
        self._start = start
        self.places = places
        self._passed = self._outer_node if keeping else tracer.passed
        self.inlined = False
        """Whether a Function of the user's was met, of which only the forward pass is left."""

    def _outer_node(self, node: Node) -> Node | None:
        inner = self._tracer.sources.get(node)
        self.inlined = self.inlined or (inner is not None and node.op is not None)
        return inner

    def consts(self, walk: Sequence[Node]) -> list[Node]:
        """The nodes of `walk` whose values come from outside, and are not known."""
        given = [n for n in walk if self.stops(n) and n not in self.places and n.y is None]
        return given + [n for n in walk if self.is_older(n) and n not in given]

    def is_older(self, node: Node) -> bool:
        """Whether an op outside the body computes it."""
        return node not in self.places and node.op is not None and node.serial < self._start

    def stops(self, node: Node) -> bool:
        """Whether a value comes from outside, or is known."""
        if node in self.places or node.serial < self._start:
            return True
        return node.op is None and node not in self._tracer.sources

    def origin(self, node: Node) -> Node:
        """The node whose value `node` has, as far as it is in the body."""
        while not self.stops(node) and (inner := self._passed(node)) is not None:
            node = inner
        return node
