"""Node: what an op that was computed leaves behind. Variable: what a user holds.

A node holds the op, the nodes of its inputs, and just those values that the op's rules read. A
variable (in practice its only subclass, `tensor.Tensor`) holds a value and the node that made it.
So a value that nobody holds and no rule reads is freed at once. And a variable can get a new value
without changing the graphs that were built from its old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from chainrule.engine.op import Need, Op
from chainrule.engine.provenance import line_of, location, user_line


class Node:
    """One op of a graph that was computed, and what its rules need to differentiate it.

    `inputs[i]` is the node of input i, None if it has none; `need[i]` says whether a gradient flows
    to it. `y` and `xs` are the values of output and inputs if a rule reads them; otherwise `y` is
    None, an x what tells its shape. A node without an op is a leaf. Shape and dtype of an op with
    several outputs are tuples.
    """

    __slots__ = (
        "__weakref__", "at", "code", "dtype", "extra", "inputs", "need", "needs", "op", "serial",
        "shape", "xs", "y",
    )  # fmt: skip

    op: Op | None
    inputs: Sequence[Node | None]
    y: Any
    xs: Any
    need: Need
    needs: bool
    serial: int
    shape: Any
    dtype: Any
    code: CodeType
    at: int
    extra: Extra | None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """The op's name, `leaf` for a leaf."""
        return "leaf" if self.op is None else self.op.name

    @property
    def where(self) -> str:
        """`file:line` of the user's line that made this node."""
        return location(self.code, self.at)

    @property
    def line(self) -> int:
        """Number of the user's line that made this node."""
        return line_of(self.code, self.at)

    def __repr__(self) -> str:
        return f"<{self.name} {self.dtype} {self.shape} at {self.where}>"


class Extra:
    """What only some nodes have: an accumulated gradient, a wish to have one, hooks.

    `after` are hooks that are called when `grad` has been added to.
    """

    __slots__ = ("after", "grad", "hooks", "retain")

    def __init__(self, *, retain: bool) -> None:
        self.grad: Any = None
        self.retain = retain
        self.hooks: dict[int, Callable[[Any], Any]] = {}
        self.after: dict[int, Callable[[], Any]] = {}


class Freed:
    """Stands in `Node.xs` once a backward pass has used the values and let them go."""

    __slots__ = ("at", "code")

    def __init__(self, depth: int = 2) -> None:
        """`depth`: see `user_line`."""
        self.code, self.at = user_line(depth)

    @property
    def where(self) -> str:
        """`file:line` of the backward pass."""
        return location(self.code, self.at)


class Variable:
    """A value and the node that made it (None: nothing to differentiate)."""

    __slots__ = ("__weakref__", "node", "value")

    value: Any
    node: Node | None
