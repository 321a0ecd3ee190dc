"""The first NaN of a graph that was built without a trap: what was kept is read, the rest computed.

Values come from what rules keep, from tensors that are still alive, and from running ops again on
the values of their inputs.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from chainrule.engine.derive import pullback_nodes
from chainrule.engine.graph import order
from chainrule.engine.node import Freed, Node, Variable
from chainrule.engine.op import Pick, Spec
from chainrule.engine.provenance import location, user_line
from chainrule.engine.watch import Watch, watching
from chainrule.errors import GradientError
from chainrule.explain.bad_op import BadOp, backward_bad, first_index, forward_bad, value_of
from chainrule.explain.words import Range, bad, is_array, quote


def first_bad(loss: Variable, *, inf: bool = False) -> BadOp | None:
    """The first op that made a NaN on the way to `loss` or, if there is none, on the way back.

    None if all is finite. With `inf` infinities count too; without it, one that led to the NaN is
    named as its `cause`. Nothing need have been switched on before; but the graph must be there.
    `backward` leaves that of a loss that is not finite; to ask about another, call this before
    `backward`, or give that `retain_graph=True`. Raises `GradientError` otherwise.

    >>> import chainrule as cr
    >>> x = cr.tensor([1.0, 0.0], requires_grad=True)
    >>> found = cr.first_bad((x.log() * x).sum())
    >>> found.op, found.cause.op
    ('mul', 'log')
    """
    if loss.node is None or not loss.node.needs:
        raise GradientError(
            "first_bad needs a loss with a graph; this one requires no gradient. Run the forward "
            "pass again within trap_nan()"
        )
    walk = order([loss.node])
    for node in walk:
        if node.xs.__class__ is Freed:
            raise GradientError(
                f"first_bad: the graph to which '{node.name}' (made at {node.where}) belongs was "
                f"freed by the backward at {node.xs.where}, as that of any finite loss is. Call "
                "first_bad before it, or say retain_graph=True there, or run the step again within "
                "trap_nan()"
            )
    found = explain_loss([loss], inf=inf)
    return found or (_backwards(loss, walk, inf=inf) if loss.value.size == 1 else None)


def explain_loss(roots: Sequence[Variable], *, inf: bool) -> BadOp | None:
    """The first forward op on the way to `roots` that made something bad; None if all is well."""
    for x in roots:  # data without a graph explains itself
        if x.node is None and bad(x.value, inf=inf).any():
            return _in_data(x.value, location(*user_line()), "constant")
    walk = order([x.node for x in roots if x.node is not None and x.node.needs])
    values = known_values(walk, roots)
    for node in reversed(walk):
        value = values.get(node)
        if value is None or isinstance(value, tuple):
            continue
        mask = bad(value, inf=inf)
        if mask.any():
            return _blame(node, value, mask, values, inf=inf)
        for x in _constants(node):
            if bad(x, inf=inf).any() and _spoilt(node, values, walk, inf=inf):
                return _in_data(x, node.where, "constant")
    return None


def _spoilt(node: Node, values: dict[Node, Any], walk: Sequence[Node], *, inf: bool) -> bool:
    """Whether what `node` made is bad."""
    return node in values and bad(values[node], inf=inf).any()


def known_values(walk: Sequence[Node], roots: Sequence[Variable]) -> dict[Node, Any]:
    """The values of the nodes of `walk` that can be known: kept, alive, or computed again."""
    values: dict[Node, Any] = {}
    for holder in gc.get_referrers(*walk) if walk else ():
        if isinstance(holder, Variable) and holder.node is not None:
            _note(values, holder.node, holder.value)
    for x in roots:
        if x.node is not None:
            values[x.node] = x.value
    for node in walk:
        if node.y is not None and not isinstance(node.y, Spec):
            values[node] = node.y
        for n, x in _inputs(node):
            if n is not None and is_array(x):
                values[n] = x
    for node in reversed(walk):
        if node not in values:
            _compute(node, values)
    return values


def _note(values: dict[Node, Any], node: Node, value: Any) -> None:
    """Take over the value that a tensor holds now.

    A leaf may have been given another since, by an optimizer that a NaN came through, say: one that
    is bad now proves nothing.
    """
    if node.op is not None or not bad(value, inf=True).any():
        values[node] = value


def _inputs(node: Node) -> Sequence[tuple[Node | None, Any]]:
    if node.xs.__class__ is Freed:
        return [(n, None) for n in node.inputs]
    return list(zip(node.inputs, node.xs, strict=True))


def _constants(node: Node) -> list[Any]:
    return [x for n, x in _inputs(node) if n is None and is_array(x)]


def _argument(n: Node | None, x: Any, values: dict[Node, Any]) -> Any:
    """The value of an input, or a `Spec` if it is not known."""
    if n is None:
        return x
    return values.get(n, Spec(n.shape, n.dtype))


def _compute(node: Node, values: dict[Node, Any]) -> None:
    """Run the op of `node` again, if its inputs are known and it is not a user's own code."""
    op = node.op
    if op is None or not op.quiet:
        return
    xs = [values.get(n) if n is not None else x for n, x in _inputs(node)]
    if any(x is None or isinstance(x, Spec) for x in xs):
        return
    with np.errstate(all="ignore"):
        y: Any = op.eval(*xs)
    values[node] = cast(Any, y) if isinstance(y, tuple) else np.asarray(y)


def _blame(node: Node, value: Any, mask: Any, values: dict[Node, Any], *, inf: bool) -> BadOp:
    """`node` is the oldest known to be bad: say so, and what is not known of what came before."""
    if node.op is None:
        return _in_data(value, node.where, "leaf")
    if isinstance(node.op, Pick) and node.inputs[0] is not None:
        node = node.inputs[0]
    assert node.op is not None
    for x in _constants(node):
        if bad(x, inf=inf).any():
            return _in_data(x, node.where, "constant")
    xs = [_argument(n, x, values) for n, x in _inputs(node)]
    cause = infinite_inputs(node.inputs, xs, values) if not inf else None
    return _with_suspects(
        node, xs, values, forward_bad(node.op, node.where, xs, value, mask, cause)
    )


def _with_suspects(node: Node, xs: Sequence[Any], values: dict[Node, Any], found: BadOp) -> BadOp:
    """`found` with the ops that may have made it in place of `node`, if an input is not known."""
    if not any(isinstance(x, Spec) for x in xs):
        return found
    unknown = [n for n in order([node]) if n is not node and n not in values]
    lines = list(dict.fromkeys([f"'{n.name}' at {quote(n.where)}" for n in unknown[:5]]))
    note = f"Or before it, by something whose value was not kept: {'; '.join(lines)}"
    return replace(found, note=note if lines else "One of its inputs was not kept.")


def _in_data(value: Any, where: str, what: str) -> BadOp:
    mask = bad(value, inf=not bad(value, inf=False).any())
    index = first_index(mask)
    kind = "NaN" if np.isnan(np.asarray(value)[index]) else "Inf"
    return BadOp(kind, what, "forward", where, (), Range.of(value), index, "")


def infinite_inputs(
    nodes: Sequence[Node | None], xs: Sequence[Any], values: dict[Node, Any] | None = None
) -> BadOp | None:
    """The op that made the infinity among the inputs `xs`, whose nodes are `nodes`, if one did."""
    for n, x in zip(nodes, xs, strict=True):
        if n is None or isinstance(x, Spec | tuple) or not bad(x, inf=True).any():
            continue
        known = values if values is not None else known_values(order([n]), [])
        known[n] = np.asarray(x)
        return _trace_infinity(n, known)
    return None


def _trace_infinity(node: Node, values: dict[Node, Any]) -> BadOp | None:
    """The oldest of the nodes from which an infinite value was handed on to `node`."""
    while node.op is not None:
        older = [n for n in node.inputs if n is not None and n in values and _infinite(values[n])]
        if not older:
            for x in _constants(node):
                if bad(x, inf=True).any():
                    return _in_data(x, node.where, "constant")
            xs = [_argument(n, x, values) for n, x in _inputs(node)]
            y = values[node]
            made = forward_bad(node.op, node.where, xs, y, bad(y, inf=True))
            return _with_suspects(node, xs, values, made)
        node = older[0]
    return None


def _infinite(value: Any) -> bool:
    return not isinstance(value, tuple) and bool(bad(value, inf=True).any())


def _backwards(loss: Variable, walk: Sequence[Node], *, inf: bool) -> BadOp | None:
    """The first rule that makes something bad on the way back from a loss that is finite."""
    found: list[BadOp] = []

    def look(node: Node, g: Any, bars: Sequence[Any], alarm: bool) -> None:
        for i, bar in enumerate(bars):
            plain = value_of(bar)
            if not found and is_array(plain) and bad(plain, inf=inf).any():
                found.append(backward_bad(node, g, i, plain))

    assert loss.node is not None
    with watching(Watch(on_vjp=look)):
        seeds = {loss.node: np.ones(loss.value.shape, loss.value.dtype)}
        pullback_nodes(walk, seeds, None, record=False, free=False)
    return found[0] if found else None
