"""One layer in the table of flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One layer; each tuple has a number for each step."""

    name: str
    kind: str
    order: int
    at: Any
    arriving: tuple[float, ...]
    gradients: tuple[float, ...]
    sizes: tuple[float, ...]
    updates: tuple[float, ...]
    turns: tuple[tuple[float, ...], ...] = ()
    """For each step: norms of the gradients that arrive at its calls, the last call first."""
    bias: float | None = None
    """What next to all elements of its bias are; None if it has none, or if they differ."""

    @property
    def numbers(self) -> tuple[str, str, str, str]:
        """Gradient, parameter, their ratio and the update's, in the last step, to read."""
        g = self.gradients[-1] if self.gradients else -1.0
        p = self.sizes[-1] if self.sizes else 0.0
        u = self.updates[-1] if self.updates else -1.0
        return (
            f"{g:.2e}" if g >= 0 else "none",
            f"{p:.2e}",
            f"{g / p:.1e}" if p and g >= 0 else "-",
            f"{u / p:.1e}" if p and u >= 0 else "-",
        )
