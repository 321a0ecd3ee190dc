"""Discrete Fourier transforms: the Array API standard's `fft` extension.

Lengths that are given cut the input, or fill it up with zeros. `norm` is "backward" (1/n in the
inverse), "ortho" (its root in both) or "forward" (1/n in the transform).
"""

from chainrule.border import with_border as _with_border
from chainrule.ops.fft import (
    fft,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftfreq,
    rfftn,
)

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

_with_border(globals())
