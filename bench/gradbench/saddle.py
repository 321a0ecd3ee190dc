"""saddle: min over x, max over y of |x|^2 - |y|^2, both by gradient descent.

The outer descent differentiates through the whole inner one. ff, fr, rf, rr: mode of the outer,
then of the inner derivative. Source: Pearlmutter and Siskind, Using Programming Language Theory to
Make Automatic Differentiation Sound and Efficient (AD 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.descent import argmin, value_and_slope
from bench.gradbench.problem import Function, Input, Jit, Problem, array

MOST = 1000
"""Attempts of an inner descent at most, for which there is room to go back; it takes some 169."""


def height(x: Any, y: Any) -> Any:
    """(2), (2) -> ()."""
    return cr.sum(x * x) - cr.sum(y * y)


def highest(mode: str, x: Any, at: Any) -> Any:
    """Where over y the height is greatest, from `at`: (2), (2) -> (2)."""
    return argmin(value_and_slope(mode, lambda y: -height(x, y)), at, MOST)


def functions(jit: Jit) -> dict[str, Function]:
    def program(outer: str, inner: str) -> Function:
        def saddle(at: Any) -> Any:
            """(2) -> (4): x that has the lowest top, and y where that is, both from `at`."""
            top = value_and_slope(outer, lambda x: height(x, highest(inner, x, at)))
            x = argmin(top, at)
            return cr.concat([x, highest(inner, x, at)])

        return jit(saddle)

    return {outer + inner: program(outer, inner) for outer in "fr" for inner in "fr"}


def read(message: Input) -> tuple[Any, ...]:
    return (array(message["start"]),)


def make(rng: np.random.Generator) -> Input:
    """The suite has this one input."""
    return {"start": [1.0, 1.0]}


PROBLEM = Problem("saddle", functions, read, make, ({},), ("fr", "rr"))
