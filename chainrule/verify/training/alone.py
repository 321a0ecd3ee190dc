"""Parameters that stand alone, in no model, and were forgotten: a temperature, a scale.

A tensor that requires a gradient may be looked at for it: an input, an attack. `nn.Parameter` says
that it is to be trained, and so does a single number. Where steps of others go on, nobody changes
it, and nobody reads its gradient or asks for derivatives by it, its gradients come to nothing.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chainrule.verify.finding import Finding
from chainrule.verify.training import edits
from chainrule.verify.training.names import listed
from chainrule.verify.training.owners import owners
from chainrule.verify.training.said import said
from chainrule.verify.trees import tree_of_file

if TYPE_CHECKING:
    from chainrule.verify.training.coverage import Seen, Steps

_LEAST = 2
"""Steps of others in which it got a gradient."""


def may_be_trained(x: Any) -> bool:
    """Whether a leaf was made to be trained, as far as it tells."""
    return type(x).__name__ == "Parameter" or math.prod(x.shape) == 1


def alone(seen: Seen, optimized: set[int]) -> list[Finding]:
    """One finding for all that were forgotten, at the line of the optimizer."""
    trained = [row for row in seen.optimizers.values() if row.count]
    left = [
        row
        for row in seen.unheld.alone.values()
        if row.name
        and row.count >= _LEAST
        and _comes_to_nothing(row.name, row.was_reset, trained)
        and id(row.param) not in optimized | seen.unheld.asked
        and not seen.names.has(row.param)
        and row.is_unchanged
        and not owners([row.param], "_parameters")  # of which only methods were called
    ]
    return [_finding(trained[0], [row.name for row in left])] if trained and left else []


def _comes_to_nothing(name: str, was_reset: bool, trained: Sequence[Steps]) -> bool:
    """Whether the program does nothing with a gradient, or drops it, by the parameter's name. Who
    reset it by another name may have read it by that."""
    files = {row.place.file for row in trained if row.place is not None}
    nodes = [n for file in files for n in ast.walk(tree_of_file(file))]
    read = [n for n in nodes if isinstance(n, ast.Attribute) and ast.unparse(n) == f"{name}.grad"]
    empty = [n for n in nodes if isinstance(n, ast.Assign) and ast.unparse(n.value) == "None"]
    dropped = [ast.unparse(t) for n in empty for t in n.targets].count(f"{name}.grad")
    return len(read) == dropped and (dropped > 0 or not was_reset)


def _finding(row: Steps, named: list[str]) -> Finding:
    kind = type(row.optimizer).__name__
    because = (
        f"{listed(named)} got gradients in steps of {kind}, of which nothing comes: no optimizer "
        "has them, nothing reads them, and their values are those that they were made with"
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
