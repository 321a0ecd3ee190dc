"""Assignments that replace what was computed before, as far as the text of a backward tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from chainrule.verify.subject import Source
from chainrule.verify.trees import tree_of


@dataclass(frozen=True)
class Overwrite:
    """An assignment that replaces what an earlier one, or an earlier turn of a loop, computed."""

    name: str
    line: int
    before: int


def overwrites(source: Source | None) -> list[Overwrite]:
    """Assignments with `=` to a place that already held something which nobody had read since."""
    if source is None:
        return []
    tree = tree_of(source.text)
    first = source.first_line - 1
    found = [*_twice(tree), *_in_loops(tree)]
    return [Overwrite(o.name, o.line + first, o.before + first) for o in found]


def _twice(tree: ast.AST) -> Iterator[Overwrite]:
    """`dx = a` ... `dx = b` in one block, where b and what lies between do not read dx."""
    for node in ast.walk(tree):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list):
                yield from _in_block(cast("list[ast.stmt]", block))


def _in_block(block: list[ast.stmt]) -> Iterator[Overwrite]:
    held: dict[str, int] = {}
    for statement in block:
        read = _read(statement)
        for name in [n for n in held if n in read]:
            del held[name]
        for name in _assigned(statement):
            if name in held:
                yield Overwrite(name, statement.lineno, held[name])
            held[name] = statement.lineno


def _in_loops(tree: ast.AST) -> Iterator[Overwrite]:
    """`dW = ...` in a loop that neither reads dW nor gives every turn an element of its own."""
    for loop in ast.walk(tree):
        if not isinstance(loop, (ast.For, ast.While)):
            continue
        counted = _read(loop.target) if isinstance(loop, ast.For) else set[str]()
        inside = set[str]().union(*[_read(s) for s in loop.body])
        for statement in loop.body:
            for name in _assigned(statement):
                if name not in inside and not counted & _own_index(name):
                    yield Overwrite(name, statement.lineno, statement.lineno)


def _assigned(statement: ast.stmt) -> list[str]:
    if not isinstance(statement, ast.Assign):
        return []
    return [
        ast.unparse(t)
        for t in statement.targets
        if isinstance(t, (ast.Name, ast.Subscript, ast.Attribute))
    ]


def _read(node: ast.AST) -> set[str]:
    """Texts of all names, attributes and subscripts that are read (or counted by a loop)."""
    kinds = (ast.Name, ast.Subscript, ast.Attribute)
    found: set[str] = set()
    for n in ast.walk(node):
        if isinstance(n, kinds) and (isinstance(n.ctx, ast.Load) or isinstance(node, kinds)):
            found.add(ast.unparse(n))
    if isinstance(node, ast.AugAssign):
        found.add(ast.unparse(node.target))
    return found


def _own_index(place: str) -> set[str]:
    """Names that index a place directly: `i` in dx[i], nothing in dx[rows[i]]."""
    node = ast.parse(place, mode="eval").body
    if not isinstance(node, ast.Subscript):
        return set()
    inner = {
        id(m) for n in ast.walk(node.slice) if isinstance(n, ast.Subscript) for m in ast.walk(n)
    }
    found = [n for n in ast.walk(node.slice) if isinstance(n, ast.Name) and id(n) not in inner]
    return {n.id for n in found}
