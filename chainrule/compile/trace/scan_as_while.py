"""`scan` as a `while_loop` that counts: its iteration is traced once, and it has derivatives.

A scan that nobody can differentiate is a loop of its own kind (`loop_bodies.py`), which may change
state and draw random numbers. A scan that could be differentiated, and is too long to be unrolled,
is made here. So is every scan in an iteration of a `while_loop`, which then is native as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.compile.graph.loop_body import Keep
from chainrule.compile.trace.closures import traced_input
from chainrule.compile.trace.loop_bodies import loop_as_op
from chainrule.compile.trace.loop_scope import Before
from chainrule.compile.trace.tracer import Tracer
from chainrule.compile.trace.while_loop import Iteration, loop_op, traced_loop
from chainrule.engine.graph import apply, recording, variable
from chainrule.errors import TraceError
from chainrule.ops.indexing.selection import Take
from chainrule.transforms.scan import LONG

FEW = 32
"""At most so many iterations are unrolled, where they could be differentiated. They run up to three
times faster than a loop that keeps what each begins with; each takes a tenth of a second to
compile."""

Both = tuple[list[Any], list[Any]]
"""Carries, and ys."""
Step = Callable[[list[Any], list[Any]], Both]
"""One iteration: from the carries and one element of each of the xs."""


def scan_as_loop(
    tracer: Tracer, iteration: Step, state: list[Any], xs: list[Any], iterations: int
) -> Both | None:
    """The last carries and the ys of a loop; None if it is to be unrolled, or cannot be one."""
    found = loop_as_op(tracer, iteration, state, xs, iterations)
    if found is not None or iterations <= FEW:
        return found
    before, spent = Before.of(tracer), set(tracer.spent)
    try:
        made = scan_as_counted_loop(tracer, iteration, state, xs, iterations)
        if iterations > LONG or not _calls_functions(made):
            return made
    except TraceError:  # it changes state, say
        pass
    before.back(tracer)
    tracer.spent = spent
    return None


def _calls_functions(made: Both) -> bool:
    """Whether an iteration calls a Function of the user's, whose derivative a loop does not
    know."""
    some = next(iter([*made[0], *made[1]]), None)
    return some is not None and some.node.inputs[0].op.loop.inlined


def repeating(
    tracer: Tracer, iteration: Iteration, going: Any, state: list[Any], most: int | None
) -> list[Any]:
    """The last state of a `while_loop`; see `loop_op`."""
    return loop_op(tracer, _counting_within(tracer, iteration), going, state, most)


def scan_as_counted_loop(
    tracer: Tracer, iteration: Step, state: list[Any], xs: list[Any], iterations: int
) -> Both:
    """The last carries and the ys of so many iterations, of which each adds a row to the ys."""
    n = len(state)

    def each(given: list[Any]) -> tuple[Any, list[Any]]:
        i, now, tapes = given[0], given[1 : n + 1], given[n + 1 :]
        new, ys = iteration(now, [apply(Take(0), x, i) for x in xs])
        rows = [apply(Keep(), tape, i, y) for tape, y in zip(tapes, ys, strict=True)]
        return i + 1 < iterations, [i + 1, *new, *rows]

    start = [
        variable(np.zeros((iterations, *s.shape), s.dtype))
        for s in _ys(tracer, iteration, state, xs)
    ]
    zero, going = variable(np.zeros((), np.int64)), variable(np.asarray(iterations > 0))
    loop = _counting_within(tracer, each)
    ends = traced_loop(tracer, loop, going, [zero, *state, *start], iterations)
    return ends[1 : n + 1], ends[n + 1 :]


def _ys(tracer: Tracer, iteration: Step, state: list[Any], xs: list[Any]) -> list[Any]:
    """What the ys of one iteration look like."""
    before, spent = Before.of(tracer), set(tracer.spent)
    with recording(True):
        _, ys = iteration([traced_input(s.shape, s.dtype) for s in state],
                     [traced_input(x.shape[1:], x.dtype) for x in xs])  # fmt: skip
    before.back(tracer)
    tracer.spent = spent
    return [y.value for y in ys]


def _counting_within(tracer: Tracer, iteration: Iteration) -> Iteration:
    """The iteration, in which every scan that is not unrolled at once is a loop that counts."""

    def within(given: list[Any]) -> tuple[Any, list[Any]]:
        outer, tracer.loop = tracer.loop, scan_as_counted_loop
        try:
            return iteration(given)
        finally:
            tracer.loop = outer

    return within
