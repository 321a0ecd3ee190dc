"""All known formulas."""

from __future__ import annotations

from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes import (
    activations,
    adversarial,
    attention,
    averages,
    boxes,
    classification,
    contrastive,
    diffusion,
    divergences,
    flows,
    graphs,
    kernels,
    likelihoods,
    losses,
    normalization,
    numerics,
    overlaps,
    policies,
    rewards,
    schedules,
    survival,
)

_THEMES = (
    *(losses, classification, overlaps, likelihoods, survival, divergences),
    *(contrastive, adversarial, diffusion, flows, rewards, policies, schedules),
    *(attention, activations, normalization, boxes, graphs, kernels, numerics, averages),
)

FORMULAS: tuple[Formula, ...] = tuple(row for theme in _THEMES for row in theme.ROWS)
"""Theme by theme."""
