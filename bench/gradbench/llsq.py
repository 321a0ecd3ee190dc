"""llsq: how badly a polynomial fits the sign function on [-1, 1], and the gradient.

y(x) = 1/2 sum_i (sign(t_i) - sum_j x_j t_i^j)^2 at n points t_i = -1 + 2 i / (n - 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.problem import Function, Input, Jit, Problem, array


def misfit(x: Any, t: Any) -> Any:
    """Coefficients x (m), points t (n) -> ()."""
    ones = cr.ones((len(t), 1), dtype=t.dtype)
    rest = cr.broadcast_to(t[:, None], (len(t), len(x) - 1))
    powers = cr.cumulative_prod(cr.concat([ones, rest], axis=1), axis=1)
    residual = cr.sign(t) - powers @ x
    return cr.sum(residual * residual) / 2


def functions(jit: Jit) -> dict[str, Function]:
    return {"primal": jit(misfit), "gradient": jit(cr.grad(misfit))}


def read(message: Input) -> tuple[Any, ...]:
    n = message["n"]
    return array(message["x"]), -1 + np.arange(n) * 2 / (n - 1)


def make(rng: np.random.Generator, n: int, m: int) -> Input:
    return {"x": rng.random(m), "n": n}


PROBLEM = Problem(
    "llsq", functions, read, make, ({"n": 128, "m": 128}, {"n": 4096, "m": 128}), "gradient"
)
