"""saddle: min over x, max over y of |x|^2 - |y|^2, both by gradient descent.

The outer descent differentiates through the whole inner one. ff, fr, rf, rr: mode of the outer,
then of the inner derivative. Source: Pearlmutter and Siskind, Using Programming Language Theory to
Make Automatic Differentiation Sound and Efficient (AD 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.descent import Descent, argmin, live, start, turn
from bench.gradbench.loops import While, repeated
from bench.gradbench.problem import Function, Input, Jit, Problem, array

BLOCK, BLOCKS = 4, 60
"""Turns of the inner descent that are fused, and how many such blocks are one program."""


def height(x: Any, y: Any) -> Any:
    """(2), (2) -> ()."""
    return cr.sum(x * x) - cr.sum(y * y)


def depth(y: Any, x: Any) -> Any:
    """What the inner descent goes down: (2), (2) -> ()."""
    return -height(x, y)


SLOPE = {"f": cr.jacobian(depth, mode="forward"), "r": cr.grad(depth)}


def down(mode: str, x: Any) -> Function:
    """The inner function of y, with its slope in the given mode."""
    return lambda y: (depth(y, x), SLOPE[mode](y, x))


def tops(jit: Jit, inner: str) -> dict[str, Function]:
    """Of x and where y starts: the highest height over y, and its derivative in x, either mode."""

    def descend(x: Any, state: Any, _: Any) -> Any:
        return tuple(turn(down(inner, x), Descent(*state)))

    begin = jit(lambda x, y: tuple(start(down(inner, x), y)))

    def going(state: Any) -> bool:
        return live(Descent(*[np.asarray(part) for part in state]))

    descent = While(repeated(descend, BLOCK), going, BLOCKS, jit)

    def forward(x: Any, y: Any) -> Any:
        dots = cr.tensor(np.eye(2)), begin_dots(x, y)
        state, dots = descent.tangents(x, begin(x, y), dots)
        return top(x, state[0]), top_dot(x, state[0], dots[0])

    def reverse(x: Any, y: Any) -> Any:
        state, seen = descent.states(x, begin(x, y))
        value, (x_bar, y_bar) = top_bar(x, state[0])
        bar = (y_bar, *[cr.zeros_like(part) for part in state[1:]])
        through, first = descent.cotangents(x, seen, bar)
        return value, x_bar + through + begin_bar(x, y, first)

    eye = cr.tensor(np.eye(2))
    begin_dots = jit(
        lambda x, y: cr.vmap(lambda d: cr.jvp(lambda x: begin(x, y), (x,), (d,))[1])(eye)
    )
    begin_bar = jit(lambda x, y, bar: cr.vjp(lambda x: begin(x, y), x)[1](bar)[0])
    top, top_bar = jit(height), jit(cr.value_and_grad(height, (0, 1)))
    top_dot = jit(
        lambda x, y, dots: cr.vmap(lambda a, b: cr.jvp(height, (x, y), (a, b))[1])(eye, dots)
    )
    return {"f": forward, "r": reverse}


def functions(jit: Jit) -> dict[str, Function]:
    found: dict[str, Function] = {}
    for inner in "fr":
        slope = jit(lambda y, x, inner=inner: down(inner, x)(y))
        for outer, f in tops(jit, inner).items():
            found[outer + inner] = lambda at, f=f, slope=slope: saddle(f, slope, at)
    return found


def saddle(top: Function, slope: Function, at: Any) -> Any:
    """(2) -> (4): x that has the lowest top, and y where that is, both from `at`."""
    x = argmin(lambda x: top(x, at), at)
    return cr.concat([x, argmin(lambda y: slope(y, x), at)])


def read(message: Input) -> tuple[Any, ...]:
    return (array(message["start"]),)


def make(rng: np.random.Generator) -> Input:
    """The suite has this one input."""
    return {"start": [1.0, 1.0]}


PROBLEM = Problem("saddle", functions, read, make, ({},), "rr")
