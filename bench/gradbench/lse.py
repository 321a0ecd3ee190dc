"""lse: log(sum(exp(x))), with the maximum taken out first, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.problem import Function, Input, Jit, Problem, array


def logsumexp(x: Any) -> Any:
    """(n) -> (), from a maximum and a sum: the suite asks not to use a ready-made one."""
    top = cr.max(x)
    return top + cr.log(cr.sum(cr.exp(x - top)))


def functions(jit: Jit) -> dict[str, Function]:
    return {"primal": jit(logsumexp), "gradient": jit(cr.grad(logsumexp))}


def read(message: Input) -> tuple[Any, ...]:
    return (array(message["x"]),)


def make(rng: np.random.Generator, n: int) -> Input:
    return {"x": rng.random(n)}


PROBLEM = Problem("lse", functions, read, make, ({"n": 2_500}, {"n": 640_000}), ("gradient",))
