"""`while_loop` as one op of a compiled function: its iteration is a program, traced once.

The program is closed: whatever an iteration reads from around it is an input. So its derivative
along tangents is made by running the program once more, on placeholders; so is the same loop for
many examples. Each is again such an op (`while_derivatives.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from chainrule.compile.graph.loop_body import COUNT, Keep, WhileLoop, depending, replay
from chainrule.compile.graph.terms import Term
from chainrule.compile.runtime.backend import build_unchecked
from chainrule.compile.trace.closures import close_over, now, run, traced_input
from chainrule.compile.trace.graph_to_program import node_of
from chainrule.compile.trace.loop_scope import Before
from chainrule.compile.trace.tracer import Tracer
from chainrule.compile.trace.while_derivatives import backward, or_zeros, with_tangents, with_tapes
from chainrule.engine.graph import apply, recording, tracer, variable
from chainrule.engine.op import Need, Op, Spec, new_op
from chainrule.errors import TraceError, describe
from chainrule.ops import elementwise as ew
from chainrule.ops.batching import Batched, batch, everywhere
from chainrule.ops.families import broadcast_to
from chainrule.ops.indexing.selection import Where
from chainrule.ops.reductions.reduction import Found
from chainrule.ops.shapes.shaping import reshape


class While(Op):
    """All iterations of a `while_loop`: the carries when it ends."""

    loop: WhileLoop
    many: ClassVar[bool] = True
    quiet: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """`while_loop`."""
        return "while_loop"

    def eval(self, *xs: Any) -> Any:
        """The last carries; each iteration is a call."""
        arrays = [np.array(a, order="C") for a in xs]  # the program writes into these
        while arrays[0]:
            self.loop.run(build_unchecked, arrays)
        return tuple(arrays[: self.loop.carries])

    def spec(self, *xs: Any) -> Any:
        """Those of the carries."""
        return self.loop.specs()

    def reads(self, i: int) -> tuple[int, ...]:
        """All inputs: the loop is run again."""
        return tuple(range(1, 1 + len(self.loop.program.inputs)))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The loop once more, keeping what each iteration begins with, and one that goes back."""
        self._refuse_functions()
        loop, n = self.loop, self.loop.carries
        if loop.most is None:
            raise TraceError(_ENDLESS)
        back = backward(loop, [i for i, bar in enumerate(g) if bar is not None])
        inputs = loop.program.inputs
        tapes = [
            np.zeros((loop.most, *inputs[i].shape), inputs[i].dtype) for i in back.saved_inputs
        ]
        ends = apply(new_op(While, with_tapes(loop, back.saved_inputs)), *xs[:n], *tapes, *xs[n:])
        count, last = ends[COUNT], [*g, *[None] * (len(inputs) - n)]
        moved = [*back.heads, *back.rest]
        bars = [or_zeros(last[i], inputs[i]) for i in moved]
        kept = ends[n:]
        start = count > 0, np.zeros((), np.int64)
        found = apply(new_op(While, back.loop), *start, *bars, *kept, *xs[n:], count)
        by_input = dict(zip(moved, found[2:], strict=True))
        return [by_input.get(i) if needed else None for i, needed in enumerate(need)]

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangents of the carries: a loop that carries them along."""
        self._refuse_functions()
        n, inputs = self.loop.carries, self.loop.program.inputs
        wide, moved = with_tangents(self.loop, [t is not None for t in ts])
        heads, rest = [i for i in moved if i < n], [i for i in moved if i >= n]
        dots = [or_zeros(ts[i], inputs[i]) for i in heads]
        ends = apply(new_op(While, wide), *xs[:n], *dots, *xs[n:], *[ts[i] for i in rest])
        found = dict(zip(heads, ends[n:], strict=True))
        still = [variable(np.zeros(x.shape, x.dtype)) for x in inputs[:n]]
        return tuple([found.get(i, zero) for i, zero in enumerate(still)])

    def _refuse_functions(self) -> None:
        if self.loop.inlined:
            raise TraceError(
                "while_loop: a turn calls a Function, and of that a compiled loop knows what it "
                "computes, but not the derivative that it states. Write the turn with ops, or call "
                "the function without jit"
            )


_ENDLESS = (
    "while_loop: reverse mode through a loop needs what each turn began with, and a compiled "
    "function must know for how many turns: say while_loop(.., most=n). Or use scan with a fixed "
    "length, forward mode (jvp, or jacobian with mode='forward'), detach the result, or call the "
    "function without jit"
)


def loop_op(
    tracer: Tracer, iteration: Iteration, going: Any, state: list[Any], most: int | None
) -> list[Any]:
    """The last state of a loop of at most so many iterations, as results of one op; `iteration`
    gives whether it goes on, and the new state."""
    if most is not None:
        going, iteration = going & (most > 0), _counting(iteration, most)
        state = [variable(np.zeros((), np.int64)), *state]
    ends = traced_loop(tracer, iteration, going, state, most)
    return ends if most is None else ends[1:]


def traced_loop(
    tracer: Tracer, iteration: Iteration, going: Any, state: list[Any], most: int | None
) -> list[Any]:
    """The last state of a loop; if `most` is given, the first of the state counts iterations."""
    before = Before.of(tracer)
    start = now()
    given = [traced_input(s.shape, s.dtype) for s in (going, *state)]
    with recording(True):
        more, new = iteration(given[1:])
    _refuse_effects(tracer, before)
    news = [node_of(x) for x in (more, *new)]
    before.back(tracer)
    loop, consts = close_over(tracer, start, [x.node for x in given], news)
    outside = [variable(Spec(n.shape, n.dtype), n) for n in consts]
    ends = apply(new_op(While, replace(loop, most=most)), going, *state, *outside)
    return list(ends[1:])


Iteration = Callable[[list[Any]], tuple[Any, list[Any]]]


def _counting(iteration: Iteration, most: int) -> Iteration:
    """The iteration with a carry in front that counts, and ends the loop."""

    def count_iterations(given: list[Any]) -> tuple[Any, list[Any]]:
        more, new = iteration(given[1:])
        count = given[0] + 1
        return more & (count < most), [count, *new]

    return count_iterations


def _refuse_effects(tracer: Tracer, before: Before) -> None:
    """An error for what an iteration does besides giving a new state."""
    if len(tracer.draws) != before.draws:
        raise TraceError(
            "while_loop: a turn draws random numbers, and how many all turns draw is not known "
            "before a compiled call. Draw what it needs outside, or use scan"
        )
    for k, (lift, node) in enumerate(before.pairs(tracer)):
        slot = lift.grad
        was = before.grads[k] if k < len(before.grads) else (None, False)
        graded = slot is not None and (slot.now is not was[0] or slot.set is not was[1])
        if lift.tensor.node is not node or graded:
            raise TraceError(
                f"while_loop: a turn changes {describe(lift.value)}, which it reaches by itself, "
                "or its gradient. Make it a part of the state, or use scan"
            )


# --- the same loop for many examples -------------------------------------------------------------


@batch.register
def _(op: While, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    """One loop for all examples. Where they differ in how long they go on, it goes on while any
    does, and those that are done keep their state."""
    loop = op.loop
    flags, own = _spread(loop, batched)
    wide = [
        broadcast_to(x, (size, *x.shape)) if f and not b else x
        for x, f, b in zip(xs, flags, batched, strict=True)
    ]
    start, t = now(), tracer()
    places = [traced_input(x.shape, x.dtype) for x in wide]
    known: dict[Term, Any] = dict(zip(loop.program.inputs, places, strict=True))
    marked = {i for i, f in zip(loop.program.inputs, flags, strict=True) if f}
    found = depending(loop.after(), marked)

    def each(t: Term, args: list[Any]) -> Any:
        if t not in found:
            return run(t, args)
        return batch(t.op, args, [a in found for a in t.args], size)

    with recording(True):
        new = replay(loop.after(), known, each)
        pairs = list(zip(loop.after(), new, flags, strict=False))
        new = [broadcast_to(x, (size, *x.shape)) if f and a not in found else x
               for a, x, f in pairs]  # fmt: skip
        if own:
            places, new = _while_any(places, new)
            wide = [apply(_ANY, wide[0]), *wide]
    nodes = [node_of(x) for x in new]
    made, _ = close_over(t, start, [p.node for p in places], nodes)
    same = loop.extends if not any(flags[: _shared_carries(loop)]) else None
    most = loop.most if loop.most is not None and not flags[COUNT] else None
    made = replace(made, inlined=loop.inlined, extends=same, most=most)
    ends = apply(new_op(While, made), *wide)[own:]
    return tuple(
        [y if f else broadcast_to(y, (size, *y.shape)) for y, f in zip(ends, flags, strict=False)]
    )


@batch.register
def _(op: Keep, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    """All tapes, one after the other, as one: each example writes to a row of its own."""
    tape, at, row = everywhere(xs, batched, size)
    most = tape.shape[1]
    flat = reshape(tape, (size * most, *tape.shape[2:]))
    first = np.arange(size).reshape(size, *[1] * (len(at.shape) - 1)) * most
    return reshape(apply(op, flat, at + first, row), tape.shape)


def _shared_carries(loop: WhileLoop) -> int:
    """How many carries are those of the loop that this one extends."""
    return loop.extends.carries if loop.extends is not None else 0


_ANY = Found("any", (0,), False)


def _while_any(places: list[Any], new: list[Any]) -> tuple[list[Any], list[Any]]:
    """The carries before and after an iteration of a loop that goes on while any example does. That
    condition is another carry in front. Examples that are done keep their carries."""
    going, *olds = places
    kept = [
        apply(Where(), _beside(going, x), x, old) for x, old in zip(new[1:], olds, strict=False)
    ]
    more = apply(ew.logical_and, going, new[0])
    return [traced_input((), np.dtype(bool)), *places], [apply(_ANY, more), more, *kept]


def _beside(going: Any, x: Any) -> Any:
    """One bool for each example beside arrays with more axes."""
    return reshape(going, (going.shape[0], *[1] * (len(x.shape) - 1)))


def _spread(loop: WhileLoop, batched: Sequence[bool]) -> tuple[list[bool], bool]:
    """Which inputs differ between examples in some iteration, and whether the number of iterations
    does."""
    flags = list(batched)
    while True:
        if flags[0]:  # then each carry is what it was when its example ended
            flags[: loop.carries] = [True] * loop.carries
        marked = {t for t, f in zip(loop.program.inputs, flags, strict=True) if f}
        found = depending(loop.after(), marked)
        more = [f or t in found for f, t in zip(flags, loop.after(), strict=False)]
        if more == flags[: loop.carries]:
            return flags, flags[0]
        flags[: loop.carries] = more
