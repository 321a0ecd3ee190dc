"""Window functions, with PyTorch's names and defaults.

A window of n elements is one period without its last point, which is the first of the next period.
With `periodic=False` it is symmetric. float32 unless `dtype` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.engine.arrays import admit_dtype
from chainrule.engine.graph import variable
from chainrule.errors import DtypeError, ShapeError


def _window(what: str, length: int, periodic: bool, dtype: Any, f: Callable[[Any], Any]) -> Any:
    """f of equal steps from 0 to 1: numbers in float64, rounded once."""
    if length < 0:
        raise ShapeError(f"{what}: a length must not be negative: {length}")
    known = np.dtype(np.float32) if dtype is None else admit_dtype(dtype)
    if known.kind not in "fV":
        raise DtypeError(f"{what}: a window has floats, not {known}")
    if length == 1:
        return variable(np.ones(1, known))
    steps = np.arange(length) / max(length if periodic else length - 1, 1)
    return variable(np.asarray(f(steps)).astype(known))


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    """(1 - cos 2 pi t) / 2.

    Shapes: -> (window_length).

    >>> cr.hann_window(4)
    tensor([0. , 0.5, 1. , 0.5], dtype=float32)
    """
    return _window("hann_window", window_length, periodic, dtype, lambda t: np.sin(np.pi * t) ** 2)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
) -> Any:
    """alpha - beta cos 2 pi t.

    Shapes: -> (window_length).

    >>> cr.hamming_window(3, periodic=False)
    tensor([0.08, 1.  , 0.08], dtype=float32)
    """

    def f(t: Any) -> Any:
        return alpha - beta * np.cos(2 * np.pi * t)

    return _window("hamming_window", window_length, periodic, dtype, f)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    """0.42 - 0.5 cos 2 pi t + 0.08 cos 4 pi t.

    Shapes: -> (window_length).

    >>> cr.blackman_window(3, periodic=False).shape
    (3,)
    """

    def f(t: Any) -> Any:
        return 0.42 - 0.5 * np.cos(2 * np.pi * t) + 0.08 * np.cos(4 * np.pi * t)

    return _window("blackman_window", window_length, periodic, dtype, f)


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    """1 - |2 t - 1|: a triangle.

    Shapes: -> (window_length).

    >>> cr.bartlett_window(4)
    tensor([0. , 0.5, 1. , 0.5], dtype=float32)
    """

    def f(t: Any) -> Any:
        return 1 - np.abs(2 * t - 1)

    return _window("bartlett_window", window_length, periodic, dtype, f)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None
) -> Any:
    """I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta), with the modified Bessel function I0.

    Shapes: -> (window_length).

    >>> cr.kaiser_window(3, periodic=False, beta=0.0)
    tensor([1., 1., 1.], dtype=float32)
    """

    def f(t: Any) -> Any:
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0))) / np.i0(beta)

    return _window("kaiser_window", window_length, periodic, dtype, f)
