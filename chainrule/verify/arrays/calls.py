"""Several calls of one object: what they may add up, and what one must not leave to the next.

Gradients of parameters may add up, running statistics and states may go on. A value that a forward
keeps for the backward belongs to its own call.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.verify.copies import twins
from chainrule.verify.subject import Array
from chainrule.verify.user_code import parameters_of

if TYPE_CHECKING:
    from chainrule.verify.arrays.layer import Layer

_RESET = re.compile(
    r"^_?(zero|reset|clear)(_?(the_)?(all_)?(grads?|gradients?))?_?$", re.IGNORECASE
)
"""What people call the method that sets gradients back."""


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


def _second_call(
    layer: Layer, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
) -> tuple[tuple[Array, ...], tuple[Array | None, ...]]:
    """Outputs and gradients of the second call."""
    owner, first = _after_first_call(layer, xs, others, gs)
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
