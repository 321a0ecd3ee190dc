"""Parameters in no model that get gradients, and that no optimizer has.

`nn.Parameter` says that one is to be trained, and so does a single number (a temperature, a scale):
where steps of others go on, nobody changes it, and nobody reads its gradient or asks for
derivatives by it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from chainrule.verify.training.facts.names import join_names, owners
from chainrule.verify.trees import tree_of_file

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Coverage, Steps


_LEAST = 2
"""Steps of others in which it got a gradient."""


class _Alone(NamedTuple):
    """Parameters in no model that were forgotten, and an optimizer."""

    steps: Steps
    named: list[str]

    @property
    def names(self) -> str:
        """What the program calls them."""
        return join_names(self.named)


def unowned_parameters(part: Coverage) -> Iterator[_Alone]:
    """Those whose gradients come to nothing, beside an optimizer that trains others."""
    seen = part.facts
    trained = [row for row in seen.optimizers.values() if row.count]
    left = [
        row.name
        for row in seen.unheld.alone.values()
        if row.name
        and row.count >= _LEAST
        and _comes_to_nothing(row.name, row.was_reset, trained)
        and id(row.param) not in seen.optimized | seen.unheld.asked
        and not seen.names.has(row.param)
        and not seen.unheld.is_kept(row.param, seen.names)
        and row.is_unchanged
        and not owners([row.param], "_parameters")  # of which only methods were called
    ]
    if trained and left:
        yield _Alone(trained[0], left)


def _comes_to_nothing(name: str, was_reset: bool, trained: Sequence[Steps]) -> bool:
    """Whether the program does nothing with a gradient, or drops it, by the parameter's name. Who
    reset it by another name may have read it by that."""
    files = {row.place.file for row in trained if row.place is not None}
    nodes = [n for file in files for n in ast.walk(tree_of_file(file))]
    read = [n for n in nodes if isinstance(n, ast.Attribute) and ast.unparse(n) == f"{name}.grad"]
    empty = [n for n in nodes if isinstance(n, ast.Assign) and ast.unparse(n.value) == "None"]
    dropped = [ast.unparse(t) for n in empty for t in n.targets].count(f"{name}.grad")
    return len(read) == dropped and (dropped > 0 or not was_reset)
