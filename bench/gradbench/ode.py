"""ode: y_0' = x_0, y_i' = x_i y_(i-1) from y(0) = 0 to t = 2 by Runge-Kutta; what moves the last y.

s steps of the classical method of fourth order; the derivative is the gradient of the last element
in all of x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.loops import block_size, gradient, repeated, run
from bench.gradbench.problem import Function, Input, Jit, Problem, array

END = 2.0
BLOCK = 10
"""At most so many steps are fused."""


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
    def loop(steps: int) -> tuple[Function, Any]:
        size = block_size(steps, BLOCK)
        block = repeated(lambda x, y, _: turn(x, y, END / steps), size)
        return block, np.zeros(steps // size)

    def primal(x: Any, steps: int) -> Any:
        block, xs = loop(steps)
        return run(block, x, cr.zeros_like(x), xs)[0]

    def last(x: Any, steps: int) -> Any:
        block, xs = loop(steps)
        y_bar = np.zeros(len(x))
        y_bar[-1] = 1
        return gradient(block, x, cr.zeros_like(x), xs, y_bar)

    return {"primal": jit(primal), "gradient": jit(last)}


def read(message: Input) -> tuple[Any, ...]:
    return array(message["x"]), message["s"]


def make(rng: np.random.Generator, n: int, s: int) -> Input:
    return {"x": rng.random(n), "s": s}


PROBLEM = Problem(
    "ode", functions, read, make, ({"n": 1000, "s": 10}, {"n": 10_000, "s": 100}), ("gradient",)
)
