"""A loop as one op of a compiled function: its body is a program of its own, traced once.

Besides the carry that the user names, every tensor that the body changes (parameters, an
optimizer's state) is carried from one iteration to the next. What the body only reads is handed to
it.

Notation: a carry has an `init`, and in the body a node where it comes in and one where it goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, final

import numpy as np

from chainrule.compile.graph.compiled_ops import ProgramOp
from chainrule.compile.graph.rules.index_checks import refuse
from chainrule.compile.graph.terms import Program
from chainrule.compile.runtime.backend import build
from chainrule.compile.runtime.many_runs import ManyRuns, Parts
from chainrule.compile.trace.captured_state import GradSlot
from chainrule.compile.trace.graph_to_program import node_of, nodes_to_compute, program
from chainrule.compile.trace.loop_scope import Before, BodyScope
from chainrule.compile.trace.tracer import Tracer
from chainrule.engine.graph import apply, leaf, order, placeholder, variable
from chainrule.engine.node import Node
from chainrule.engine.op import Spec, new_op


@final
@dataclass(eq=False)
class Body:
    """One iteration. Its inputs: the carries, which it updates, one element of each of the xs, and
    what it only reads. Its results: `last` values of which only those of the last iteration count,
    the ys.
    """

    program: Program
    iterations: int
    carries: int
    xs: int
    last: int
    _run: Any = field(default=None)

    def specs(self) -> tuple[Spec, ...]:
        """Of the last carries, of the last values, and of the ys of all iterations."""
        carried = self.program.inputs[: self.carries]
        outs = [Spec(t.shape, t.dtype) for t in (*carried, *self.program.results)]
        head = self.carries + self.last
        return (*outs[:head], *[Spec((self.iterations, *s.shape), s.dtype) for s in outs[head:]])

    def loop(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """All iterations, one after the other."""
        if self._run is None:
            self._run = build(self.program)
        n, m, run = self.carries, self.carries + self.xs, self._run
        state = [np.array(a, order="C") for a in values[:n]]  # the program writes into these
        xs, rest = [[_contiguous(a) for a in part] for part in (values[n:m], values[m:])]
        ys = [np.empty(s.shape, s.dtype) for s in self.specs()[n + self.last :]]
        if run.loaded.hosts:  # an iteration needs Python
            return (*state, *self._one_by_one(run, state, xs, rest, ys), *ys)
        ends = [np.empty(s.shape, s.dtype) for s in self.specs()[n : n + self.last]]
        flags = [np.zeros(self.iterations, np.int64)] if run.checks else []
        objects = [*state, *map(Parts, xs), *rest, *ends, *map(Parts, [*ys, *flags])]
        rows = np.full((self.iterations, 1), ~0)  # all of the only sizes
        ManyRuns(run.loaded, objects, [run.loaded.block(())])(rows)
        if flags and (outside := np.bitwise_or.reduce(flags[0])):
            refuse(int(outside), run.checks)
        return (*state, *ends, *ys)

    def _one_by_one(self, run: Any, state: Any, xs: Any, rest: Any, ys: Any) -> list[Any]:
        """All iterations, each a call; the last values."""
        ends: list[Any] = []
        for i in range(self.iterations):
            out = run([*state, *[x[i, ...] for x in xs], *rest])
            ends = out[: self.last]
            for y, part in zip(ys, out[self.last :], strict=True):
                y[i] = part
        return ends


def _contiguous(a: Any) -> Any:
    return np.ascontiguousarray(a).reshape(a.shape)


class Loop(ProgramOp):
    """All iterations of a `scan` in a compiled function. It has no derivative: see `loop_as_op`."""

    body: Body
    many: ClassVar[bool] = True
    quiet: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """`scan`."""
        return "scan"

    def eval(self, *xs: Any) -> Any:
        """The last carries, the last values, the ys."""
        return self.body.loop(xs)

    def spec(self, *xs: Any) -> Any:
        """As the body tells."""
        return self.body.specs()


def loop_as_op(
    tracer: Tracer,
    iteration: Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]],
    state: list[Any],
    xs: list[Any],
    iterations: int,
) -> tuple[list[Any], list[Any]] | None:
    """The last carries and the ys of a loop, as results of one op; None if that cannot be.

    It cannot if a result could be differentiated outside. Nor can it if iterations differ: the
    first one finds no gradient, say, and leaves one that the second one reads.
    """
    before = Before.of(tracer)
    spent = set(tracer.spent)
    start = leaf((), np.dtype(float), needs=False).serial
    given = [placeholder(s.shape, s.dtype, needs=s.requires_grad) for s in state]
    parts = [placeholder(x.shape[1:], x.dtype, needs=x.requires_grad) for x in xs]
    new, ys = iteration(given, parts)
    turned = _TracedIteration(
        [x.node for x in given], [x.node for x in parts], [node_of(v) for v in new],
        [node_of(v) for v in ys], tracer.draws[before.draws :],
    )  # fmt: skip
    alike = turned.add_state(tracer, before) and not turned.is_open(tracer, start)
    body, consts = turned.body(tracer, start, iterations) if alike else (None, [])
    before.back(tracer)
    if body is None:
        tracer.spent = spent
        return None
    stacks = _drawn_at_once(tracer, turned.draws, iterations)
    init = [_like(n) for n in turned.comes_in[len(given) :]]
    values = apply(new_op(Loop, body), *state, *init, *xs, *stacks, *[_like(n) for n in consts])
    for tensor, value in zip(turned.tensors, values[len(state) : body.carries], strict=True):
        tracer.assign(tensor, value)
    for slot, value in zip(turned.slots, values[body.carries :], strict=False):
        slot.grad = value
    for slot in turned.cleared:
        slot.grad = None
    return list(values[: len(state)]), list(values[body.carries + body.last :])


def _like(node: Node) -> Any:
    return variable(Spec(node.shape, node.dtype), node)


@final
@dataclass(eq=False)
class _TracedIteration:
    """What one traced iteration took and gave, as nodes."""

    comes_in: list[Node]
    elements: list[Node]
    goes_out: list[Node]
    ys: list[Node]
    draws: list[tuple[Callable[[], Any], Node]]
    tensors: list[Any] = field(default_factory=list[Any])
    """The tensors that it changed: their carries follow those of the user."""
    slots: list[GradSlot] = field(default_factory=list[GradSlot])
    """The gradients that it left."""
    ends: list[Node] = field(default_factory=list[Node])
    """The values of those."""
    cleared: list[GradSlot] = field(default_factory=list[GradSlot])

    def add_state(self, tracer: Tracer, before: Before) -> bool:
        """Add what it did to the state; whether another iteration would find things alike."""
        for k, (lift, old) in enumerate(before.pairs(tracer)):
            if lift.tensor.node is not old:
                self.comes_in.append(old)
                self.goes_out.append(lift.tensor.node)
                self.tensors.append(lift.tensor)
            slot = lift.grad
            was, was_set = before.grads[k] if k < len(before.grads) else (None, False)
            if slot is None or (slot.now is was and slot.set is was_set):
                continue
            if slot.now is None:
                if slot.was_read and (was is not None or slot.first is not None):
                    return False
                self.cleared.append(slot)
            elif slot.was_read:
                return False
            else:
                self.slots.append(slot)
                self.ends.append(node_of(slot.now))
        return True

    def is_open(self, tracer: Tracer, start: int) -> bool:
        """Whether a result could be differentiated with respect to something outside."""
        given = {*self.comes_in, *self.elements}
        for node in [*self.goes_out, *self.ys]:
            walk = order([node]) if node.needs else []
            outside = any(n.needs and (n.serial < start or n in given) for n in walk)
            if outside and tracer.spent.isdisjoint(walk):
                return True
        return False

    def body(self, tracer: Tracer, start: int, iterations: int) -> tuple[Body, list[Node]]:
        """The program of the iteration, and what it only reads."""
        own = [*self.comes_in, *self.elements, *[n for _, n in self.draws]]
        scope = BodyScope(tracer, start, set(own))
        walk = nodes_to_compute(scope, [*self.goes_out, *self.ends, *self.ys])
        consts = scope.consts(walk)
        news = list(enumerate(self.goes_out))
        made = program(scope, walk, [*own, *consts], [*self.ends, *self.ys], news)
        xs = len(self.elements) + len(self.draws)
        return Body(made, iterations, len(self.comes_in), xs, len(self.ends)), consts


def _drawn_at_once(tracer: Tracer, drawn: Sequence[Any], iterations: int) -> list[Any]:
    """The random numbers of all iterations, drawn before the call in the order of the
    iterations."""
    found: list[list[Any]] = []

    def take(k: int) -> Any:
        if k == 0:
            found[:] = [[draw() for draw, _ in drawn] for _ in range(iterations)]
        return np.stack([row[k] for row in found])

    return [
        tracer.draw(partial(take, k), (iterations, *n.shape), n.dtype)
        for k, (_, n) in enumerate(drawn)
    ]
