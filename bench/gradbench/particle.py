"""particle: aim a charged particle at the origin, past two charges that push it away.

It moves by Euler steps of 0.1 from (0, 8) at velocity (0.75, 0), accelerated by minus the gradient
of the potential 1 / |x - (10, 10 - w)| + 1 / |x - (10, 0)|, until it meets the axis; w minimizes
the square of where that is. So a derivative is taken through a loop that takes derivatives, and
how long the loop is depends on w. ff, fr, rf, rr: mode of the outer, then of the inner derivative.
Source: Pearlmutter and Siskind, Using Programming Language Theory to Make Automatic Differentiation
Sound and Efficient (AD 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.descent import argmin
from bench.gradbench.loops import While, repeated
from bench.gradbench.problem import Function, Input, Jit, Problem, array

STEP = 0.1
BLOCK = 24
"""Euler steps that are fused."""
BLOCKS = 15
"""Blocks that are one program; the particle lands after 352 to 355 steps."""
FROM = np.array([0.0, 8.0]), np.array([0.75, 0.0])


def potential(x: Any, w: Any) -> Any:
    """(2), () -> ()."""
    below, above = x[1], x[1] - 10 + w
    beside = x[0] - 10
    return 1 / cr.sqrt(beside**2 + above**2) + 1 / cr.sqrt(beside**2 + below**2)


FORCE = {"f": cr.jacobian(potential, mode="forward"), "r": cr.grad(potential)}


def mover(mode: str) -> Function:
    """A turn: one Euler step of (place, velocity), unless it would reach the axis."""

    def move(w: Any, state: Any, _: Any) -> Any:
        x, v = state
        next_x = x + STEP * v
        next_v = v - STEP * FORCE[mode](x, w)
        above = next_x[1] > 0
        return cr.where(above, next_x, x), cr.where(above, next_v, v)

    return move


def flying(state: Any) -> bool:
    """Whether the next step stays above the axis."""
    x, v = (np.asarray(part) for part in state)
    return bool(x[1] + STEP * v[1] > 0)


def landing(state: Any) -> Any:
    """The square of where the last step's line meets the axis: (2), (2) -> ()."""
    x, v = state
    return (x[0] - x[1] / v[1] * v[0]) ** 2


def slopes(jit: Jit, inner: str) -> dict[str, Function]:
    """The landing and its derivative in w, in either mode: (1) -> (), (1)."""
    flight = While(repeated(mover(inner), BLOCK), flying, BLOCKS, jit)
    land, land_bar = jit(landing), jit(cr.value_and_grad(landing))
    land_dot = jit(lambda s, dots: cr.vmap(lambda d: cr.jvp(landing, (s,), (d,))[1])(dots))
    begin = tuple([cr.tensor(part) for part in FROM])
    still = tuple([cr.zeros((1, 2), dtype=cr.float64)] * 2)

    def forward(w: Any) -> Any:
        dots = cr.ones(1, dtype=cr.float64), still
        state, dots = flight.tangents(w[0], begin, dots)
        return land(state), land_dot(state, dots)

    def reverse(w: Any) -> Any:
        state, seen = flight.states(w[0], begin)
        value, bar = land_bar(state)
        w_bar, _ = flight.cotangents(w[0], seen, bar)
        return value, cr.reshape(w_bar, (1,))

    return {"f": forward, "r": reverse}


def functions(jit: Jit) -> dict[str, Function]:
    found: dict[str, Function] = {}
    for inner in "fr":
        for outer, f in slopes(jit, inner).items():
            found[outer + inner] = lambda w, f=f: argmin(f, w)
    return found


def read(message: Input) -> tuple[Any, ...]:
    return (array([message["w"]]),)


def make(rng: np.random.Generator) -> Input:
    """The suite has this one input."""
    return {"w": 0.0}


PROBLEM = Problem(
    "particle",
    functions,
    read,
    make,
    ({},),
    "rr",
    lambda args, name, result: float(np.asarray(result)[0]),
)
