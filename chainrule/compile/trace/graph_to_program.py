"""From the graph that a trace left to a `Program`: only what its results and updates depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeGuard, cast

import numpy as np

from chainrule.compile.graph.loop_body import without_repeated_loops
from chainrule.compile.graph.terms import Program, Term, Terms
from chainrule.compile.graph.walks import post_order
from chainrule.engine.graph import constant
from chainrule.engine.node import Node
from chainrule.engine.op import Spec
from chainrule.errors import TraceError


class Scope(Protocol):
    """What a program is made of: a whole trace, or a part of one."""

    def origin(self, node: Node) -> Node:
        """The node whose value `node` has."""
        ...

    def stops(self, node: Node) -> bool:
        """Whether the value of `node` is given, not computed."""
        ...


def nodes_to_compute(scope: Scope, roots: Sequence[Node]) -> list[Node]:
    """The nodes whose values the program computes or is given, each after those that it needs."""
    return post_order(map(scope.origin, roots), partial(_unknown_inputs, scope))


def _unknown_inputs(scope: Scope, node: Node) -> list[Node]:
    """The nodes of the inputs that are not known."""
    if scope.stops(node):
        return []
    pairs = zip(node.inputs, node.xs, strict=True)
    return [scope.origin(n) for n, x in pairs if _is_unknown(n, x)]


def program(
    scope: Scope,
    order: Sequence[Node],
    places: Sequence[Node],
    results: Sequence[Node],
    updates: Sequence[tuple[int, Node]],
) -> Program:
    """The program whose inputs are the leaves `places`; `order` is what `nodes_to_compute` gave."""
    terms = Terms()
    known: dict[Node, Term] = {n: terms.input(i, n.shape, n.dtype) for i, n in enumerate(places)}
    for node in order:
        if node not in known:
            known[node] = _term(scope, terms, node, known)
    made = Program(
        tuple([known[n] for n in places]),
        tuple([known[scope.origin(n)] for n in results]),
        tuple([(i, known[scope.origin(n)]) for i, n in updates]),
    )
    return without_repeated_loops(made)


def _term(scope: Scope, terms: Terms, node: Node, known: Mapping[Node, Term]) -> Term:
    if node.op is None:
        if node.y is None:
            raise TraceError(
                f"a value of another trace ({node.dtype} {node.shape}, made at {node.where}) is "
                "used here: it was stored where it outlived that trace, or belongs to a vmap around"
            )
        return terms.constant(node.y)
    return op_term(scope, terms, node, known)


def op_term(scope: Scope, terms: Terms, node: Node, known: Mapping[Node, Term]) -> Term:
    """The op of a node as a term; those of its inputs that are not constants are `known`."""
    pairs = zip(node.inputs, node.xs, strict=True)
    args = [known[scope.origin(n)] if _is_unknown(n, x) else terms.constant(x) for n, x in pairs]
    return terms.op(cast(Any, node.op), args, like=cast(Any, node))


def _is_unknown(n: Node | None, x: Any) -> TypeGuard[Node]:
    return n is not None and isinstance(x, Spec | Node)


def node_of(x: Any) -> Node:
    """The node of a placeholder, or of a constant."""
    value = getattr(x, "value", x)
    return x.node if value.__class__ is Spec else constant(np.asarray(value))
