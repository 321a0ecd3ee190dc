"""Parameters that stand alone, in no model, and were forgotten: a temperature, a scale.

A tensor that requires a gradient may be looked at for it: an input, an attack. `nn.Parameter` says
that it is to be trained. Where steps of others go on, and nobody resets, reads or changes it, its
gradients add up to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.verify.finding import Finding
from chainrule.verify.training import edits
from chainrule.verify.training.names import listed
from chainrule.verify.training.owners import owners
from chainrule.verify.training.said import said

if TYPE_CHECKING:
    from chainrule.verify.training.coverage import Seen, Steps

_LEAST = 2
"""Steps of others in which it got a gradient."""


def is_parameter(x: Any) -> bool:
    """Whether a leaf was made to be trained."""
    return type(x).__name__ == "Parameter"


def alone(seen: Seen, optimized: set[int]) -> list[Finding]:
    """One finding for all that were forgotten, at the line of the optimizer."""
    trained = [row for row in seen.optimizers.values() if row.count]
    left = [
        row
        for row in seen.unheld.alone.values()
        if row.name
        and row.count >= _LEAST
        and not row.was_reset
        and id(row.param) not in optimized
        and not seen.names.has(row.param)
        and row.version == row.param._version
        and not owners([row.param], "_parameters")  # of which only methods were called
    ]
    return [_finding(trained[0], [row.name for row in left])] if trained and left else []


def _finding(row: Steps, named: list[str]) -> Finding:
    kind = type(row.optimizer).__name__
    because = (
        f"{listed(named)} got gradients in steps of {kind}, which add up: no optimizer has them, "
        "nothing resets them, and their values are those that they were made with"
    )
    return said(
        "warning",
        "not_optimized",
        because,
        f"give the optimizer {listed(named)}, too; if it is meant to stay, requires_grad_(False)",
        row.place,
        subject=listed(named),
        kind="parameters",
        edit=edits.with_tensors(row.place, named),
    )
