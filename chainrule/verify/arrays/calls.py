"""Several calls of one object: what they may add up, and what one must not leave to the next.

Gradients of parameters may add up, running statistics and states may go on. A value that a forward
keeps for the backward belongs to its own call.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.verify.arrays.members import Way, is_object, walk
from chainrule.verify.arrays.methods import functions_of
from chainrule.verify.copies import twins
from chainrule.verify.diagnose.text.forward import function_at
from chainrule.verify.place import Place
from chainrule.verify.streams import replay
from chainrule.verify.subject import Array
from chainrule.verify.user_code import parameters_of, place_of

if TYPE_CHECKING:
    from chainrule.verify.arrays.layer import Layer

_RESET = re.compile(
    r"^_?(zero|reset|clear)(_?(the_)?(all_)?(grads?|gradients?))?_?$", re.IGNORECASE
)
"""What people call the method that sets gradients back."""
_PUTTING = ("append", "setdefault", "update")


def reset_of(layer: Any) -> Callable[[], object] | None:
    """The method that sets an object's gradients back, if it has one."""
    named = [getattr(layer, n) for n in dir(cast(Any, type(layer))) if _RESET.match(n)]
    return next((f for f in named if inspect.ismethod(f) and not parameters_of(f)), None)


def are_sums(one: Sequence[Array | None], two: Sequence[Array | None]) -> bool:
    """Whether all gradients of two equal calls are twice those of one."""
    pairs = [(a, b) for a, b in zip(one, two, strict=True) if a is not None and np.any(a)]
    return all(b is not None and np.allclose(2 * a, b) for a, b in pairs)


def resumed(
    layer: Layer, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
) -> tuple[Array | None, ...] | None:
    """Gradients of a second call, before which there was one with other arguments; None if its
    outputs depend on that. What is put together of both calls' gradients is given as one's own."""
    ys, later = _second_call(layer, xs, others, gs)
    own = layer.forward(xs)
    same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ys, own, strict=True))
    return later if same else None


def outdated(
    layer: Layer, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
) -> Place | None:
    """The line of the one array that the second forward should have kept anew: with it the backward
    gives what it should."""
    fresh, (used, _) = layer.copied(twins(xs)), _after_first_call(layer, xs, others, gs)
    for owner in (fresh, used):
        with replay(layer.streams):
            layer.called(owner, twins(xs))
    for way in _ways_that_differ(used, fresh):
        _, bars = _second_call(layer, xs, others, gs, (way, way.get(fresh)))
        if _are_equal(bars, layer.pull(xs, gs)):
            return _line_keeping(layer.owner, way, layer.names[1])
    return None


def _second_call(
    layer: Layer,
    xs: Sequence[Any],
    others: Sequence[Any],
    gs: Sequence[Array],
    handed: tuple[Way, Any] | None = None,
) -> tuple[tuple[Array, ...], tuple[Array | None, ...]]:
    """Outputs and gradients of the second call, whose backward finds what is handed to it."""
    owner, first = _after_first_call(layer, xs, others, gs)
    if handed is not None:
        _hand_over(owner, layer.names[1], *handed)
    ys, later = layer.bars(owner, twins(xs), twins(gs))
    own, n = layer.pull(xs, gs), layer.count
    return ys, (*later[:n], *_without_sums(later[n:], first[n:], own[n:]))


def _after_first_call(
    layer: Layer, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
) -> tuple[Any, tuple[Array | None, ...]]:
    """An object that has run a call with other arguments, and what that left."""
    before = [*others[: layer.count], *xs[layer.count :]]
    owner = layer.copied(twins(before), pulls=True)
    _, bars = layer.bars(owner, twins(before), twins(gs))
    bars = tuple(twins(bars))  # The next call may write into them.
    if (reset := reset_of(owner)) is not None:
        reset()
    return owner, bars


def _without_sums(
    later: Sequence[Array | None], first: Sequence[Array | None], own: Sequence[Array | None]
) -> list[Array | None]:
    """Gradients of a second call; its `own`, where they are put together of these and of those of
    the first call, as a sum or an average is."""
    rows = zip(later, first, own, strict=True)
    return [c if _is_put_together(a, b, c) else a for a, b, c in rows]


def _is_put_together(whole: Array | None, a: Array | None, b: Array | None) -> bool:
    if whole is None or a is None or b is None or not whole.shape == a.shape == b.shape:
        return False
    parts = np.stack([a.reshape(-1), b.reshape(-1)], axis=1)
    if not np.all(np.isfinite(parts)) or not np.all(np.isfinite(whole)):
        return False
    weights = np.linalg.lstsq(parts, whole.reshape(-1), rcond=None)[0]
    rest = np.linalg.norm(whole.reshape(-1) - parts @ weights)
    return bool(rest <= 1e-9 * np.linalg.norm(whole)) and bool(np.all(np.abs(weights) > 1e-3))


def _ways_that_differ(one: Any, other: Any) -> list[Way]:
    """Ways to the arrays in which two objects of a kind differ."""
    arrays = [(way, cast("Array", x)) for way, x in walk(other) if isinstance(x, np.ndarray)]
    return [way for way, x in arrays if not np.array_equal(x, np.asarray(way.find(one)))]


def _hand_over(owner: Any, name: str, way: Way, value: Any) -> None:
    """Let the method `name` of an object find `value` at the end of a way."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def instead(*args: Any, **settings: Any) -> Any:
        way.put(owner, value)
        return method(*args, **settings)

    setattr(owner, name, instead)


def _are_equal(some: Sequence[Array | None], others: Sequence[Array | None]) -> bool:
    """Whether two calls give the same gradients but for rounding."""
    return all(
        (a is None and b is None)
        or (a is not None and b is not None and a.shape == b.shape and np.allclose(a, b))
        for a, b in zip(some, others, strict=True)
    )


def _line_keeping(owner: Any, way: Way, backward: str) -> Place | None:
    """The line of a method that puts a value where a way leads, as far as the text tells. What an
    object begins with, and what its backward leaves, are no values of a call."""
    for length in range(len(way.steps) - 1, -1, -1):
        by_name, key = way.steps[length]
        holder = Way(way.steps[:length]).find(owner)
        if by_name and is_object(holder):
            return next(_lines(holder, str(key), ("__init__", backward)), None)
    return None


def _lines(holder: Any, attribute: str, but: tuple[str, ...]) -> Iterator[Place]:
    for method in functions_of(holder):
        if isinstance(method, FunctionType) and method.__name__ not in but:
            start = place_of(method)
            tree = function_at(start)
            lines = [] if tree is None else list(_lines_that_keep(tree, attribute))
            if lines and start is not None:
                yield Place(start.file, max(lines), start.function)


def _lines_that_keep(tree: ast.AST, attribute: str) -> Iterator[int]:
    """Lines that put a value into an attribute, or into what is there."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(value=ast.Constant(value=None)):
                continue
            case ast.Assign(targets=targets):
                found = any(_is_at(n, attribute) for t in targets for n in ast.walk(t))
            case ast.AnnAssign(target=target):
                found = _is_at(target, attribute)
            case ast.Call(func=ast.Attribute(value=inner, attr=name)):
                found = name in _PUTTING and _is_at(inner, attribute)
            case _:
                continue
        if found:
            yield node.lineno


def _is_at(node: ast.AST, attribute: str) -> bool:
    match node:
        case ast.Attribute(attr=name):
            return name == attribute
        case ast.Subscript(value=inner):
            return _is_at(inner, attribute)
        case _:
            return False
