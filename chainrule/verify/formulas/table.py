"""All known formulas."""

from __future__ import annotations

from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes import (
    classification,
    divergences,
    likelihoods,
    losses,
    overlaps,
    survival,
)

FORMULAS: tuple[Formula, ...] = (
    *losses.ROWS,
    *classification.ROWS,
    *overlaps.ROWS,
    *likelihoods.ROWS,
    *survival.ROWS,
    *divergences.ROWS,
)
"""Theme by theme."""
