"""Discrete Fourier transforms: the Array API standard's `fft` extension, and those of PyTorch's.

Lengths that are given cut the input, or fill it up with zeros. `norm` is "backward" (1/n in the
inverse), "ortho" (its root in both) or "forward" (1/n in the transform).
"""

from chainrule.engine.border import with_border as _with_border
from chainrule.ops.signal.fft import (
    fft,
    fftn,
    hfft,
    hfftn,
    ifft,
    ifftn,
    ihfft,
    ihfftn,
    irfft,
    irfftn,
    rfft,
    rfftn,
)
from chainrule.ops.signal.fft_frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from chainrule.ops.signal.fft_planes import fft2, hfft2, ifft2, ihfft2, irfft2, rfft2

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_with_border(globals())
