"""llsq: how badly a polynomial fits the sign function on [-1, 1], and the gradient.

y(x) = 1/2 sum_i (sign(t_i) - sum_j x_j t_i^j)^2 at n points t_i = -1 + 2 i / (n - 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.problem import Function, Input, Jit, Problem, array


def powers(t: Any, m: int) -> Any:
    """t to the powers 0 ... m - 1, by doubling: (n) -> (n, m)."""
    table = cr.stack([cr.ones_like(t), t], axis=1)
    factor = t * t
    while table.shape[1] < m:
        table = cr.concat([table, table * factor[:, None]], axis=1)
        factor = factor * factor
    return table[:, :m]


def misfit(x: Any, t: Any) -> Any:
    """Coefficients x (m), points t (n) -> ()."""
    residual = cr.sign(t) - powers(t, len(x)) @ x
    return cr.sum(residual * residual) / 2


def functions(jit: Jit) -> dict[str, Function]:
    return {"primal": jit(misfit), "gradient": jit(cr.grad(misfit))}


def read(message: Input) -> tuple[Any, ...]:
    n = message["n"]
    return array(message["x"]), -1 + np.arange(n) * 2 / (n - 1)


def make(rng: np.random.Generator, n: int, m: int) -> Input:
    return {"x": rng.random(m), "n": n}


PROBLEM = Problem(
    "llsq", functions, read, make, ({"n": 128, "m": 128}, {"n": 4096, "m": 128}), ("gradient",)
)
