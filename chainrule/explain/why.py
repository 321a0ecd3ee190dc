"""Why is this gradient None, or zero? The path from a parameter to the loss, and where it ends.

From a loss alone, what its graph holds and what is still alive is read: no preparation is needed,
but a value that was detached and then dropped has left no trace beyond its line. Given the function
that computes the loss, `why` runs it once more and watches every op, also those that are not
recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.graph import order
from chainrule.engine.node import Freed, Node, Variable
from chainrule.engine.tensors import Tensor
from chainrule.engine.watch import Cut, cuts
from chainrule.explain.answer import Why, path_between, step, steps
from chainrule.explain.observed_run import Rerun
from chainrule.explain.words import every_node
from chainrule.explain.zero import explain_flow

_RERUN = (
    "For the whole way, hand why the function that computes the loss: "
    "why(lambda: loss_of(batch), p)."
)


def why(loss: Tensor | Callable[[], Any], p: Tensor) -> Why:
    """Why the gradient of `p` is None or zero: where on the way from `p` to `loss` it was lost.

    `loss` is a number computed from `p`, before its `backward` has freed the graph; afterwards only
    the path can be shown. Or it is a function without arguments that computes the number. That is
    run once and watched, which also shows uses that were never recorded: `no_grad`, comparisons,
    integer casts, `.item()`. Returns a `Why`; nothing is changed, no gradient is accumulated.

    >>> import chainrule as cr
    >>> w = cr.tensor(2.0, requires_grad=True)
    >>> cr.why((w * 3 - 10).relu(), w).op
    'relu'
    """
    early = _of_parameter(p)
    if early is not None:
        return early
    if not isinstance(loss, Tensor):
        run = Rerun(loss, p)
        return explain_flow(run.loss, p) if _reaches(run.loss, p) else run.explain()
    if loss.node is None or not loss.node.needs:
        return _without_graph(loss)
    return explain_flow(loss, p) if _reaches(loss, p) else _cut_off(loss.node, p)


def _reaches(loss: Variable, p: Variable) -> bool:
    """Whether the recorded graph leads from `p` to `loss`."""
    return (
        loss.node is not None
        and p.node is not None
        and loss.node.needs
        and bool(path_between(loss.node, p.node))
    )


def _of_parameter(p: Tensor) -> Why | None:
    """What can be said from `p` alone."""
    if p.node is None or not p.node.needs:
        cut = cuts.get(id(p.value))
        if cut is not None and cut.array() is p.value:
            return Why(
                "constant",
                f"p wants no gradient: it is what {cut.how} gave. Ask for its gradient with "
                "requires_grad_(), or use the tensor that it was taken from.",
                op=cut.how,
                where=cut.where,
            )
        return Why(
            "constant",
            f"p ({p.dtype} {p.shape}) wants no gradient: requires_grad is False. Was it computed "
            "from a parameter under no_grad(), or assigned anew (w = w - lr * g)?",
            advice="Make it with requires_grad=True, or call p.requires_grad_().",
        )
    return None


def _without_graph(loss: Tensor) -> Why:
    """The loss itself has lost its graph."""
    cut = cuts.get(id(loss.value))
    if cut is not None and cut.array() is loss.value:
        return Why(
            "no graph",
            f"The loss has no graph: {cut.how} took it off the one that ends with '{cut.name}'.",
            op=cut.how,
            where=cut.where,
            advice="Take the loss itself, not what that call returned.",
        )
    return Why(
        "no graph",
        f"The loss ({loss.dtype} {loss.shape}) has no graph: nothing that it was computed from "
        "required a gradient, or it was computed under no_grad() or from numbers (item()).",
        advice=_RERUN,
    )


# --- A loss to whose graph p does not belong -----------------------------------------------------


def _cut_off(root: Node, p: Tensor) -> Why:
    """Where p went, as far as that is alive, and what in the loss's graph may come of it."""
    assert p.node is not None
    walk = order([root])
    reached = _dependents(p.node)
    for node in walk:
        for x in _constants(node):
            if x is p.value:
                return _itself(node)
            cut = cuts.get(id(x))
            if cut is not None and cut.array() is x and cut.node() in reached:
                return _cut_by(cut, node, path_between(cast(Node, cut.node()), p.node))
    likely = [c for n in walk for x in _constants(n) if (c := _dead_cut(x)) is not None]
    if len(reached) > 1:
        return _dead_end(reached, p.node, likely)
    twins = [n for n in walk if n.op is None and n.shape == p.shape and n.dtype == p.dtype]
    return _explain_unused(twins, likely)


def _constants(node: Node) -> list[Any]:
    """The arrays among the inputs of a node that have no node of their own."""
    if node.xs.__class__ is Freed:
        return []
    pairs = zip(node.inputs, node.xs, strict=True)
    return [x for n, x in pairs if n is None and isinstance(x, np.ndarray)]


def _dependents(node: Node) -> set[Node]:
    """`node` and every living node that was computed from it."""
    reached = {node}
    for n in sorted(
        every_node(), key=lambda n: n.serial
    ):  # an input is older than what is made of it
        if any(i in reached for i in n.inputs):
            reached.add(n)
    return reached


def _dead_cut(x: Any) -> Cut | None:
    cut = cuts.get(id(x))
    return cut if cut is not None and cut.array() is x and cut.node() is None else None


def _itself(node: Node) -> Why:
    return Why(
        "cut",
        f"The values of p enter '{node.name}' as a constant: through p.detach() or p.data, or p "
        "was used before it required a gradient.",
        op=node.name,
        where=node.where,
        advice="Use p itself there.",
    )


def _cut_by(cut: Cut, user: Node, path: Sequence[Node]) -> Why:
    return Why(
        "cut",
        f"The gradient of p is None: {cut.how} took the result of '{cut.name}' off the graph at",
        op=cut.how,
        where=cut.where,
        path=(*steps(path), step(cut.how, cut.where), step(user.name, user.where)),
        advice="Leave that call out where the gradient is to flow.",
    )


def _likely(found: Sequence[Cut]) -> str:
    lines = [
        f"{c.how} at {c.where} of the result of '{c.name}' made at {c.origin}" for c in found[:4]
    ]
    many = "; ".join(dict.fromkeys(lines))
    return f"The loss does use values that were taken off a graph: {many}. " if many else ""


def _dead_end(reached: set[Node], p: Node, likely: Sequence[Cut]) -> Why:
    last = max(reached, key=lambda n: n.serial)
    return Why(
        "cut",
        "The gradient of p is None: p is used, but nothing in the loss's graph comes of that. The "
        f"last result that is known is that of '{last.name}', whose result the loss does not use "
        "or uses only as a number or a constant",
        op=last.name,
        where=last.where,
        path=steps(path_between(last, p)),
        advice=_likely(likely) + _RERUN,
    )


def _explain_unused(twins: Sequence[Node], likely: Sequence[Cut]) -> Why:
    """Why a loss has no path to a parameter: a cut, another tensor of its name, or no use."""
    if likely:
        cut = likely[-1]
        return Why(
            "cut",
            "The gradient of p is None: the loss has no recorded path to p. It uses what "
            f"{cut.how} gave, most likely that is where the path ended: it took the result of "
            f"'{cut.name}' (made at {cut.origin}) off its graph at",
            op=cut.how,
            where=cut.where,
            advice=_RERUN,
        )
    if twins:
        return Why(
            "replaced",
            "The gradient of p is None: the loss does not depend on p, but on another parameter of "
            "the same shape and dtype. Was p assigned anew after the model took it (p = "
            "tensor(..)), or is this the old one?",
            op="leaf",
            where=twins[0].where,
            advice="Change a parameter's values with p.data = ..., which keeps the tensor.",
        )
    return Why(
        "unused",
        "The gradient of p is None: no recorded op that is alive used p.",
        advice=_RERUN,
    )
