"""All known formulas."""

from __future__ import annotations

from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.contrasts import adversarial, contrastive, ranking
from chainrule.verify.formulas.themes.generative import denoising, diffusion, flows
from chainrule.verify.formulas.themes.layers import activations, attention, normalization
from chainrule.verify.formulas.themes.mathematics import (
    averages,
    boxes,
    geometry,
    graphs,
    kernels,
    numerics,
    schedules,
)
from chainrule.verify.formulas.themes.reinforcement import policies, rewards, targets
from chainrule.verify.formulas.themes.supervised import (
    classification,
    distillation,
    divergences,
    likelihoods,
    losses,
    overlaps,
    survival,
)

_THEMES = (
    *(losses, classification, overlaps, likelihoods, survival, divergences, distillation),
    *(contrastive, ranking, adversarial, diffusion, denoising, flows),
    *(rewards, targets, policies, schedules, attention, activations, normalization),
    *(boxes, graphs, kernels, geometry, numerics, averages),
)

FORMULAS: tuple[Formula, ...] = tuple(row for theme in _THEMES for row in theme.ROWS)
"""Theme by theme."""
