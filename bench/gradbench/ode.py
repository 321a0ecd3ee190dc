"""ode: y_0' = x_0, y_i' = x_i y_(i-1) from y(0) = 0 to t = 2 by Runge-Kutta; what moves the last y.

s steps of the classical method of fourth order; the derivative is the gradient of the last element
in all of x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.loops import block, gradient, states
from bench.gradbench.problem import Function, Input, Jit, Problem, array

END = 2.0
BLOCK = 10
"""Steps that are compiled into one program."""


def slope(x: Any, y: Any) -> Any:
    """dy/dt: (n), (n) -> (n)."""
    return x * cr.concat([cr.ones(1, dtype=y.dtype), y[:-1]])


def turn(x: Any, y: Any, h: float) -> Any:
    """One step of length h: (n), (n) -> (n)."""
    k1 = slope(x, y)
    k2 = slope(x, y + h / 2 * k1)
    k3 = slope(x, y + h / 2 * k2)
    k4 = slope(x, y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def functions(jit: Jit) -> dict[str, Function]:
    def turns(x: Any, y: Any, steps: tuple[int, int]) -> Any:
        here, all_of_them = steps
        for _ in range(here):
            y = turn(x, y, END / all_of_them)
        return y

    some = block(turns, jit)

    def run(x: Any, steps: int) -> list[Any]:
        return states(some, x, cr.zeros_like(x), parts(steps))

    def primal(x: Any, steps: int) -> Any:
        return run(x, steps)[-1]

    def last(x: Any, steps: int) -> Any:
        y_bar = np.zeros(len(x))
        y_bar[-1] = 1
        return gradient(some, x, run(x, steps), parts(steps), cr.tensor(y_bar))[0]

    return {"primal": primal, "gradient": last}


def parts(steps: int) -> list[tuple[int, int]]:
    """How many steps each block has, of how many in all."""
    return [(min(BLOCK, steps - done), steps) for done in range(0, steps, BLOCK)]


def read(message: Input) -> tuple[Any, ...]:
    return array(message["x"]), message["s"]


def make(rng: np.random.Generator, n: int, s: int) -> Input:
    return {"x": rng.random(n), "s": s}


PROBLEM = Problem(
    "ode", functions, read, make, ({"n": 1000, "s": 10}, {"n": 10_000, "s": 100}), "gradient"
)
