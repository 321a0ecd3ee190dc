"""Parameters that a model makes anew in each call: each gets a gradient once, and no optimizer ever
has it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, final

from chainrule.engine.source_text import definition, source_line
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.trees import tree_of
from chainrule.verify.where import is_library

if TYPE_CHECKING:
    from chainrule.verify.training.facts.names import Names

_TIMES = 2
"""In so many backward passes one must have been new."""


class Made(NamedTuple):
    """A line that makes a parameter anew in each call."""

    place: Place
    shape: tuple[int, ...]


@final
class Remade:
    """Notes parameters that no module has and no optimizer changes."""

    def __init__(self) -> None:
        self._met: list[Any] = []  # held, so that the next one is another object
        self._passes = 0

    def ended(self, e: events.BackwardEnds, names: Names, optimized: set[int]) -> None:
        """Note those that got a gradient now."""
        loose = [
            x for x in e.begin.graph.leaves
            if type(x).__name__ == "Parameter" and not names.has(x)
            and id(x) not in optimized and not any(x is old for old in self._met)
        ]  # fmt: skip
        self._passes += bool(loose)
        if self._passes <= _TIMES:
            self._met += loose

    def made(self, names: Names) -> Iterator[Made]:
        """Lines that make parameters in a call of a model."""
        if self._passes < _TIMES:
            return
        roots = names.roots.values()
        kinds: set[type] = {type(m) for engine, root in roots for _, m in engine.modules(root)}
        shape = min({tuple(p.shape) for p in self._met})
        yield from (Made(place, shape) for kind in kinds for place in _lines(kind))


ROWS = (
    Row(
        "not_optimized",
        lambda f: f.facts.remade.made(f.facts.names),
        "this line makes a new parameter in each call (of shape {shape}); each gets a gradient "
        "once and is gone: none is ever updated",
        "make it once, in __init__, as self.name = nn.Parameter(...), and use self.name here",
        subject="{place.function}",
        kind="parameters",
    ),
)


def _lines(kind: type) -> list[Place]:
    """Lines of the methods of a user's class, but those of `__init__`, that make a Parameter."""
    found: list[Place] = []
    for name, method in vars(kind).items():
        code = getattr(method, "__code__", None)
        if code is None or name == "__init__" or is_library(code.co_filename):
            continue
        found_text = definition(method)
        if found_text is None:
            continue
        text, first = found_text
        nodes = ast.walk(tree_of("".join(text)))
        lines = [n.lineno for n in nodes if isinstance(n, ast.Call) and _makes(n)]
        found += [Place(code.co_filename, first + n - 1, code.co_qualname) for n in lines]
    return [p for p in found if "Parameter(" in source_line(p.file, p.line)]


def _makes(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] == "Parameter"
