"""From what a traced run left to a compiled `Variant`, and to the program of its derivative."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.compile.graph.terms import Program
from chainrule.compile.runtime.backend import Run, build
from chainrule.compile.trace.captured_state import GradSlot
from chainrule.compile.trace.derivative import Compiled, Derivative, standing_in
from chainrule.compile.trace.graph_to_program import node_of, nodes_to_compute, program
from chainrule.compile.trace.outcome import Outcome, State
from chainrule.compile.trace.results import finishing
from chainrule.compile.trace.state_inputs import Draw, Held, HeldGrad, HeldNumber
from chainrule.compile.trace.tracer import Tracer
from chainrule.compile.trace.variant import Variant
from chainrule.engine.derive import pullback_nodes
from chainrule.engine.graph import order, placeholder
from chainrule.engine.node import Node
from chainrule.engine.op import Spec, new_op


@final
@dataclass(frozen=True, eq=False)
class Call:
    """Calls the function with these leaves of its arguments, by their places; the others as traced.

    `roots` are the function and those others: what it can read of what was there before.
    """

    run: Callable[[Mapping[int, Any]], Any]
    roots: Sequence[Any]

    def __call__(self, given: Mapping[int, Any]) -> Any:
        """The function's result."""
        return self.run(given)


def assemble(
    name: str,
    tracer: Tracer,
    left: Outcome,
    states: Sequence[State],
    call: Call,
    make: Callable[[Program], Any] | None,
) -> Variant:
    """The program of what was noted, which `make` makes run, and where its inputs come from."""
    assert left.structure is not None
    states = _outliving(left, states)
    arg = dict(left.args)
    updates = {**{arg[i]: n for i, n in left.changed}, **left.updates}
    walk = nodes_to_compute(tracer, [*left.outs, *updates.values()])
    back = nodes_to_compute(tracer, list(left.bars.values()))
    used = {*walk, *updates, *back}
    args = [(i, n) for i, n in left.args if n in used]
    held = [s for s in states if s.leaf in used]
    grads = [s for s in states if s.slot is not None and (s.slot.set or s.slot.was_read)]
    slots = [n for s in grads if s.slot is not None and (n := s.slot.place) in used and n]
    numbers = [n for n in tracer.numbers if n.node in used or n.truth is not None]
    draws = [n for _, n in tracer.draws if n in used]
    leaves = [*[n for _, n in args], *[s.leaf for s in held], *slots]
    places = [*leaves, *[n.node for n in numbers], *draws]
    index = {n: k for k, n in enumerate(places)}
    news = [(index[n], to) for n, to in updates.items()]
    run = (make or build)(program(tracer, walk, places, left.outs, news))
    pure = not (updates or tracer.draws or tracer.numbers or grads)
    again = _again(call, args, held) if pure else None
    op = _compiled(name, tracer, left, run, back, places, news, again)
    return Variant(
        run, [i for i, _ in args], [(i, index[arg[i]]) for i, _ in left.changed],
        [Held(s.tensor, s.spec, s.node, s.leaf in updates) for s in held],
        [_held_grad(s, s.slot, {*walk, *back}, updates) for s in grads if s.slot is not None],
        [HeldNumber(n.entry, n.check, n.truth, np.zeros(()), n.name, n.range) for n in numbers],
        [Draw(take, n in used) for take, n in tracer.draws],
        left.truths, left.results, finishing(left.results, left.structure), op, left.guards,
    )  # fmt: skip


def _outliving(left: Outcome, states: Sequence[State]) -> list[State]:
    """The state that is still there; the rest was the function's own after all: constants."""
    found: list[State] = []
    for s in states:
        if s.tensor() is None:
            s.leaf.y = s.value
            left.updates.pop(s.leaf, None)
        else:
            found.append(s)
    return found


def _held_grad(s: State, slot: GradSlot, used: set[Node], updates: Mapping[Node, Node]) -> HeldGrad:
    """What a call does with the gradient of a state tensor."""
    first = (slot.first is not None) if slot.was_read else None
    last = (slot.now is not None) if slot.set else None
    written = slot.place in updates
    read = slot.place in used
    return HeldGrad(s.tensor, s.spec, first, last, read=read, written=written)


# --- The derivative ------------------------------------------------------------------------------


def note_derivative(tracer: Tracer, left: Outcome) -> None:
    """Trace how cotangents of the results flow back to arguments and state that need a gradient.

    A result whose graph a backward pass inside the function has used up has no derivative.
    """
    leaves = [n for _, n in left.args if n.needs]
    leaves += [lift.leaf for lift in tracer.lifts if lift.leaf.needs]
    wanted = set(leaves)
    seeds: dict[Node, Any] = {}
    for k, node in enumerate(left.outs):
        if not node.needs:
            continue
        walk = order([node])
        if wanted.isdisjoint(walk) or not tracer.spent.isdisjoint(walk):
            continue
        g = placeholder(node.shape, node.dtype)
        left.gs.append((k, g.node))
        seeds[node] = seeds[node] + g if node in seeds else g
    if not seeds:
        return
    got = pullback_nodes(order(seeds), seeds, wanted, record=False, free=False)
    for leaf in leaves:
        if leaf in got:
            left.bars[leaf] = node_of(got[leaf])


def _compiled(
    name: str,
    tracer: Tracer,
    left: Outcome,
    run: Run,
    back: Sequence[Node],
    places: Sequence[Node],
    news: Sequence[tuple[int, Node]],
    again: Callable[[Sequence[Any]], Any] | None,
) -> Compiled | None:
    """What a call is as an op, whose derivative `note_derivative` noted; None if there is none. The
    program's inputs are `places`."""
    if not left.gs:
        return None
    differentiable = {k for k, _ in left.gs}
    inputs = [*places, *[n for _, n in left.gs]]
    backward = program(tracer, back, inputs, list(left.bars.values()), [])
    index = {n: k for k, n in enumerate(places)}
    known = Derivative(
        name,
        run,
        [Spec(n.shape, n.dtype) for n in left.outs],
        [k in differentiable for k in range(len(left.outs))],
        [index[n] for n in left.bars],
        backward,
        [k for k, _ in news if places[k] in back],
        again,
    )
    return new_op(Compiled, known)


def _again(call: Call, args: Sequence[tuple[int, Node]], held: Sequence[State]) -> Any:
    """Runs the function itself, on tensors in the order of the program's inputs."""
    tensors = [s.tensor for s in held]

    def again(inputs: Sequence[Any]) -> Any:
        state = [t() for t in tensors]
        pairs = list(zip(state, inputs[len(args) :], strict=True))
        with standing_in([(t, x) for t, x in pairs if t is not None]):
            return call({i: x for (i, _), x in zip(args, inputs, strict=False)})

    return again
