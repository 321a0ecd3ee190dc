"""The Array API standard, version 2025.12: what its namespace needs beyond the ops themselves.

The ops carry the standard's names. Here are the constants, the inspection of the namespace, names
that the op table has in shorter form, and the functions that differ from the op by a dtype rule or
a check.
"""

from __future__ import annotations

import math
import sys
from inspect import Parameter, Signature
from typing import Any, Literal, cast

import numpy as np

from chainrule.engine import dtypes
from chainrule.engine.dtypes import DEVICE, STANDARD, check_device
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.families import rows
from chainrule.ops.indexing import scattering as arranging
from chainrule.ops.indexing import selection
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes import joining, shaping

__array_api_version__ = "2025.12"
"""The version of the standard."""
EARLIER = ("2021.12", "2022.12", "2023.12", "2024.12")
"""Versions that may be asked for."""

e = math.e
inf = math.inf
nan = math.nan
pi = math.pi
newaxis = None


def subtract(x1: Any, x2: Any, /) -> Any:
    """The standard's name for `sub`.

    Shapes: (...), (...) -> (...).

    >>> cr.subtract(cr.tensor([1.0, 2.0]), 3.0)
    tensor([-2., -1.], dtype=float32)
    """
    return ew.sub(x1, x2)


def multiply(x1: Any, x2: Any, /) -> Any:
    """The standard's name for `mul`.

    Shapes: (...), (...) -> (...).

    >>> cr.multiply(cr.tensor([1.0, 2.0]), 3.0)
    tensor([3., 6.], dtype=float32)
    """
    return ew.mul(x1, x2)


def divide(x1: Any, x2: Any, /, *, rounding_mode: Literal["floor", "trunc"] | None = None) -> Any:
    """The standard's name for `div`, or the quotient rounded down or towards 0.

    Shapes: (...), (...) -> (...).
    Rounded, the quotient of integers is an integer, and the derivative is 0.

    >>> cr.divide(cr.tensor([1, 2]), 4)
    tensor([0.25, 0.5 ], dtype=float64)
    """
    if rounding_mode is None:
        return ew.div(x1, x2)
    if rounding_mode not in ("floor", "trunc"):
        raise ConfigError(f"divide: rounding_mode is floor, trunc or None, not {rounding_mode!r}")
    down = ew.floor_divide(x1, x2)
    if rounding_mode == "floor":
        return down
    if down.dtype.kind not in "iu":
        return ew.trunc(ew.div(x1, x2))
    opposite = ew.not_equal(ew.less(x1, 0), ew.less(x2, 0))
    rest = ew.not_equal(ew.remainder(x1, x2), 0)
    return down + shaping.astype(ew.logical_and(opposite, rest), down.dtype)


def negative(x: Any, /) -> Any:
    """The standard's name for `neg`.

    Shapes: (...) -> (...).

    >>> cr.negative(cr.tensor([1.0, -2.0]))
    tensor([-1.,  2.], dtype=float32)
    """
    return ew.neg(x)


def namespace(api_version: str | None) -> Any:
    """The module `chainrule`, which is the namespace. Raises `ConfigError` for another version."""
    if api_version not in (None, *EARLIER, __array_api_version__):
        raise ConfigError(
            f"chainrule speaks version {__array_api_version__} of the Array API standard, not "
            f"{api_version!r}"
        )
    return sys.modules["chainrule"]


# --- Inspection ----------------------------------------------------------------------------------


class Info:
    """What the namespace can do; see `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """Indexing with bools and shapes that depend on values work (but not inside `jit`)."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The one device."""
        return DEVICE

    def devices(self) -> tuple[str, ...]:
        """All devices."""
        return (DEVICE,)

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of Python numbers: float32, complex64, int64. Indices are int64."""
        check_device(device)
        return {
            "real floating": dtypes.float32,
            "complex floating": dtypes.complex64,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes by name, all or those of a kind (see `isdtype`)."""
        check_device(device)
        return {
            name: dtype
            for name, dtype in STANDARD.items()
            if kind is None or dtypes.isdtype(dtype, kind)
        }


def __array_namespace_info__() -> Info:  # noqa: N807 (the standard's name)
    """The standard's inspection of this namespace: devices, dtypes, defaults, capabilities."""
    return Info()


# --- Functions that differ from the op ------------------------------------------------------------


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The numbers of `x` as `dtype`: another tensor, unless `copy` is False and the dtype the same.

    A real dtype takes the real part of complex numbers; no gradient flows through whole numbers.

    >>> cr.astype(cr.tensor([1.7, -1.7]), cr.int64)
    tensor([ 1, -1], dtype=int64)
    """
    check_device(device)
    return x.copy() if copy and x.dtype == dtype else shaping.astype(x, dtype)


def round(x: Any, /, *, decimals: int = 0) -> Any:
    """The nearest whole number, of two equally near the even one; whole numbers as they are.

    With `decimals` the nearest multiple of that power of a tenth. The derivative is 0.

    >>> cr.round(cr.tensor([0.5, 1.5, 2.7]))
    tensor([0., 2., 3.], dtype=float32)
    """
    if decimals == 0:
        return ew.positive(x) if x.dtype.kind in "iu" else ew.round(x)
    if decimals > 0 and x.dtype.kind in "iu":
        return ew.positive(x)
    scale = 10.0 ** abs(decimals)
    x = red.floating(x)
    return ew.round(x * scale) / scale if decimals > 0 else ew.round(x / scale) * scale


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast.

    >>> cr.broadcast_shapes((3, 1), (2,))
    (3, 2)
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as cause:
        raise ShapeError(
            f"broadcast_shapes: {list(shapes)} do not broadcast (compare them from the right; "
            "sizes must match or be 1)"
        ) from cause


def meshgrid(*arrays: Any, indexing: Literal["xy", "ij"] = "xy") -> tuple[Any, ...]:
    """Coordinates of a grid, of its shape: each of n arrays (one axis) along one of n axes.

    With "ij" array i runs along axis i; with "xy" the first two are exchanged.

    >>> [x.shape for x in cr.meshgrid(cr.arange(2), cr.arange(3))]
    [(3, 2), (3, 2)]
    """
    return arranging.meshgrid(*arrays, indexing=indexing)


def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Any:
    """Each element `repeats` times in a row along `axis` (of the flat array for None).

    `repeats` is one number, or an array with a number for each place along the axis, whose values
    must be known. Raises `ShapeError` where they do not fit.

    >>> cr.repeat(cr.tensor([1.0, 2.0]), 2)
    tensor([1., 1., 2., 2.], dtype=float32)
    """
    if isinstance(repeats, int):
        return joining.repeat(x, repeats, axis=axis)
    counts = np.asarray(repeats)
    if axis is None:
        x, axis = shaping.flatten(x), 0
    n = x.shape[shaping.normalize_axis(axis, x.ndim)]
    if counts.ndim > 1 or counts.size not in (1, n):
        raise ShapeError(f"repeat: {counts.shape} numbers do not fit {n} places along axis {axis}")
    return selection.take(x, cast(Any, np.repeat)(np.arange(n), counts), axis=axis)


# --- What the ops of the table take --------------------------------------------------------------


def _signature(count: int) -> Signature:
    names = ["x"] if count == 1 else [f"x{i}" for i in range(1, count + 1)]
    return Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in names])


def _tell_signatures() -> None:
    """Let `inspect.signature` (and so `help`) say how many arrays each op of the table takes."""
    for row in rows.values():
        count = len(row.partials) or getattr(row.fn, "nin", 0)
        if count:
            object.__setattr__(row, "__signature__", _signature(count))


_tell_signatures()
