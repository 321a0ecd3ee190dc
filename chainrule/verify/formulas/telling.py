"""Statements that tell the values of their expressions when they run."""

from __future__ import annotations

import ast
import copy
from types import CodeType
from typing import Any, cast

from chainrule.verify.formulas.recording import RESULT, Step, chain

TELL = "__chainrule_value__"
"""What tells: called with a text and a value."""
LOOPS = (ast.For, ast.While)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)


def renamed(step: Step) -> ast.stmt | None:
    """A statement with names for dotted ways to values, `self.gamma` for one; None of what is not
    run again. What is returned is given a name."""
    statement = step.statement
    if not isinstance(statement, (*_SIMPLE, *LOOPS)) or not step.writes:
        return None
    made = _Renamed(step.reads.keys() | step.writes.keys()).visit(copy.deepcopy(statement))
    if isinstance(made, ast.Return):
        if made.value is None:
            return None
        target = ast.Name(RESULT, ast.Store())
        made = ast.copy_location(ast.Assign([target], made.value), made)
    return ast.fix_missing_locations(made)


class _Renamed(ast.NodeTransformer):
    """Puts a name in the place of each dotted way that was read."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """`self.gamma`."""
        return self._name(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """`batch['r']`."""
        return self._name(node)

    def _name(self, node: ast.Attribute | ast.Subscript) -> Any:
        text = chain(node)
        if text in self._names:
            return ast.copy_location(ast.Name(text, node.ctx), node)
        return self.generic_visit(node)


def compiled(statement: ast.stmt, file: str) -> CodeType:
    """A statement whose expressions tell their values."""
    made = _Telling().visit(copy.deepcopy(statement))
    module = ast.Module([ast.fix_missing_locations(made)], [])
    return compile(module, file, "exec", dont_inherit=True)


class _Telling(ast.NodeTransformer):
    """Wraps expressions in calls that tell their values; none of those that run many times."""

    def generic_visit(self, node: ast.AST) -> Any:
        """An expression, once what is in it is wrapped."""
        if isinstance(node, ast.For | ast.While | ast.Lambda | ast.ListComp | ast.GeneratorExp):
            return node
        if isinstance(node, ast.DictComp | ast.SetComp | ast.JoinedStr):
            return node
        text = ast.unparse(node) if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call) else ""
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            text = ast.unparse(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            text = ast.unparse(node) if node.attr in ("T", "mT") else ""
        made: Any = super().generic_visit(node)
        if not text:
            return made
        args = [ast.Constant(text), cast("ast.expr", made)]
        return ast.copy_location(ast.Call(ast.Name(TELL, ast.Load()), args, []), node)
