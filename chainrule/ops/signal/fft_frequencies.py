"""The frequencies of the terms of Fourier transforms, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.graph import variable
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.shapes.joining import roll
from chainrule.ops.shapes.shaping import normalize_axes


def _device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ConfigError(f"device is 'cpu' or None, not {device!r}")


def _frequencies(array: Any, n: int, dtype: Any) -> Any:
    if n < 1:
        raise ShapeError(f"fft: a length must be at least 1, not {n}")
    return variable(array.astype(dtype or np.float32))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of the terms of `fft` for samples `d` apart: 0, 1, ..., -2, -1 over n d.

    Shapes: -> (n).

    >>> cr.fft.fftfreq(4)
    tensor([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    _device(device)
    return _frequencies(np.fft.fftfreq(max(n, 1), d), n, dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of the terms of `rfft` for samples `d` apart: 0, 1, ..., n // 2 over n d.

    Shapes: -> (n // 2 + 1).

    >>> cr.fft.rfftfreq(4)
    tensor([0.  , 0.25, 0.5 ], dtype=float32)
    """
    _device(device)
    return _frequencies(np.fft.rfftfreq(max(n, 1), d), n, dtype)


def _shift(x: Any, axes: int | Sequence[int] | None, *, back: bool) -> Any:
    places = normalize_axes(tuple(axes) if isinstance(axes, Sequence) else axes, x.ndim)
    steps = [x.shape[a] // 2 for a in places]
    return roll(x, tuple([-n if back else n for n in steps]), axis=places)


def fftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """`x` with the term of frequency 0 moved to the middle of `axes` (all for None).

    Shapes: (*s) -> (*s).

    >>> cr.fft.fftshift(cr.fft.fftfreq(4))
    tensor([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    return _shift(x, axes, back=False)


def ifftshift(x: Any, /, *, axes: int | Sequence[int] | None = None) -> Any:
    """The inverse of `fftshift`.

    Shapes: (*s) -> (*s).

    >>> cr.fft.ifftshift(cr.tensor([-2.0, -1.0, 0.0, 1.0]))
    tensor([ 0.,  1., -2., -1.], dtype=float32)
    """
    return _shift(x, axes, back=True)
