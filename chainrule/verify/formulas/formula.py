"""What a row of the table of known formulas states: a value, once, and what it is known by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Value: TypeAlias = Callable[..., Any]
"""Of arrays and numbers: an array, several, or an iterator of variants that are all in use."""


@dataclass(frozen=True)
class Formula:
    """A formula that programs compute, and how a program is known to mean it."""

    name: str
    """In the field's words: "pinball loss"."""
    words: tuple[str, ...]
    """A program that means it has one of them among its identifiers; `kl*` stands for all words
    that begin so."""
    takes: str
    """Its arguments with their axes: "logits[n c], labels[n]:int, margin[]". One letter is one
    length, `*` any shape, the same each time; nothing is a number. What follows the colon is the
    kind: int, bool (0 and 1), float if nothing follows."""
    value: Value
    """By NumPy, of the arguments in this order."""
    source: str
    """Paper, year and equation, or the book."""
    up_to: Literal["", "scale", "factor", "shift and scale"] = ""
    """What makes no difference: a positive factor, any factor but 0, a summand as well."""


@dataclass(frozen=True)
class Argument:
    """One argument of a formula."""

    name: str
    axes: tuple[str, ...] | None
    """A letter for each; None for any shape."""
    kind: Literal["float", "int", "bool"]


def arguments(formula: Formula) -> Iterator[Argument]:
    """What a formula takes, read from its text.

    Raises:
        ValueError: The text is not of the form `name[axes]:kind, ...`.
    """
    for part in formula.takes.split(","):
        name, opened, rest = part.strip().partition("[")
        axes, closed, kind = rest.partition("]")
        kinds: dict[str, Literal["float", "int", "bool"]]
        kinds = {"": "float", ":float": "float", ":int": "int", ":bool": "bool"}
        if not (opened and closed and name.isidentifier() and kind in kinds):
            raise ValueError(f"{formula.name}: an argument is written name[axes]:kind, not {part}")
        yield Argument(name, None if axes == "*" else tuple(axes.split()), kinds[kind])
