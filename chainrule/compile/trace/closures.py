"""Closed programs: what was recorded since some moment, from certain places to certain values.

Whatever they read from around them is an input, so that they can be run again on other places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.compile.graph.loop_body import WhileLoop, without_repeated_loops
from chainrule.compile.graph.terms import Program, Term, Terms
from chainrule.compile.trace.graph_to_program import nodes_to_compute, op_term
from chainrule.compile.trace.loop_scope import BodyScope
from chainrule.compile.trace.tracer import Tracer
from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import apply, leaf, placeholder
from chainrule.engine.node import Node
from chainrule.engine.op import Detach


def now() -> int:
    """A number between those of nodes that there are and those that will be."""
    return leaf((), np.dtype(bool), needs=False).serial


def traced_input(shape: Any, dtype: Any) -> Any:
    """A placeholder for an input; it can be differentiated at."""
    return placeholder(shape, dtype, needs=dtype.kind in INEXACT)


def close_over(
    tracer: Tracer, start: int, places: Sequence[Node], news: Sequence[Node]
) -> tuple[WhileLoop, list[Node]]:
    """What was recorded since `start` as iterations from `places` to `news`; and the nodes from
    around it that it reads, which are its last inputs."""
    scope = BodyScope(tracer, start, set(places), keeping=True)
    walk = nodes_to_compute(scope, news)
    consts = scope.consts(walk)
    terms = Terms()
    every = [*places, *consts]
    known = {n: terms.input(i, n.shape, n.dtype) for i, n in enumerate(every)}
    for node in walk:
        if node not in known:
            known[node] = _term(terms, scope, node, known)
    ins = tuple([known[n] for n in every])
    outs = [known[scope.origin(n)] for n in news]
    updates = [(i, t) for i, t in enumerate(outs) if t is not ins[i]]
    program = without_repeated_loops(Program(ins, (), tuple(updates)))
    return WhileLoop(program, len(news), scope.inlined), consts


def _term(terms: Terms, scope: BodyScope, node: Node, known: dict[Node, Term]) -> Term:
    """The term of a node; where nothing was to be recorded, it has no derivative."""
    if node.op is None:
        return terms.constant(node.y)
    made = op_term(scope, terms, node, known)
    cut = not node.op.many and node.dtype.kind in INEXACT and not node.needs
    return terms.op(Detach(), [made]) if cut and any(map(_is_live, node.inputs)) else made


def _is_live(node: Node | None) -> bool:
    """Whether a derivative could come this way, had it been recorded."""
    if node is None:
        return False
    several = node.op is not None and node.op.many
    return node.needs or (several and any(map(_is_live, node.inputs)))


def run(t: Term, args: list[Any]) -> Any:
    """The term's op, applied: what `replay` asks for."""
    return apply(t.op, *args)
