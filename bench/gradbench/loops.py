"""Loops of compiled blocks, and their derivatives in both modes.

A loop of a thousand turns makes one program too long to compile, and where its length depends on
values no program at all. So a block of some turns is one program, and Python goes from block to
block: forwards with tangents, or backwards through the states that each block began with, by the
block's own vjp. That computes each block twice and keeps nothing inside it.

Notation: a turn takes (params, state, x) to the next state, all trees of arrays; `bars` are
cotangents and `dots` tangents of (params, state).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import chainrule as cr
from bench.gradbench.problem import Function, Jit


@dataclass(frozen=True)
class Block:
    """Some turns of a loop, as compiled programs.

    run:  (params, state, x) -> state
    push: (params, state, x, dots) -> (state, dots); dots have a first axis of directions
    pull: (params, state, x, bars) -> bars; the bar of params is added to
    """

    run: Function
    push: Function
    pull: Function


def block(turns: Function, jit: Jit) -> Block:
    """A block from what it does: (params, state, x) -> state."""

    def push(params: Any, state: Any, x: Any, dots: Any) -> Any:
        def along(dot: Any) -> Any:
            return cr.jvp(lambda p, s: turns(p, s, x), (params, state), dot)[1]

        params_dots = dots[0]
        return turns(params, state, x), (params_dots, cr.vmap(along)(dots))

    def pull(params: Any, state: Any, x: Any, bars: Any) -> Any:
        _, back = cr.vjp(lambda p, s: turns(p, s, x), params, state)
        params_bar, state_bar = back(bars[1])
        return cr.tree_map(lambda a, b: a + b, bars[0], params_bar), state_bar

    return Block(jit(turns), jit(push), jit(pull))


def repeated(turn: Function, times: int) -> Function:
    """A block that does the same turn so often."""

    def turns(params: Any, state: Any, x: Any) -> Any:
        for _ in range(times):
            state = turn(params, state, x)
        return state

    return turns


def states(block: Block, params: Any, state: Any, xs: Iterable[Any]) -> list[Any]:
    """What each block of a loop begins with, and what the last one leaves."""
    seen = [state]
    for x in xs:
        seen.append(block.run(params, seen[-1], x))
    return seen


def states_while(
    block: Block, params: Any, state: Any, live: Callable[[Any], bool], x: Any = None
) -> list[Any]:
    """The same of a loop that goes on while the state is live; turns leave other states alone."""
    seen = [state]
    while live(seen[-1]):
        seen.append(block.run(params, seen[-1], x))
    return seen


def gradient(
    block: Block, params: Any, seen: Sequence[Any], xs: Sequence[Any], state_bar: Any
) -> tuple[Any, Any]:
    """The bars of params and of the first state, from the bar of the last."""
    bars = cr.tree_map(cr.zeros_like, params), state_bar
    for state, x in zip(reversed(seen[:-1]), reversed(xs), strict=True):
        bars = block.pull(params, state, x, bars)
    return bars


def tangents_while(
    block: Block, params: Any, state: Any, live: Callable[[Any], bool], dots: Any, x: Any = None
) -> tuple[Any, Any]:
    """The last state of such a loop, and its dots."""
    while live(state):
        state, dots = block.push(params, state, x, dots)
    return state, dots[1]
