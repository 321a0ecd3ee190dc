"""What a program is compiled for: all that the compiler may know of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Target:
    """A kind of machine, in LLVM's words and in numbers: if nothing is said, what every one has."""

    triple: str = ""
    cpu: str = ""
    features: str = ""
    vector: int = 16
    """Bytes of a vector register."""
    registers: int = 16
    """How many of these there are."""
    fma: bool = False
    """Whether x y + z is one instruction, rounded once."""
    scalef: bool = False
    """Whether y 2^n is one instruction, which AVX-512 has."""
    pointer: int = 8
    """Bytes of an address."""
    line: int = 64
    """Bytes that come from memory together."""
    threads: bool = False
    """Whether loops can be split over cores."""
    libraries: bool = False
    """Whether there are BLAS and LAPACK."""
    library_functions: bool = False
    """Whether functions are the C library's, number by number: the bits of Python's `math`."""
    contract: bool = False
    """Whether a product and the sum that it goes into may be one instruction, rounded once."""

    def lanes(self, itemsize: int) -> int:
        """How many numbers of that size fit into a register."""
        return max(1, self.vector // itemsize)
