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
    """
    return fftn(x, s=s, axes=axes, norm=norm)


def ifft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`ifftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: s or m).
    """
    return ifftn(x, s=s, axes=axes, norm=norm)


def rfft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`rfftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: (*(s or m)[:-1], (s or m)[-1] // 2 + 1)).
    """
    return rfftn(x, s=s, axes=axes, norm=norm)


def irfft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`irfftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: s or (*m[:-1], 2 * (m[-1] - 1))).
    """
    return irfftn(x, s=s, axes=axes, norm=norm)


def hfft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`hfftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: s or (*m[:-1], 2 * (m[-1] - 1))).
    """
    return hfftn(x, s=s, axes=axes, norm=norm)


def ihfft2(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
    norm: str = "backward",
) -> Any:  # fmt: skip
    """`ihfftn` along two axes.

    Shapes: (*r, axes: m) -> (*r, axes: (*(s or m)[:-1], (s or m)[-1] // 2 + 1)).
    """
    return ihfftn(x, s=s, axes=axes, norm=norm)
