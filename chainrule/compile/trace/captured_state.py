"""What a trace remembers of a function's state: tensors, their gradients, Python numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from chainrule.engine.graph import placeholder
from chainrule.engine.node import Extra, Node
from chainrule.engine.op import Pick, Spec


@final
@dataclass(eq=False)
class Lift:
    """A tensor that the function reaches by itself: what it was before the trace began."""

    tensor: Any
    value: Any
    node: Node | None
    leaf: Node
    grad: GradSlot | None

    @property
    def spec(self) -> Spec:
        """Shape and dtype."""
        return Spec(self.value.shape, self.value.dtype)


@final
class GradSlot(Extra):
    """The gradient of a lifted tensor: a placeholder once it is read, and what it is set to.

    `first` is what it was; `was_read` whether that matters; `place` the node of the placeholder.
    """

    __slots__ = ("first", "now", "place", "set", "was_read")

    def __init__(self, old: Extra) -> None:
        self.first: Any = old.grad
        self.was_read = self.set = False
        self.now: Any = None
        self.place: Node | None = None
        self.retain, self.hooks, self.after = old.retain, old.hooks, old.after

    @property
    def grad(self) -> Any:  # type: ignore[override]
        """The gradient as it is at this point of the trace."""
        if not self.set and not self.was_read:
            self.was_read = True
            if self.first is not None:
                self.now = placeholder(self.first.shape, self.first.dtype)
                self.place = self.now.node
        return self.now

    @grad.setter
    def grad(self, new: Any) -> None:
        self.now, self.set = new, True


Place = tuple[Mapping[str, Any], str, int | None]
"""A dictionary, a key, and an item of a tuple or list that is there."""
Range = tuple[float, float]
NOWHERE: Range = math.inf, -math.inf
"""The range in which there are no numbers."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Where a setting of an optimizer is: `holder[key]`, or an item of that."""

    holder: Mapping[str, Any]
    key: str
    item: int | None

    def reader(self) -> Callable[[], float]:
        """What reads it. Short: every call does."""
        holder, key, item = self.holder, self.key, self.item
        return (lambda: holder[key]) if item is None else (lambda: holder[key][item])


@final
@dataclass(eq=False)
class Number:
    """A Python number that is read again at every call: a setting of an optimizer.

    `truth` is what `bool()` of it was, if the function asked: another answer needs another trace.
    `check` holds for all floats in the `range`.
    """

    entry: Entry
    check: Callable[[], None]
    node: Node
    range: Range
    truth: bool | None = None

    @property
    def name(self) -> str:
        """What readers call it."""
        key, item = self.entry.key, self.entry.item
        return key if item is None else f"{key} {item}"

    def asked(self) -> bool:
        """What `bool()` of it is, which is noted."""
        if self.truth is None:
            self.truth = bool(self.entry.reader()())
        return self.truth


def passed_on(node: Node) -> Node | None:
    """The node whose value an op that only stands there passes on, None if it is none."""
    op, index = node.op, 0
    if isinstance(op, Pick) and node.inputs[0] is not None:
        node, index = node.inputs[0], op.index
        op = node.op
        if op is None or not op.many:
            return None
    if op is None or not op.passes or not isinstance(node.xs[index], Spec | Node):
        return None
    return node.inputs[index]
