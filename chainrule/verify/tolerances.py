"""How much two numbers may differ, relative to their size, to be taken for the same."""

from __future__ import annotations

from typing import Final

EXACT: Final = 1e-9
"""Computed in float64 in the same way, up to the order of sums."""
SAME: Final = 1e-6
"""Computed in another way, or written with the seven digits that float32 has."""
CLOSE: Final = 1e-5
"""Measured by differences, and compared with a formula."""
LOOSE: Final = 1e-4
"""Code that computes in float32 behind float64; a fit that is worth a try."""
ROUGH: Final = 1e-3
"""A quick look by one difference."""
