"""Statements of a training loop that belong elsewhere, or are not there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.finding import Finding
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import (
    SIMPLE,
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


def schedule_after_step(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """A step of a schedule behind that of the optimizer, or behind the loop that has it."""
    if (statement := source.statement()) is None:
        return
    for other in _statements_behind(source, statement, "step"):
        yield source.moved(statement, other)


def clip_after_backward(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """Clipping behind the backward pass."""
    if (statement := source.statement()) is None:
        return
    if len(source.block(statement)) > 1:
        for other in nodes(source.scope, ast.Expr, lambda s: called_name(s.value) == "backward"):
            yield source.moved(statement, other)


def change_after_backward(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """A change of a kept value behind the backward pass; or a copy that is changed instead."""
    if (statement := source.statement()) is None:
        return
    if isinstance(statement, ast.Assign):
        for n in nodes(statement.value, ast.expr, _is_shared):
            copy = ".copy()" if called_name(n) == "numpy" else ".clone()"
            yield source.with_pieces([(n, source.text(n) + copy)])
    inside = source.around(ast.FunctionDef)[:1]
    calls = nodes(source.tree, ast.Expr, lambda s: called_name(s.value) in [f.name for f in inside])
    for s in [statement, *calls]:
        whole = source.outermost(s)
        for name in ("backward", "step"):
            for other in _statements_behind(source, whole, name):
                yield source.moved(whole, other)


def _is_shared(node: ast.expr) -> bool:
    """Whether it is a value by another name, in the same memory."""
    data = isinstance(node, ast.Attribute) and node.attr == "data"
    return data or called_name(node) in ("numpy", "detach")


def reset_after_step(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """What resets gradients, by hand too, behind the step."""
    for s in nodes(source.scope, ast.stmt, _resets):
        whole = source.outermost(s)
        for other in _statements_behind(source, whole, "step")[:1]:
            yield source.moved(whole, other)


def drop_reset(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """The reset left out."""
    statement = source.statement()
    if statement is None or not _resets(statement):
        return
    whole = source.outermost(statement)
    if len(source.block(whole)) > 1:
        yield source.edited(source.without([whole]))


def reset_after_use(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """Gradients that are dropped as soon as they were used, by whoever uses them by hand."""
    last_use: dict[str, ast.stmt] = {}
    for s in nodes(source.scope, ast.stmt, lambda s: isinstance(s, SIMPLE)):
        for n in nodes(s, ast.Attribute, lambda n: n.attr == "grad"):
            last_use[source.text(n)] = s
    new: list[str | None] = list(source.lines)
    for grad, s in last_use.items():
        at = last(s) - 1
        new[at] = f"{new[at]}\n{' ' * s.col_offset}{grad} = None"
    yield source.edited(new)


def detach_carried(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """What one turn of a loop, or one call, leaves to the next one, without its graph."""
    forms = ("{0}.detach()", "tuple(s.detach() for s in {0})")
    for loop in source.around(ast.For, ast.While)[:1]:
        for text in [source.text(n) for n in _carried_values(source, loop)]:
            for form in forms:
                yield source.behind(loop.body[-1], f"{text} = {form.format(text)}")
    calls = [n for f in nodes(source.tree, ast.FunctionDef) for n in _carried_values(source, f)]
    for first in [n for n in calls if isinstance(n, ast.Attribute)]:
        for form in forms:
            yield source.with_pieces([(first, form.format(source.text(first)))])


def _carried_values(source: Source, block: ast.AST) -> list[ast.expr]:
    """First reads, in a block, of what it writes only later or in the same statement."""
    reads: dict[str, ast.expr] = {}
    writes: dict[str, int] = {}
    for n in nodes(block, ast.expr):
        if isinstance(n, ast.Name | ast.Attribute):
            if isinstance(n.ctx, ast.Store):
                writes.setdefault(source.text(n), n.lineno)
            else:
                reads.setdefault(source.text(n), n)
    return [n for text, n in reads.items() if text in writes and n.lineno <= writes[text]]


def _resets(s: ast.stmt) -> bool:
    """Whether a statement, or all of a loop, resets gradients."""
    if isinstance(s, ast.For):
        return all(_resets(inner) for inner in s.body)
    if isinstance(s, ast.Assign):
        target = s.targets[0]
        return isinstance(target, ast.Attribute) and target.attr == "grad"
    names = ("zero_grad", "zero_")
    return isinstance(s, ast.Expr) and any(called_name(n) in names for n in ast.walk(s))


def _statements_behind(source: Source, statement: ast.stmt, name: str) -> list[ast.stmt]:
    """Statements of its block below this one in which something of that name is called, the
    nearest first."""
    below = [s for s in source.block(statement) if s.lineno > statement.lineno]
    return [s for s in below if any(called_name(n) == name for n in ast.walk(s))]


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
