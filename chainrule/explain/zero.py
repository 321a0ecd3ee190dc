"""Where on its way back a gradient became exactly zero, and why.

The backward pass is run once more on the kept graph, towards the one parameter; an op that was
handed something and passed nothing on is where it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.engine.derive import pullback_nodes
from chainrule.engine.dtypes import finfo
from chainrule.engine.graph import order
from chainrule.engine.node import Freed, Node, Variable
from chainrule.engine.op import Spec
from chainrule.engine.watch import Watch, watching
from chainrule.explain.answer import Why, path_between, step, steps
from chainrule.explain.bad_op import value_of
from chainrule.explain.words import Range, is_array, outputs_of, plural, quote


def explain_flow(loss: Variable, p: Variable) -> Why:
    """Why the gradient of `p`, to which a path leads from `loss`, is zero, or that it is not."""
    assert loss.node is not None and p.node is not None
    walk = order([loss.node])
    path = steps(path_between(loss.node, p.node))
    for node in walk:
        if node.xs.__class__ is Freed:
            return Why(
                "freed",
                "The path from p to the loss is whole, but the values on it were freed by the "
                "backward at",
                where=node.xs.where,
                path=path,
                advice="To see whether the gradient became zero on the way, call why before "
                "backward, or hand it the function that computes the loss.",
            )
    trail = _Trail(loss.node, p.node, walk)
    if trail.arrived is None or not np.any(trail.arrived):
        return _explain_zero(trail, path)
    largest = f"{np.max(np.abs(trail.arrived)):g}"
    return Why(
        "flows",
        f"The gradient reaches p: its largest element is {largest}.",
        path=path,
        advice="If p.grad is None all the same: no backward has run on this graph, or the gradient "
        "was reset since, or it went to another tensor of that name."
        if p.node.extra is not None and p.node.extra.grad is None
        else "",
    )


class _Trail:
    """What each op on a path to `end` was handed, and what it passed on towards it."""

    def __init__(self, root: Node, end: Node, walk: Sequence[Node]) -> None:
        self.end = end
        self.passed: list[tuple[Node, Any, list[tuple[int, Any]]]] = []
        self.leading = _leading(walk, end)
        seeds = {root: np.ones(root.shape, root.dtype)}
        with watching(Watch(on_vjp=self._on_vjp)):
            got = pullback_nodes(walk, seeds, {end}, record=False, free=False)
        self.arrived = None if (g := got.get(end)) is None else np.asarray(g)

    def _on_vjp(self, node: Node, g: Any, bars: Sequence[Any], alarm: bool) -> None:
        towards = [
            (i, bar)
            for i, (n, bar) in enumerate(zip(node.inputs, bars, strict=True))
            if n in self.leading and bar is not None
        ]
        if towards:
            self.passed.append((node, g, towards))


def _leading(walk: Sequence[Node], end: Node) -> set[Node]:
    """The nodes from which a path leads to `end`."""
    leading = {end}
    for node in reversed(walk):
        if any(n in leading for n in node.inputs):
            leading.add(node)
    return leading


def _nonzero(g: Any) -> bool:
    return any(part is not None and bool(np.any(value_of(part))) for part in outputs_of(g))


def _explain_zero(trail: _Trail, path: tuple[str, ...]) -> Why:
    """The op at which a gradient that is not 0 becomes 0, and why it does."""
    stopped = [
        (node, g, bars)
        for node, g, bars in trail.passed
        if _nonzero(g) and not any(_nonzero(bar) for _, bar in bars)
    ]
    if not stopped:
        return _explain_cancellation(trail, path)
    node, g, bars = stopped[0]
    others = ""
    if len(stopped) > 1:
        lines = list(dict.fromkeys([step(n.name, n.where) for n, _, _ in stopped[1:4]]))
        others = f"{plural(len(stopped) - 1, 'other path')} ended too, at: {'; '.join(lines)}"
    reason = _reason(node, g, bars[0][0])
    return Why(
        "zero",
        f"The gradient of p is exactly 0: it became so in the backward of '{node.name}', {reason}:",
        op=node.name,
        where=node.where,
        path=path,
        advice=others,
    )


def _explain_cancellation(trail: _Trail, path: tuple[str, ...]) -> Why:
    """No op passed nothing on: either nothing was handed to any, or contributions cancel."""
    for node, _, bars in trail.passed:
        meet = [n for i, bar in bars if _nonzero(bar) and (n := node.inputs[i]) is not None]
        for n in meet:
            gone = n is trail.end or not any(m is n and _nonzero(g) for m, g, _ in trail.passed)
            if gone:
                made = (
                    "p itself" if n.op is None else f"the result of '{n.name}' at {quote(n.where)}"
                )
                return Why(
                    "zero",
                    "The gradient of p is exactly 0: contributions of several uses add up to zero "
                    f"at {made}. One of those uses is '{node.name}' at",
                    op=node.name,
                    where=node.where,
                    path=path,
                )
    return Why("zero", "The gradient of p is exactly 0: so is the one that set out.", path=path)


# --- Why an op passed nothing on -----------------------------------------------------------------


def _x(node: Node, i: int) -> Any:
    """Input i as it was kept, None if it was not."""
    value = value_of(node.xs[i])
    return None if isinstance(value, Spec | Node) else value


def _range_text(x: Any) -> str:
    return "" if x is None else f" ({Range.of(x)})"


def _relu(node: Node, g: Any, i: int) -> str:
    return "whose input is nowhere positive (every unit is off)"


def _saturation_text(node: Node, g: Any, i: int) -> str:
    return f"which is saturated{_range_text(node.y)}: there its slope rounds to 0"


def _factor(node: Node, g: Any, i: int) -> str:
    other = _x(node, 1 - i)
    if other is not None and not np.any(other):
        return f"whose other argument is 0 everywhere{_range_text(other)}"
    there = f"wherever a cotangent{_range_text(g)} arrives"
    return f"whose other argument is 0{_range_text(other)} {there}"


def _unchosen(node: Node, g: Any, i: int) -> str:
    return f"whose condition{_range_text(_x(node, 0))} chose the other argument wherever it matters"


def _outside(node: Node, g: Any, i: int) -> str:
    inputs = [_range_text(x) for k in (0, 1) if (x := _x(node, k)) is not None]
    bound = "lower" if node.name == "at_least" else "upper"
    of = " and".join(inputs)
    return f"every element of its input lies beyond the {bound} bound{of}"


def _step(node: Node, g: Any, i: int) -> str:
    return "which is constant in pieces: its derivative is 0 everywhere"


def _loser(node: Node, g: Any, i: int) -> str:
    return "which never chose this argument"


def _exponent(node: Node, g: Any, i: int) -> str:
    return f"of{_range_text(_x(node, 0))} to the power of{_range_text(_x(node, 1))}"


def _underflow(node: Node, g: Any, i: int) -> str:
    return f"whose output{_range_text(node.y)} underflowed"


_REASONS: dict[str, Callable[[Node, Any, int], str]] = {
    "relu": _relu,
    "sigmoid": _saturation_text,
    "tanh": _saturation_text,
    "mul": _factor,
    "strong_mul": _factor,
    "matmul": _factor,
    "where": _unchosen,
    "at_least": _outside,
    "at_most": _outside,
    **dict.fromkeys(["sign", "floor", "ceil", "trunc", "round", "floor_divide"], _step),
    "maximum": _loser,
    "minimum": _loser,
    "pow": _exponent,
    **dict.fromkeys(["exp", "exp2", "exp_diff"], _underflow),
}


def _reason(node: Node, g: Any, i: int) -> str:
    """Why the rule of `node` passed nothing on to input `i`."""
    known = _REASONS.get(node.name)
    if known is not None:
        return known(node, g, i)
    plain = value_of(g)
    size = np.max(np.abs(plain)) if is_array(plain) and plain.size else 1.0
    if size < finfo(node.dtype).smallest_normal * 1e8:
        return f"which was handed a cotangent so small ({size:g}) that the product underflows"
    xs = [
        f"input {k}:{_range_text(x)}" for k in range(len(node.xs)) if (x := _x(node, k)) is not None
    ]
    handed = f"which was handed a cotangent{_range_text(plain)}, and passed on 0"
    return f"{handed}; {', '.join(xs)}" if xs else handed
