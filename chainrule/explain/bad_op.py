"""An op that made a NaN or an infinity, described: op, line, its inputs' ranges, which element.

Notation: `y` an op's output, `xs` its inputs, `g` the cotangent of y, `bars` those of its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.engine.node import Node, Variable
from chainrule.engine.op import Spec
from chainrule.explain.words import Range, bad, is_array, quote
from chainrule.page.readable import Readable

_OUTPUTS = {
    "forward": "result", "backward": "gradient", "tangent": "tangent",
    "leaf": "values", "constant": "values",
}  # fmt: skip


@dataclass(frozen=True)
class BadOp(Readable):
    """The first op that made a NaN or an infinity, `str()` of which says so in words.

    >>> x = cr.tensor([1.0, 0.0], requires_grad=True)
    >>> bad = cr.first_bad((x.log() * x).sum())
    >>> bad.op
    'mul'
    """

    kind: str
    """`NaN` or `Inf`."""
    op: str
    """The op's name; `leaf` or `constant` if no op made it: it was in a parameter or in data."""
    phase: str
    """`forward`, `backward` or, in forward mode, `tangent`."""
    where: str
    """`file:line` of the user's line that made the node."""
    inputs: tuple[tuple[str, Range], ...]
    """What went in, by name."""
    output: Range
    """What came out: the value, or the gradient, or the tangent."""
    index: tuple[int, ...]
    """The first bad element of the output."""
    element: str
    """What happened there, with its numbers, where that can be told."""
    note: str = ""
    """What else is to be said."""
    cause: BadOp | None = None
    """The op that made an infinity which this op met."""

    def __str__(self) -> str:
        if self.op == "leaf":
            head = f"{self.kind} was there before any op: in the parameter made at"
        elif self.op == "constant":
            head = f"{self.kind} was there before any op: in data that is used at"
        elif self.phase == "forward":
            head = f"{self.kind} made by '{self.op}' at"
        elif self.phase == "tangent":
            head = f"{self.kind} made in the forward-mode derivative of '{self.op}' at"
        else:
            head = f"{self.kind} made in the backward of '{self.op}', whose forward is at"
        lines = [head, f"    {quote(self.where)}"]
        lines += [f"  {name}: {text}" for name, text in self.inputs]
        lines.append(f"  {_OUTPUTS.get(self.op, _OUTPUTS[self.phase])}: {self.output}")
        at = f"  first at {list(self.index)}" if self.index else ""
        if at or self.element:
            lines.append(f"{at or '  there'}{': ' if self.element else ''}{self.element}")
        if self.note:
            lines.append(f"  {self.note}")
        if self.cause is not None:
            lines.append("  The infinity that it met:")
            lines += [f"  {line}" for line in str(self.cause).splitlines()]
        return "\n".join(lines)


def value_of(x: Any) -> Any:
    """The array or number that a variable holds, anything else as it is."""
    return x.value if isinstance(x, Variable) else x


def first_index(mask: Any) -> tuple[int, ...]:
    """Index of the first True."""
    flat = int(np.argmax(mask))
    return tuple([int(i) for i in np.unravel_index(flat, mask.shape)])


def made_here(xs: Sequence[Any], y: Any, *, inf: bool) -> Any:
    """Where `y` is bad and no input is at that place; anywhere, if shapes say nothing of places.

    Where shapes do not broadcast to y's, a bad input anywhere is taken to explain a bad output.
    """
    mask = bad(y, inf=inf)
    for x in xs:
        if isinstance(x, Spec):
            continue
        wrong = bad(x, inf=inf)
        if not wrong.any():
            continue
        try:
            mask = mask & ~np.broadcast_to(wrong, mask.shape)
        except ValueError:
            return np.zeros(mask.shape, bool)
    return mask


def forward_bad(
    op: Any, where: str, xs: Sequence[Any], y: Any, mask: Any, cause: BadOp | None = None
) -> BadOp:
    """The description of a forward op that made what `mask` shows in `y`."""
    index = first_index(mask)
    inputs = tuple([(f"input {i}", Range.of(x)) for i, x in enumerate(xs)])
    return BadOp(
        "NaN" if np.isnan(np.asarray(y)[index]) else "Inf", op.name, "forward", where, inputs,
        Range.of(y), index, _sample(op.name, xs, y, index), cause=cause,
    )  # fmt: skip


def backward_bad(node: Node, g: Any, i: int, bar: Any, note: str = "") -> BadOp:
    """The description of a node whose rule made the bad gradient `bar` of input `i`."""
    mask = bad(bar, inf=not bad(bar, inf=False).any())
    index = first_index(mask)
    kept: list[Any] = [] if node.xs is None else list(node.xs)
    xs = [value_of(x) for x in kept]
    named = [(f"input {j}", x) for j, x in enumerate(xs) if is_array(x)]
    if is_array(node.y):
        named.append(("output", node.y))
    if not isinstance(g, tuple):
        named.append(("cotangent", np.asarray(value_of(g))))
    there = [f"{name} {x[index]:g}" for name, x in named if x.shape == mask.shape]
    return BadOp(
        "NaN" if np.isnan(np.asarray(bar)[index]) else "Inf", node.name, "backward", node.where,
        tuple([(name, Range.of(x)) for name, x in named]),
        Range.of(bar), index,
        f"the gradient of input {i} is {np.asarray(bar)[index]:g}"
        + (f" ({', '.join(there)})" if there else ""),
        note,
    )  # fmt: skip


def tangent_bad(node: Node, ts: Sequence[Any], y_dot: Any, *, inf: bool) -> BadOp | None:
    """The description of a node whose rule made the tangent `y_dot` of `ts`, if that is bad."""
    dot = np.asarray(value_of(y_dot))
    mask = bad(dot, inf=inf)
    if not mask.any():
        return None
    index = first_index(mask)
    came = [(f"tangent {i}", value_of(t)) for i, t in enumerate(ts) if is_array(value_of(t))]
    named = [(f"input {i}", value_of(x)) for i, x in enumerate(node.xs) if is_array(value_of(x))]
    named += came
    there = [f"{name} {x[index]:g}" for name, x in named if x.shape == mask.shape]
    before = any(bad(t, inf=inf).any() for _, t in came)
    return BadOp(
        "NaN" if np.isnan(dot[index]) else "Inf", node.name, "tangent", node.where,
        tuple([(name, Range.of(x)) for name, x in named]), Range.of(dot), index,
        f"the tangent is {dot[index]:g}" + (f" ({', '.join(there)})" if there else ""),
        "A tangent that arrived there was bad already." if before else "",
    )  # fmt: skip


def _sample(name: str, xs: Sequence[Any], y: Any, index: tuple[int, ...]) -> str:
    """`log(0) = -inf`, if the op works element by element as far as the shapes show."""
    parts: list[str] = []
    for x in xs:
        if isinstance(x, Spec):
            return ""
        try:
            parts.append(f"{np.broadcast_to(np.asarray(x), np.shape(y))[index]:g}")
        except (ValueError, TypeError):
            return ""
    return f"{name}({', '.join(parts)}) = {np.asarray(y)[index]:g}"
