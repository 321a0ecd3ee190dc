"""Statements of a training loop that belong elsewhere, or are not there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import (
    Source,
    called_name,
    last,
    nodes,
)


def unscale_before_clip(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """`scaler.unscale_(optimizer)` in front of the clipping, by the names of `scaler.step(...)`."""
    if (statement := source.statement()) is None:
        return
    for call in nodes(
        source.scope, ast.Call, lambda n: called_name(n) == "step" and len(n.args) == 1
    ):
        assert isinstance(call.func, ast.Attribute | ast.Name)
        if isinstance(call.func, ast.Attribute):
            scaler, optimizer = source.text(call.func.value), source.text(call.args[0])
            yield source.before(statement, f"{scaler}.unscale_({optimizer})")


def in_its_unit(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """The step behind the loop that it is in, or behind that of the optimizer in a loop within."""
    if (statement := source.statement()) is None:
        return
    loops = source.around(ast.For, ast.While, line=statement.lineno)
    if "every batch," in finding.name.because:
        if len(loops) > 1:
            yield _out_of(source, statement, loops[0])
        return
    for loop in loops[:1]:
        steps = nodes(loop, ast.Expr, lambda e: source.text(e).endswith(".step()"))
        inner = [s for s in steps if s is not statement and s.col_offset > statement.col_offset]
        yield from (source.moved(statement, s) for s in inner[-1:])


def _out_of(source: Source, statement: ast.stmt, loop: ast.For | ast.While) -> Edit | None:
    """A statement behind the loop that it is in."""
    rows = source.lines[statement.lineno - 1 : last(statement)]
    new = source.without([statement])
    at = max([i for i in range(last(loop)) if new[i] is not None])
    by = " " * loop.col_offset
    new[at] = "\n".join([str(new[at]), *[by + row[statement.col_offset :] for row in rows]])
    return source.edited(new)
