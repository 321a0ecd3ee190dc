"""Padding: more elements at the ends of axes, constant ones or those that are there already.

A mode other than "constant" says for each new index which element of the array stands there. So it
is `take` along each axis, and its derivatives are those of `take`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Array
from chainrule.errors import ConfigError, DtypeError, ShapeError
from chainrule.ops.indexing.selection import take
from chainrule.ops.shapes.slices import Unslice

Widths = Sequence[tuple[int, int]]


def _mirror_places(at: Array, n: int) -> Array:
    """Places beyond the ends, seen in a mirror between the last element and the next place."""
    at = at % (2 * n)
    return np.where(at < n, at, 2 * n - 1 - at)


def _reflect_places(at: Array, n: int) -> Array:
    """The same with the mirror on the last element, which is then not repeated."""
    turn = max(2 * (n - 1), 1)
    at = at % turn
    return np.where(at < n, at, turn - at)


_PLACES: dict[str, Callable[[Array, int], Array]] = {
    "edge": lambda at, n: np.clip(at, 0, n - 1),
    "wrap": lambda at, n: at % n,
    "symmetric": _mirror_places,
    "reflect": _reflect_places,
}
"""By NumPy's name of a mode: which of n elements stands at places that may lie outside."""


def pad(x: Any, widths: Widths, value: float = 0, *, mode: str = "constant") -> Any:
    """`x` with `widths[i] = (before, after)` elements added along axis i.

    Shapes: (*s) -> (*[n + a + b for n, (a, b) in zip(s, widths)]).
    `mode` is NumPy's: "constant" (they are `value`), "edge" (the last element), "wrap" (the array
    again), "reflect" and "symmetric" (the array backwards, without and with its last element).

    >>> import chainrule as cr
    >>> cr.pad(cr.tensor([1, 2, 3]), [(2, 1)], mode="reflect").tolist()
    [3, 2, 1, 2, 3, 2]
    """
    if len(widths) != x.ndim or any(n < 0 for pair in widths for n in pair):
        raise ShapeError(f"pad: needs {x.ndim} pairs of sizes >= 0 for {x.shape}, not {widths}")
    if mode == "constant":
        return _constant(x, widths, value)
    if mode not in _PLACES:
        raise ConfigError(f"pad: mode is one of {', '.join(('constant', *_PLACES))}, not {mode!r}")
    for axis, (before, after) in enumerate(widths):
        n: int = x.shape[axis]
        if n == 0 < before + after:
            raise ShapeError(f"pad: axis {axis} of {x.shape} has no element to repeat")
        if before + after:
            x = take(x, _PLACES[mode](np.arange(-before, n + after), n), axis=axis)
    return x


def _constant(x: Any, widths: Widths, value: float) -> Any:
    if isinstance(cast(Any, value), str):
        raise DtypeError(f"pad: value is a number, not {value!r}: write mode={value!r}")
    sizes: tuple[int, ...] = tuple(x.shape)
    shape = tuple([n + a + b for n, (a, b) in zip(sizes, widths, strict=True)])
    inner = [(a, a + n) for n, (a, _) in zip(sizes, widths, strict=True)]
    padded = apply(Unslice(tuple([(*span, None) for span in inner]), shape), x)
    if value == 0:
        return padded
    border = np.full(shape, value, x.dtype)
    border[tuple([slice(*span) for span in inner])] = 0
    return padded + border
