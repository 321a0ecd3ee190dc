"""while_loop: a loop whose length depends on values, as a function of arrays.

A Python loop in eager mode. In a compiled function it is one op whose turn is traced once, and one
native loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from chainrule.engine.graph import tracer
from chainrule.engine.op import Spec
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ConfigError, DtypeError, ShapeError, TraceError, describe
from chainrule.tree import Structure, flatten

BOOL = np.dtype(bool)


def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Any],
    state: Any,
    *,
    most: int | None = None,
) -> Any:
    """The state after `state = body(state)` was done as long as `cond(state)` was true, and at most
    so many times, if `most` is given.

    `state` is a tree of arrays and numbers. `body` keeps its structure, shapes and dtypes, or that
    is a `ShapeError` or `DtypeError`; `cond` gives one bool. Both may use arrays from around them.

    In a compiled function the loop is native: no Python runs between turns, and nothing can
    interrupt it. Forward mode (`jvp`, `jacobian(mode="forward")`) carries tangents from turn to
    turn; derivatives that are taken within `body` are of any mode. Reverse mode through the loop
    needs what each turn began with. Eager calls keep it; a compiled function does if it knows for
    how many turns, by `most`, and raises a `TraceError` otherwise; so it goes for derivatives of
    derivatives. `vmap` works in a compiled function: the loop runs until no example goes on, and
    those that are done keep their state. So an index that is outside, an error elsewhere, takes the
    nearest element there. Random numbers, and changes of tensors that `body` reaches by itself, are
    refused there.

    >>> import chainrule as cr
    >>> cr.while_loop(lambda s: s["x"] < 100, lambda s: {"x": s["x"] * 3}, {"x": cr.tensor(1.0)})
    {'x': tensor(243., dtype=float32)}
    """
    if most is not None and most < 0:
        raise ConfigError(f"while_loop: most={most} turns: say 0 or more, or None for any number")
    leaves, shape = flatten(state)
    now = [_leaf(x) for x in leaves]
    going = _going(cond, shape, now)
    t = tracer()
    if t is not None:

        def turn(given: list[Any]) -> tuple[Any, list[Any]]:
            new = _iteration(body, shape, given)
            return _going(cond, shape, new), new

        return shape.unflatten(t.repeat(t, turn, going, now, most))
    done = 0
    while _is_true(going) and done != most:
        now, done = _iteration(body, shape, now), done + 1
        going = _going(cond, shape, now)
    return shape.unflatten(now)


def _leaf(x: Any) -> Tensor:
    """A leaf of the state as a tensor; one that stands for a Python number gets a dtype here."""
    tensor = asarray(x)
    value: Any = tensor.value
    if value.__class__ is Spec and value.weak and (t := tracer()) is not None:
        return t.strong(tensor, asarray(value.dtype.type(0).item()).dtype)
    return tensor


def _going(cond: Callable[[Any], Any], shape: Structure, state: list[Any]) -> Tensor:
    """Whether there is another turn."""
    going = asarray(cond(shape.unflatten(state)))
    if going.shape != () or going.dtype != BOOL:
        kind = ShapeError if going.shape != () else DtypeError
        raise kind(
            f"while_loop: cond gives one bool, not {describe(going.value)}: compare, and say "
            "all(..) or any(..) where there are several"
        )
    return going


def _is_true(going: Tensor) -> bool:
    if going.value.__class__ is Spec:
        raise TraceError(
            "while_loop: under vmap every example has a number of turns of its own, so the loop "
            "must be compiled: jit(vmap(f)) in the place of vmap(f)"
        )
    return bool(going.value)


def _iteration(body: Callable[[Any], Any], shape: Structure, state: list[Any]) -> list[Any]:
    """One call of the body, as leaves."""
    leaves, its = flatten(body(shape.unflatten(state)))
    if its != shape:
        raise ShapeError(f"while_loop: the state was {shape}, and is {its} after one iteration")
    new = [asarray(x) for x in leaves]
    for path, before, after in zip(_paths(shape, "state"), state, new, strict=True):
        if before.shape == after.shape and before.dtype == after.dtype:
            continue
        kind = ShapeError if before.shape != after.shape else DtypeError
        raise kind(
            f"while_loop: {path} was {describe(before.value)}, and is {describe(after.value)} "
            "after one iteration; a state keeps its shapes and dtypes: begin with what an "
            "iteration gives, or use astype and reshape in the body"
        )
    return new


def _paths(shape: Structure, path: str) -> Iterator[str]:
    """The leaves' names: `state`, `state['x']`, `state[0].x`."""
    if shape.kind is None:
        yield path
    is_dict = shape.kind is not None and issubclass(shape.kind, dict)
    for i, child in enumerate(shape.children):
        if is_dict:
            step = f"[{shape.keys[i]!r}]"
        else:
            step = f".{shape.keys[i]}" if shape.keys else f"[{i}]"
        yield from _paths(child, path + step)
