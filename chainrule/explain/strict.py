"""Strict mode: accidents that are legal, each an error with both lines.

* Two arrays broadcast against each other because one of them lacks an axis: (N, 1) with (N,).
* A gradient that was not reset is added to, although the parameter has changed since.

And NumPy's refusal to write to a tensor's array says who keeps that.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from chainrule.engine.node import Node, Variable
from chainrule.engine.op import Op
from chainrule.engine.provenance import location, user_line
from chainrule.engine.watch import Watch, watching
from chainrule.errors import GradientError, ShapeError
from chainrule.explain.read_only_arrays import note_keepers
from chainrule.explain.words import quote
from chainrule.ops.families import Elementwise


@contextmanager
def strict() -> Generator[None]:
    """Within it, what is legal but nearly always an accident raises.

    `ShapeError`: an elementwise op broadcasts both of its arguments, one of which has fewer axes:
    (N, 1) with (N,) gives (N, N). Written with all axes, (N, 1) with (1, N), it is allowed.
    `GradientError`: `backward` of a new graph adds to a gradient from before the parameter's values
    were changed, so `zero_grad` was forgotten. Accumulating over micro-batches is allowed.
    NumPy's `ValueError` for a write to a tensor's array gets a note: who keeps it (`who_keeps`).

    >>> import chainrule as cr
    >>> with cr.strict():
    ...     cr.ones((3, 1)) - cr.ones(3)
    Traceback (most recent call last):
        ...
    chainrule.errors.ShapeError: strict: 'sub' of shapes (3, 1) and (3,) gives (3, 3): ...
    """
    resets = _Resets()

    def ran(op: Op, xs: Sequence[Any], y: Any, alarm: bool) -> None:
        if isinstance(op, Elementwise) and len(xs) == 2:
            _check_shapes(op, xs)
        resets.on_op(xs)

    with watching(Watch(on_op=ran, on_vjp=resets.on_vjp)):
        try:
            yield
        except ValueError as error:
            note_keepers(error)
            raise


def outer(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that a and b broadcast to, if both are repeated and one lacks axes; else None.

    >>> outer((3, 1), (3,))
    (3, 3)
    """
    if len(a) == len(b) or not a or not b:
        return None
    y = np.broadcast_shapes(a, b)
    return y if y not in (a, b) and max(len(a), len(b)) == len(y) and _repeats(a, b, y) else None


def _repeats(a: tuple[int, ...], b: tuple[int, ...], y: tuple[int, ...]) -> bool:
    """Whether both must be repeated to become `y`."""
    size = int(np.prod(y))
    return int(np.prod(a)) < size and int(np.prod(b)) < size


def _check_shapes(op: Op, xs: Sequence[Any]) -> None:
    """Raise if two operands broadcast so that both grow, and say where each was made."""
    shapes = [np.shape(x.value if isinstance(x, Variable) else x) for x in xs]
    y = outer(shapes[0], shapes[1])
    if y is None or not any(isinstance(x, Variable) for x in xs):
        return
    a, b = shapes
    short = min(shapes, key=len)
    lines = [
        f"    {shape}: made by '{x.node.name}' at {quote(x.node.where)}"
        for shape, x in zip(shapes, xs, strict=True)
        if isinstance(x, Variable) and x.node is not None
    ]
    raise ShapeError(
        "\n".join([
            f"strict: '{op.name}' of shapes {a} and {b} gives {y}: both are repeated, at",
            f"    {quote(location(*user_line()))}",
            *lines,
            "  If the elements belong together, reshape one to the shape of the other; if every "
            f"pair is meant, write the axes out: reshape {short} to "
            f"{(1,) * (len(y) - len(short)) + short}.",
        ])
    )  # fmt: skip


class _Resets:
    """Which values each parameter had when its gradient was last added to."""

    def __init__(self) -> None:
        self.now: dict[Node, Any] = {}
        """The array that each leaf was last used with. Holding it makes optimizers write to a new
        one."""
        self.added: dict[Node, tuple[Any, str]] = {}
        """For each leaf the array whose gradient it has, and the line of the backward."""

    def on_op(self, xs: Sequence[Any]) -> None:
        """Note which leaves are used, with which values."""
        for x in xs:
            if isinstance(x, Variable) and x.node is not None and x.node.op is None:
                self.now[x.node] = x.value

    def on_vjp(self, node: Node, g: Any, bars: Sequence[Any], alarm: bool) -> None:
        """A gradient is about to arrive at the leaves among the inputs of `node`."""
        for leaf in node.inputs:
            value = self.now.get(leaf) if leaf is not None else None
            if leaf is None or value is None or leaf.extra is None or not leaf.extra.retain:
                continue
            line = location(*user_line())
            before = self.added.get(leaf)
            if leaf.extra.grad is not None and before is not None and before[0] is not value:
                raise GradientError(
                    f"strict: the gradient of the parameter {leaf.dtype} {leaf.shape} made at "
                    f"{leaf.where} was not reset: this backward, at\n    {quote(line)}\n"
                    f"  would add to that of the backward at\n    {quote(before[1])}\n"
                    "  although the values were changed in between. Call zero_grad() once every "
                    "step, before backward."
                )
            self.added[leaf] = (value, line)
