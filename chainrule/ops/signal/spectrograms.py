"""Short-time Fourier transforms: spectra of overlapping frames of a signal, and back.

Allen & Rabiner 1977, doi:10.1109/PROC.1977.10770; arguments and defaults are PyTorch's.

Notation: L samples, T frames of `n_fft` samples, F frequencies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.engine.graph import apply, value_of
from chainrule.engine.op import Spec
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.complex import imag, real, real_dtype
from chainrule.ops.elementwise import abs as absolute
from chainrule.ops.reductions.reduction import min as least
from chainrule.ops.shapes.joining import concat, stack
from chainrule.ops.shapes.padding import pad
from chainrule.ops.shapes.shaping import reshape
from chainrule.ops.signal.fft import fft, ifft, irfft, rfft
from chainrule.ops.windows.convolution_forms import Unfold
from chainrule.ops.windows.windows import Windows

_SMALLEST = 1e-11
"""What the squares of windows add up to at least, for a signal to be found again: PyTorch's."""


@dataclass(frozen=True)
class _Frames:
    """How a signal is cut: a frame of `n_fft` samples every `hop`."""

    what: str
    n_fft: int
    hop: int
    width: int

    @classmethod
    def of(cls, what: str, n_fft: int, hop: int | None, width: int | None) -> _Frames:
        """The frames of arguments, of which the hop is a quarter and the width all of `n_fft`."""
        made = cls(what, n_fft, n_fft // 4 if hop is None else hop, width or n_fft)
        if n_fft < 1 or made.hop < 1 or not 1 <= made.width <= n_fft:
            raise ConfigError(
                f"{what}: n_fft and hop_length are at least 1, win_length is at most n_fft; not "
                f"{n_fft}, {made.hop} and {made.width}"
            )
        return made

    def window(self, window: Any, dtype: Any) -> Any:
        """The window in the middle of `n_fft` samples, the others 0; ones unless it is given."""
        window = np.ones(self.width, real_dtype(dtype)) if window is None else window
        if tuple(window.shape) != (self.width,):
            raise ShapeError(
                f"{self.what}: the window has win_length elements, ({self.width},), not "
                f"{tuple(window.shape)}"
            )
        before = (self.n_fft - self.width) // 2
        return pad(window, [(before, self.n_fft - self.width - before)])

    def over(self, length: int, dtype: Any) -> Windows:
        """The frames of a signal of that length."""
        signal = Spec((1, 1, length), dtype)
        return Windows.over(self.what, signal, (self.n_fft,), self.hop)


def stft(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Any:
    """The spectra of frames of `n_fft` samples, one every `hop_length`: (L) or (B, L).

    Shapes: (*b, L) -> (*b, F, T, 2) if return_complex is False; (*b, L) -> (*b, F, T).
    Frames are multiplied with `window`. With `center` frame t has its middle at sample t times the
    hop, and the signal is continued by `pad_mode` at both ends. `normalized` divides by the root of
    n_fft. Of a real signal and window the n_fft // 2 + 1 frequencies that are not repeated, unless
    `onesided` is False. With `return_complex` False real and imaginary parts lie along a new axis.

    >>> cr.stft(cr.ones(16), 8, window=cr.hann_window(8), return_complex=True).shape
    (5, 9)
    """
    frames = _Frames.of("stft", n_fft, hop_length, win_length)
    if x.ndim not in (1, 2):
        raise ShapeError(f"stft: a signal is (L) or (B, L), not {tuple(x.shape)}")
    window = frames.window(window, x.dtype)
    half = "c" not in (x.dtype.kind, window.dtype.kind) if onesided is None else onesided
    lead = tuple(x.shape[:-1])
    x = reshape(x, (-1, 1, x.shape[-1]))
    if center:
        x = pad(x, [(0, 0), (0, 0), (n_fft // 2, n_fft // 2)], mode=pad_mode)
    if x.shape[-1] < n_fft:
        raise ShapeError(f"stft: {x.shape[-1]} samples are fewer than a frame of {n_fft}")
    cut = apply(Unfold(frames.over(x.shape[-1], x.dtype), False), x)
    norm = "ortho" if normalized else "backward"
    y = (rfft if half else fft)(cut * reshape(window, (-1, 1)), axis=-2, norm=norm)
    y = reshape(y, (*lead, *y.shape[1:]))
    return stack([real(y), imag(y)], axis=-1) if return_complex is False else y


def istft(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """The signal whose `stft` with the same settings is nearest to `x`: (F, T) or (B, F, T).

    Shapes: (*b, F, T) -> (*b, length) if length is not None; (*b, F, T) -> (*b, L).
    Frames are multiplied with the window and added where they overlap. The result is divided by the
    sum of the squared windows, which must not be 0. Griffin & Lim 1984,
    doi:10.1109/TASSP.1984.1164317.

    >>> x, w = cr.arange(16.0), cr.hann_window(8)
    >>> y = cr.stft(x, 8, window=w, return_complex=True)
    >>> cr.allclose(cr.istft(y, 8, window=w), x, atol=1e-4)
    True
    """
    frames = _Frames.of("istft", n_fft, hop_length, win_length)
    half = n_fft // 2 + 1 == x.shape[-2] if onesided is None and x.ndim > 1 else bool(onesided)
    if x.ndim not in (2, 3) or x.shape[-2] != (n_fft // 2 + 1 if half else n_fft):
        raise ShapeError(
            f"istft: x is (F, T) or (B, F, T) with {n_fft // 2 + 1} frequencies, or all {n_fft}, "
            f"not {tuple(x.shape)}"
        )
    lead, count = tuple(x.shape[:-2]), int(x.shape[-1])
    x = reshape(x, (-1, *x.shape[-2:]))
    window = reshape(frames.window(window, x.dtype), (-1, 1))
    norm = "ortho" if normalized else "backward"
    cut = irfft(x, n=n_fft, axis=-2, norm=norm) if half else ifft(x, axis=-2, norm=norm)
    cut = cut if half or return_complex else real(cut)
    whole = frames.over(n_fft + frames.hop * (count - 1), x.dtype)
    added = apply(Unfold(whole, True), cut * window)[:, 0]
    squares = window * window + np.zeros((1, 1, count), window.dtype)
    weight = apply(Unfold(whole, True), squares)[0, 0]
    start = n_fft // 2 if center else 0
    stop = start + length if length is not None else whole.size[0] - start
    weight = weight[start:stop]
    _check_windows(weight)
    y = added[:, start:stop] / weight
    if length is not None and y.shape[-1] < length:
        y = concat([y, np.zeros((y.shape[0], length - y.shape[-1]), y.dtype)], axis=-1)
    return reshape(y, (*lead, y.shape[-1]))


def _check_windows(weight: Any) -> None:
    """Raise where no window sees a sample, as far as that is known."""
    smallest = value_of(least(absolute(weight))) if weight.shape[0] else 1
    if type(smallest) is not Spec and smallest < _SMALLEST:
        raise ConfigError(
            "istft: the squares of the windows add up to 0 at some sample, where the signal cannot "
            "be found again; use a smaller hop_length, another window, or center=True"
        )
