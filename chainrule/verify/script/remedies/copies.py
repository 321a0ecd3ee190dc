"""Values that are kept for a backward pass, apart from those that change meanwhile."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.repair.code.syntax import elements
from chainrule.verify.script.remedies.source import Piece, Source, statement_at
from chainrule.verify.training.edits import Edit


def kept_apart(finding: Finding) -> Iterator[Edit | None]:
    """A copy of what a forward keeps on its ctx: `ctx.mask = mask.clone()`."""
    if (found := statement_at(finding.place)) is None:
        return
    source, statement = found
    if not isinstance(statement, ast.Assign):
        return
    pieces = list[Piece]()
    for one, value in _pairs(statement):
        if isinstance(one, ast.Attribute) and one.attr == finding.input.rpartition(".")[2]:
            pieces += [(v, _copy(source, v)) for v in elements(value)]
    yield source.with_pieces(pieces)


def _pairs(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target, with the value that it gets."""
    for target in statement.targets:
        some, values = elements(target), elements(statement.value)
        several = isinstance(target, ast.Tuple | ast.List) and len(some) == len(values)
        yield from zip(some, values, strict=True) if several else [(target, statement.value)]


def _copy(source: Source, value: ast.expr) -> str:
    text = source.text(value)
    plain = isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    return f"{text}.clone()" if plain else f"({text}).clone()"
