"""hello: the square of a number, and its derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.problem import Function, Input, Jit, Problem, array


def square(x: Any) -> Any:
    """x squared."""
    return x * x


def functions(jit: Jit) -> dict[str, Function]:
    return {"square": jit(square), "double": jit(cr.grad(square))}


def read(message: Any) -> tuple[Any, ...]:
    # this eval alone sends a bare number
    return (array(message),)


def make(rng: np.random.Generator) -> Input:
    return rng.normal()


PROBLEM = Problem("hello", functions, read, make, ({},), ("double",))
