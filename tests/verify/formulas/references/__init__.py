"""Values of rows from elsewhere: by name of the row, functions of its sample arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.verify.formulas.references import (
    classification,
    contrastive,
    diffusion,
    divergences,
    flows,
    layers,
    likelihoods,
    losses,
    numerics,
    rewards,
    schedules,
    spaces,
)

REFERENCES: dict[str, Callable[..., Iterable[Any]]] = {
    **losses.REFERENCES,
    **classification.REFERENCES,
    **likelihoods.REFERENCES,
    **divergences.REFERENCES,
    **contrastive.REFERENCES,
    **diffusion.REFERENCES,
    **flows.REFERENCES,
    **rewards.REFERENCES,
    **schedules.REFERENCES,
    **layers.REFERENCES,
    **spaces.REFERENCES,
    **numerics.REFERENCES,
}
