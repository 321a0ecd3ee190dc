"""Hooks that write into the gradient which they are given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.hook_code import is_in_place
from chainrule.verify.training.text.source import Source, nodes, statement_at


def read_only(finding: Finding) -> Iterator[Edit | None]:
    """What only reads it: `g.abs()` in place of `g.abs_()`."""
    source = Source.at(finding.place)
    if source is None:
        return
    meant = {id(e.value) for e in nodes(source.tree, ast.Expr)}
    calls = [c for c in _in_place(source) if id(c) not in meant]
    yield source.with_pieces([(c.func, _name(source, c)) for c in calls])


def return_change(finding: Finding) -> Iterator[Edit | None]:
    """What changes it as its last statement: `return g.clamp(-1, 1)`, `return g * 2`."""
    if (found := statement_at(finding.place)) is None:
        return
    source, statement = found
    if source.block(statement)[-1] is not statement or not source.around(ast.FunctionDef):
        return
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        new = ast.BinOp(statement.target, statement.op, statement.value)
        yield source.with_pieces([(statement, f"return {source.text(new)}")])
    for call in _in_place(source):
        if isinstance(statement, ast.Expr) and statement.value is call:
            text = source.text(call).replace(source.text(call.func), _name(source, call), 1)
            yield source.with_pieces([(statement, f"return {text}")])


def _in_place(source: Source) -> list[ast.Call]:
    """Calls on the line of methods that change their object."""
    return nodes(source.tree, ast.Call, lambda c: c.lineno == source.place.line and is_in_place(c))


def _name(source: Source, call: ast.Call) -> str:
    """`g.abs` of `g.abs_()`."""
    return source.text(call.func).removesuffix("_")
