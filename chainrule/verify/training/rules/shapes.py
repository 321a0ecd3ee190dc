"""Shapes that broadcast by accident: each prediction is compared with each target.

`(N, 1)` against `(N,)` gives `(N, N)`. Who means that writes both with the same number of axes
(`x[:, None] - y[None, :]`), or has one of the two in the result's own shape. So it counts only if
the numbers of axes differ and the result has more elements than either. A loss has no use for that
at all; a difference does where its two sides have different sizes, or both come from the model.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.holders import node_of, nodes_below
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.op_names import PAIRED_LOSSES
from chainrule.verify.training.rules.finding import Row, is_seldom
from chainrule.verify.training.text import edits
from chainrule.verify.user_frames import Line, here, placed

_NUMBERS = frozenset(
    {"pow", "square", "mul", "abs", "div", "neg", "mean", "sum", "add", "sqrt", "huber", "sub"}
)
"""Ops, number by number, that make a loss of differences, by the beginning of their names."""
_MOST = 40
"""Nodes that are looked at."""


def is_view(x: Any) -> bool:
    """Whether a tensor is another one with other axes, which somebody gave it."""
    name = _name(node_of(x))
    return name.startswith(("unsqueeze", "view", "reshape", "index", "expand", "slice", "getitem"))


def adds_up(root: Any, key: int, of: int) -> bool:
    """Whether a loss is made of a difference so that all its numbers are added: that of a node's
    key, or, where results get their nodes later, one that is taken of the node of another key."""
    stack, seen = [node_of(root)], set[int]()
    while stack and len(seen) < _MOST:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        taken = key < 0 and _name(node) == "sub" and of in map(key_of, nodes_below(node))
        if key_of(node) == key or taken:
            return True
        if _name(node).startswith(tuple(_NUMBERS)):
            stack += nodes_below(node)
    return False


def key_of(node: Any) -> int:
    """What tells a node from all others."""
    serial = getattr(node, "_sequence_nr", None)
    return int(serial() if serial is not None else getattr(node, "serial", -1))


def _name(node: Any) -> str:
    """The op's name, in small letters."""
    name: Any = getattr(node, "name", "")
    return str(name() if callable(name) else name).lower()


class _Spread(NamedTuple):
    """Values of two shapes that were spread over each other at a line, again and again."""

    name: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    result: tuple[int, ...]
    place: Place | None
    times: int
    added: int
    """How often it was the difference that a loss is made of."""

    @property
    def is_loss(self) -> bool:
        """Whether a loss of PyTorch's compares them, or one that the program makes itself."""
        return self.name in PAIRED_LOSSES or self.added > 1


@final
class Shapes(Part):
    """Finds `broadcast`."""

    title = "shapes of predictions and targets"
    rows = (
        Row(
            "broadcast",
            lambda f: f.spread(),
            lambda c: (
                f"`{c.name}` of shapes {c.shapes[0]} and {c.shapes[1]} "
                f"broadcasts to {c.result}: {math.prod(c.result)} pairs are compared, "
                f"each of {max(map(math.prod, c.shapes))} values with values of others as "
                "well"
            ),
            "give both the same shape: target.view_as(prediction), or prediction.squeeze(-1)",
            lambda c: "warning" if c.is_loss else "note",
            (is_seldom,),
            subject="the loss",
            edit=lambda c: (
                edits.change_line(c.place, lambda node: _squeezed(node, *c.shapes))
                if c.is_loss
                else None
            ),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._rows: dict[tuple[Line, str], _Rows] = {}
        self._open: dict[tuple[int, int], _Rows] = {}
        """By the keys of the nodes of a difference and of its prediction: since the last backward
        pass."""

    def spread(self) -> list[_Spread]:
        """By line and name."""
        return [
            _Spread(name, row.shapes, row.result, placed(at), row.times, row.added)
            for (at, name), row in self._rows.items()
        ]

    @on(op_events.Compared)
    def _compared(self, e: op_events.Compared) -> None:
        at = here()
        if at is None or not _is_accident(e):
            return
        row = self._rows.setdefault((at, e.name), _Rows(e.shapes, e.result))
        row.shapes, row.result, row.times = e.shapes, e.result, row.times + 1
        if (prediction := _unmade(e)) is not None:
            self._open[key_of(node_of(e.y)), key_of(node_of(prediction))] = row

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        for (key, of), row in self._open.items():
            row.added += any(adds_up(root, key, of) for root in e.roots)
        self._open.clear()


@dataclass(eq=False)
class _Rows:
    """What was compared at a line."""

    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    result: tuple[int, ...]
    times: int = 0
    added: int = 0


def _unmade(e: op_events.Compared) -> Any:
    """The prediction, if it has the axes that the model gave it, and is none of its parameters, as
    centres are."""
    if e.name in PAIRED_LOSSES or e.linked[0] == e.linked[1]:
        return None
    prediction = e.sides[0 if e.linked[0] else 1]
    longer = len(prediction.shape) > min(map(len, e.shapes))
    made = node_of(prediction) is not None and not (longer and is_view(prediction))
    return prediction if made else None


def _is_accident(e: op_events.Compared) -> bool:
    """Whether nobody can have meant it; `e` has more elements in its result than in either side."""
    a, b = e.shapes
    if len(a) == len(b):
        return False
    return e.name in PAIRED_LOSSES or (math.prod(a) == math.prod(b) and e.linked[0] != e.linked[1])


def _squeezed(node: ast.stmt, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """`criterion(net(x).squeeze(-1), y)`: the longer of the two without the axis that the other one
    lacks, in the only call of a line that has two arguments."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and len(n.args) == 2]
    longer = 0 if len(a) > len(b) else 1
    long, short = (a, b) if longer == 0 else (b, a)
    axes = [k for k, n in enumerate(long) if n == 1 and long[:k] + long[k + 1 :] == short]
    if len(calls) != 1 or not axes:
        return False
    axis = -1 if axes[-1] == len(long) - 1 else axes[-1]
    method = ast.Attribute(calls[0].args[longer], "squeeze", ast.Load())
    calls[0].args[longer] = ast.Call(method, [ast.Constant(axis)], [])
    return True
