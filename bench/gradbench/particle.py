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
from bench.gradbench.descent import argmin, value_and_slope
from bench.gradbench.problem import Function, Input, Jit, Problem, array

STEP = 0.1
MOST = 1000
"""Steps of a flight at most, for which there is room to go back; it lands after some 354."""
FROM = np.array([0.0, 8.0]), np.array([0.75, 0.0])


def potential(x: Any, w: Any) -> Any:
    """(2), () -> ()."""
    below, above = x[1], x[1] - 10 + w
    beside = x[0] - 10
    # in one op: JAX is faster with a root and a division, and has those
    return cr.rsqrt(beside**2 + above**2) + cr.rsqrt(beside**2 + below**2)


FORCE = {"f": cr.jacobian(potential, mode="forward"), "r": cr.grad(potential)}


def flying(state: Any) -> Any:
    """Whether the next step stays above the axis."""
    x, v = state
    return x[1] + STEP * v[1] > 0


def landing(mode: str, w: Any) -> Any:
    """The square of where the last step's line meets the axis: (1) -> ()."""

    def move(state: Any) -> Any:
        x, v = state
        return x + STEP * v, v - STEP * FORCE[mode](x, w[0])

    x, v = cr.while_loop(flying, move, FROM, most=MOST)
    return (x[0] - x[1] / v[1] * v[0]) ** 2


def functions(jit: Jit) -> dict[str, Function]:
    def program(outer: str, inner: str) -> Function:
        return jit(lambda w: argmin(value_and_slope(outer, lambda w: landing(inner, w)), w))

    return {outer + inner: program(outer, inner) for outer in "fr" for inner in "fr"}


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
    ("fr", "rr"),
    lambda args, name, result: float(np.asarray(result)[0]),
)
