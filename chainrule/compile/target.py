"""What a program is compiled for: all that the compiler may know of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Target:
    """A kind of machine, in LLVM's words and in numbers."""

    triple: str
    cpu: str
    features: str
    vector: int
    """Bytes of a vector register."""
    registers: int
    """How many of these there are."""
    fma: bool
    """Whether x y + z is one instruction, rounded once."""
    scalef: bool
    """Whether y 2^n is one instruction, which AVX-512 has."""
    pointer: int
    """Bytes of an address."""
    line: int
    """Bytes that come from memory together."""
    threads: bool
    """Whether loops can be split over cores."""
    libraries: bool
    """Whether there are BLAS and LAPACK."""

    def lanes(self, itemsize: int) -> int:
        """How many numbers of that size fit into a register."""
        return max(1, self.vector // itemsize)
