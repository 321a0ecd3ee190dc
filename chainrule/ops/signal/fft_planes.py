"""Fourier transforms along two axes, by default the last: PyTorch's and NumPy's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainrule.ops.signal.fft import fftn, hfftn, ifftn, ihfftn, irfftn, rfftn


def fft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`fftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: s or m).

    >>> cr.fft.fft2(cr.ones((2, 2)))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return fftn(x, s=s, axes=axes, norm=norm)


def ifft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`ifftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: s or m).

    >>> cr.fft.ifft2(cr.fft.fft2(cr.tensor([[1.0, 2.0]])))
    tensor([[1.+0.j, 2.+0.j]], dtype=complex64)
    """
    return ifftn(x, s=s, axes=axes, norm=norm)


def rfft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`rfftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: (*(s or m)[:-1], (s or m)[-1] // 2 + 1)).

    >>> cr.fft.rfft2(cr.ones((4, 6))).shape
    (4, 4)
    """
    return rfftn(x, s=s, axes=axes, norm=norm)


def irfft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`irfftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: s or (*m[:-1], 2 * (m[-1] - 1))).

    >>> cr.fft.irfft2(cr.fft.rfft2(cr.ones((4, 6)))).shape
    (4, 6)
    """
    return irfftn(x, s=s, axes=axes, norm=norm)


def hfft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`hfftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: s or (*m[:-1], 2 * (m[-1] - 1))).

    >>> cr.fft.hfft2(cr.ones((3, 3))).shape
    (3, 4)
    """
    return hfftn(x, s=s, axes=axes, norm=norm)


def ihfft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`ihfftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: (*(s or m)[:-1], (s or m)[-1] // 2 + 1)).

    >>> cr.fft.ihfft2(cr.ones((4, 4))).shape
    (4, 3)
    """
    return ihfftn(x, s=s, axes=axes, norm=norm)
