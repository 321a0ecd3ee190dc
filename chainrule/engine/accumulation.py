"""A backward pass in PyTorch's way: gradients are added up in the leaves."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np

from chainrule.engine import watch
from chainrule.engine.derive import pullback_nodes
from chainrule.engine.graph import order, tracer, variable
from chainrule.engine.node import Node, Variable
from chainrule.engine.op import Spec
from chainrule.engine.quiet import quietly
from chainrule.errors import GradientError, describe


def _is_loss_to_explain(value: Any) -> bool:
    """Whether this is one number, and not finite. To look at many would cost a sweep over them."""
    return value.size == 1 and not cmath.isfinite(complex(value.item()))


def only_reads(node: Node | None) -> bool:
    """Whether a sweep from `node` only reads its cotangent: nobody else is handed it, and no
    gradient shares its memory."""
    if node is None or node.op is None or node.extra is not None:
        return False
    return node.op.fresh and not watch.watches


def backward(y: Variable, g: Any, *, retain_graph: bool, create_graph: bool) -> None:
    """Add the gradient of `y`, whose cotangent is `g`, to every leaf that it depends on.

    The graph is freed unless something is to be asked of it: another derivative, or, where `y` is
    one number and not finite, which op made it so.
    """
    node = y.node
    if node is None or not node.needs:
        raise GradientError(
            f"backward: this {describe(y.value)} does not depend on anything that requires a "
            "gradient; set requires_grad=True on what it is computed from, and check that no "
            "detach(), item(), numpy() or no_grad() cuts the path"
        )
    walk = order([node])
    traced = type(y.value) is Spec
    keep = retain_graph or create_graph
    if traced and not keep and (t := tracer()) is not None:
        t.spend(walk)
    free = not (keep or traced or _is_loss_to_explain(y.value))
    arrived = pullback_nodes(walk, {node: g}, None, record=create_graph, free=free)
    for n, bar in arrived.items():
        if n.extra is not None and n.extra.retain:
            new = bar if isinstance(bar, Variable) else variable(np.asarray(bar))
            before = n.extra.grad
            if before is None:
                n.extra.grad = new
            elif create_graph or traced or type(before.value) is Spec:
                n.extra.grad = before + new
            else:
                n.extra.grad = variable(quietly(np.add, before.value, new.value))
            if n.extra.after:
                for hook in list(n.extra.after.values()):
                    hook()
