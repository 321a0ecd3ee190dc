"""scan: a loop whose state is carried from turn to turn, as a function of arrays.

A Python loop in eager mode. In a compiled function it is one op whose body is traced once, unless
it is short: then it is unrolled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from chainrule.engine.graph import placeholder, recording, tracer, variable
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import DtypeError, ShapeError, TraceError, describe
from chainrule.ops.shapes.joining import stack, unstack
from chainrule.tree import Structure, flatten

SHORT, LONG = 4, 256
"""How many turns are always unrolled in a compiled function, and how many can be at most, where
they cannot be a loop."""


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    xs: Any = None,
    length: int | None = None,
) -> tuple[Any, Any]:
    """The last carry, and all ys: `carry, y = f(carry, x)` for each x along the first axis of `xs`.

    `carry`, `xs` and the ys are trees. The leaves of `xs` are arrays of one length (or `xs` is
    None, and f is called `length` times with None); the ys of all turns are stacked along a new
    first axis. A carry keeps its structure, shapes and dtypes, or that is a `ShapeError` or
    `DtypeError`. Gradients flow through. Where they could, a compiled function unrolls a few turns;
    more are a loop that keeps what each began with. It is unrolled after all, at most 256 turns,
    where gradients or random numbers of its own go from turn to turn besides.

    >>> import chainrule as cr
    >>> xs = cr.tensor([1.0, 2.0, 3.0])
    >>> total, sums = cr.scan(lambda c, x: (c + x, c + x), cr.tensor(0.0), xs)
    >>> sums
    tensor([1., 3., 6.], dtype=float32)
    """
    leaves, structure = flatten(xs)
    arrays = [asarray(x) for x in leaves]
    turns = _turns(arrays, length)
    first, shape = flatten(carry)
    state = [asarray(x) for x in first]
    if tracer() is not None and turns > SHORT:
        found = _as_one_loop(f, state, shape, structure, arrays, turns)
        if found is not None:
            return found
    every: list[list[Any]] = []
    out: Structure | None = None
    for parts in zip(*[unstack(a) for a in arrays], strict=True) if arrays else [()] * turns:
        x = structure.unflatten(list(parts))
        state, ys, out = _iteration(f, state, shape, x)
        every.append(ys)
    if out is None:
        return carry, _none(f, state, shape, structure, arrays)
    return shape.unflatten(state), out.unflatten([stack(y) for y in zip(*every, strict=True)])


def _turns(arrays: list[Tensor], length: int | None) -> int:
    """How often the function is called."""
    if any(not a.shape for a in arrays):
        raise ShapeError("scan: each of xs has a first axis, along which it is taken apart")
    sizes: set[int] = {a.shape[0] for a in arrays}
    sizes |= set() if length is None else {length}
    if len(sizes) != 1:
        shapes = ", ".join([str(a.shape) for a in arrays]) or "none"
        raise ShapeError(
            f"scan: xs are arrays of one length, or `length` says how many turns there are; the "
            f"shapes are {shapes}, length is {length}"
        )
    return sizes.pop()


def _iteration(
    f: Callable[[Any, Any], Any], state: list[Any], shape: Structure, x: Any
) -> tuple[list[Any], list[Any], Structure]:
    """One call: the new carry and the ys, as leaves."""
    result = f(shape.unflatten(state), x)
    if not isinstance(result, tuple) or len(cast(Any, result)) != 2:
        raise DtypeError(f"scan: the function returns (carry, y), not {describe(result)}")
    new, y = cast(Any, result)
    leaves, its = flatten(new)
    if its != shape:
        raise ShapeError(f"scan: the carry was {shape}, and is {its} after one step")
    now = [asarray(v) for v in leaves]
    for before, after in zip(state, now, strict=True):
        if before.shape != after.shape or before.dtype != after.dtype:
            kind = ShapeError if before.shape != after.shape else DtypeError
            raise kind(
                f"scan: a carry that was {describe(before)} is {describe(after)} after one "
                "step; a carry keeps its shape and dtype: begin with what a step gives, or use "
                "astype and reshape in the function"
            )
    ys, out = flatten(y)
    return now, [asarray(v) for v in ys], out


def _as_one_loop(
    f: Callable[[Any, Any], Any], state: list[Any], shape: Structure, structure: Structure,
    arrays: list[Any], turns: int,
) -> tuple[Any, Any] | None:  # fmt: skip
    """The result as that of one op; None if the loop is to be unrolled."""
    outs: list[Structure] = []

    def turn(given: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
        new, ys, out = _iteration(f, given, shape, structure.unflatten(parts))
        outs.append(out)
        return new, ys

    t = tracer()
    found = t.loop(t, turn, state, arrays, turns)
    if found is not None:
        return shape.unflatten(found[0]), outs[0].unflatten(found[1])
    if turns > LONG:
        raise TraceError(
            f"scan: {turns} turns are too many to be unrolled in a compiled function (at most "
            f"{LONG}), and they cannot be a loop: their results could be differentiated, and they "
            "change tensors or draw random numbers, or gradients accumulate from turn to turn. "
            "Detach the results, let zero_grad come before backward, carry what changes, or call "
            "a compiled function for one part after the other"
        )
    return None


def _none(
    f: Callable[[Any, Any], Any], state: list[Any], shape: Structure, xs: Structure, arrays: Any
) -> Any:
    """The ys of no turn: what they would be is found on placeholders."""
    given = [placeholder(s.shape, s.dtype) for s in state]
    x = xs.unflatten([placeholder(a.shape[1:], a.dtype) for a in arrays])
    with recording(False):
        _, ys, out = _iteration(f, given, shape, x)
    return out.unflatten([_empty(y.value) for y in ys])


def _empty(y: Any) -> Any:
    return variable(np.zeros((0, *y.shape), y.dtype))
