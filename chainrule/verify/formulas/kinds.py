"""What an edit can put into a text: names in reach, and what expressions stand for."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """What a name or an expression stands for."""

    library: str
    """"tensor", "array", "list" or "number"."""
    shape: tuple[int, ...] = ()
    elements: str = "float"
    """"float", "int" or "bool"."""
    least: float = float("-inf")
    most: float = float("inf")
    is_whole: bool = False
    """Whether it is made of counts, some of them more than 1."""

    @property
    def is_index(self) -> bool:
        """Whether it is a whole number of Python's, as indices and sizes are."""
        return self.library == "number" and self.elements == "int"

    @property
    def is_share(self) -> bool:
        """Whether all of it lies between 0 and 1."""
        return self.least >= 0 and self.most <= 1


@dataclass(frozen=True)
class Reach:
    """What an edit can put in: names in reach, and kinds of expressions, by their text."""

    names: Mapping[str, Kind]
    kinds: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    numpy: str = ""
    """What NumPy is called."""

    def kind(self, node: ast.AST) -> Kind | None:
        """Of a node, where it is known."""
        text = ast.unparse(node)
        return self.names.get(text) or self.kinds.get(text)
