"""Loops that are one compiled program, and their derivatives in both modes.

A thousand turns unrolled are too long to compile, so they are a `cr.scan` over blocks of a few
turns, each of which the compiler fuses. A scan that is to be compiled must not be differentiated
from outside; so the derivative is taken inside, block by block: tangents go forwards with the
state; cotangents go backwards through the states that each block began with, by the block's own
vjp. That computes each block twice and keeps nothing inside it.

Notation: a block takes (params, state, x) to the next state, all trees of arrays; `bars` are
cotangents and `dots` tangents of (params, state); a `loop` is a block for each of xs.
"""

from __future__ import annotations

from typing import Any

import chainrule as cr
from bench.gradbench.problem import Function


def alone(tree: Any) -> Any:
    """The same numbers, through which nothing is differentiated."""
    return cr.tree_map(lambda x: x.detach() if isinstance(x, cr.Tensor) else x, tree)


def repeated(turn: Function, times: int) -> Function:
    """A block that does the same turn so often."""

    def turns(params: Any, state: Any, x: Any) -> Any:
        for _ in range(times):
            state = turn(params, state, x)
        return state

    return turns


def run(block: Function, params: Any, state: Any, xs: Any) -> tuple[Any, Any]:
    """The last state, and what each block begins with."""

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        return block(params, s, x), s

    return cr.scan(step, state, xs)


def push(block: Function, params: Any, state: Any, xs: Any, dots: Any) -> tuple[Any, Any]:
    """The last state and its dots; dots have a first axis of directions."""
    params_dots, state_dots = dots

    def step(both: Any, x: Any) -> tuple[Any, None]:
        state, state_dots = both

        def along(dot: Any) -> Any:
            return cr.jvp(lambda p, s: block(p, s, x), (params, state), dot)[1]

        return alone((block(params, state, x), cr.vmap(along)((params_dots, state_dots)))), None

    return cr.scan(step, (state, state_dots), xs)[0]


def pull(block: Function, params: Any, seen: Any, xs: Any, bars: Any) -> Any:
    """The bars before the blocks, from those behind them; what arrives at params is added up."""

    def step(bars: Any, at: Any) -> tuple[Any, None]:
        state, x = at
        params_bar, state_bar = cr.vjp(lambda p, s: block(p, s, x), params, state)[1](bars[1])
        return alone((cr.tree_map(lambda a, b: a + b, bars[0], params_bar), state_bar)), None

    last_first = cr.tree_map(lambda a: cr.flip(a, axis=0), (seen, xs))
    return cr.scan(step, bars, last_first)[0]


def gradient(block: Function, params: Any, state: Any, xs: Any, state_bar: Any) -> Any:
    """The bar of params, from that of the last state."""
    _, seen = run(block, params, state, xs)
    return pull(block, params, seen, xs, (cr.tree_map(cr.zeros_like, params), state_bar))[0]


def block_size(turns: int, most: int) -> int:
    """How many turns a block has, so that blocks are alike: the largest divisor up to `most`."""
    return max(d for d in range(1, most + 1) if turns % d == 0)
