"""Shapes that broadcast by accident in a loss: (N, 1) with (N,) gives (N, N), and no error.

The losses of this package refuse it. In a loss that is written out, `((p - target) ** 2).mean()`,
it is recognised where all is summed up. Then every difference between a trained array and an
untrained one is examined: does one of them lack an axis of the other's shape?
"""

from __future__ import annotations

import warnings
from typing import Any

from chainrule.engine.node import Node, Variable
from chainrule.errors import BroadcastWarning, ShapeError

_HOPS = 4
"""How many ops may stand between the difference and the sum: a power, a mask, a weight."""


def same_shapes(what: str, *xs: Any) -> None:
    """Raise `ShapeError`, with the lines that made them, unless all shapes are equal."""
    if any(tuple(x.shape) != tuple(xs[0].shape) for x in xs):
        made = ", ".join([f"{tuple(x.shape)}{_origin_text(x)}" for x in xs])
        raise ShapeError(f"{what}: the shapes {made} differ; reshape one")


def _origin_text(x: Any) -> str:
    node = x.node if isinstance(x, Variable) else None
    return "" if node is None else f" (made at {node.where})"


def warn_if_paired(x: Any) -> None:
    """Warn if `x` (N, N), whose elements are all about to be summed, was broadcast by accident."""
    node: Node | None = x.node if isinstance(x, Variable) else None
    for _ in range(_HOPS):
        if node is None or node.op is None:
            return
        if node.name == "sub" and _is_accidental(node):
            _warn(node)
            return
        node = next((n for n in node.inputs if n is not None), None)


def _warn(node: Node) -> None:
    (a, b), line = [tuple(x.shape) for x in node.xs], node.line
    text = (
        f"the difference of shapes {a} and {b} is {node.shape}, of every element with every other "
        f"one, and is summed in a loss: reshape one to the shape of the other. {_operands(node)}"
    )
    warnings.warn_explicit(text, BroadcastWarning, node.code.co_filename, line)


def _is_accidental(node: Node) -> bool:
    """Whether `node` subtracts (N, 1) and (N,), one of which needs no gradient."""
    if len(node.xs) != 2 or not all(hasattr(x, "shape") for x in node.xs):
        return False
    row, column = sorted([tuple(x.shape) for x in node.xs], key=len)
    return len(row) == 1 and column == (*row, 1) and not all(node.need)


def _operands(node: Node) -> str:
    made = [f"{n.shape} was made at {n.where}" for n in node.inputs if n is not None]
    return "; ".join(made)
