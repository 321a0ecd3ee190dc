"""What a module gives, put into a name that no code reads: `h = self.conv(x); h = self.norm(x)`.

A function that returns what it has, or keeps it, reads the name; who calls a module for something
else than its value gives that no name, or `_`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from chainrule.verify.place import Place
from chainrule.verify.trees import tree_of_file
from chainrule.verify.where import Line, placed

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.While, ast.AsyncFor)


class Unused(NamedTuple):
    """A value that nothing reads."""

    name: str
    """What it was put into."""
    place: Place
    again: int | None
    """The line on which the name gets another value before anybody has read it."""

    @property
    def because(self) -> str:
        """What is seen."""
        other = f"line {self.again} gives it another value"
        then = "nothing reads it" if self.again is None else other
        return (
            f"what is computed with them is put into `{self.name}`, and {then}: no loss can depend "
            "on it"
        )

    @property
    def advice(self) -> str:
        """What to do."""
        return f"use `{self.name}`, or leave the call out"


def unused(at: Line | None) -> Unused | None:
    """What the call on a line gives to a name in vain; None if somebody may read it."""
    place = placed(at)
    if at is None or place is None:
        return None
    function = _around(tree_of_file(place.file), at[1])
    for block in () if function is None else _blocks(function):
        for i, statement in enumerate(block):
            inside = statement.lineno <= at[1] <= (statement.end_lineno or 0)
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)]) if inside and name.strip("_"):
                    again = _again(block[i + 1 :], name)
                    if again is not None or not _is_read(function, statement, name):
                        return Unused(name, place, again)
                case _:
                    pass
    return None


def _around(tree: ast.AST, line: int) -> ast.AST | None:
    """The innermost function that has a line."""
    functions = [n for n in ast.walk(tree) if isinstance(n, _FUNCTIONS)]
    inside = [f for f in functions if f.lineno <= line <= (f.end_lineno or 0)]
    return max(inside, key=lambda f: f.lineno, default=None)


def _blocks(function: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            rows: object = getattr(node, field, None)
            if isinstance(rows, list):
                yield rows  # pyright: ignore[reportUnknownVariableType]


def _again(after: list[ast.stmt], name: str) -> int | None:
    """The line of a block that gives the name another value, if nothing before it has the name."""
    for statement in after:
        if not _mentions(statement, name):
            continue
        match statement:
            case ast.Assign(targets=[ast.Name(id=other)], value=value) if other == name:
                return None if _mentions(value, name) else statement.lineno
            case _:
                return None
    return None


def _is_read(function: ast.AST | None, statement: ast.stmt, name: str) -> bool:
    """Whether the name is read behind the statement, in a function within, or in another turn."""
    nodes = [] if function is None else list(ast.walk(function))
    names = [n for n in nodes if isinstance(n, ast.Name)]
    if any(isinstance(n, ast.Global | ast.Nonlocal) and name in n.names for n in nodes):
        return True
    if any(n.id in ("locals", "eval", "exec") for n in names):
        return True
    turns = [n for n in nodes if isinstance(n, _LOOPS) and statement in ast.walk(n)]
    inner = [n for n in nodes if isinstance(n, (*_FUNCTIONS, ast.Lambda)) and n is not function]
    end = statement.end_lineno or statement.lineno
    later = any(_reads(n, name) and n.lineno > end for n in names)
    return later or any(_reads(n, name) for whole in (*turns, *inner) for n in ast.walk(whole))


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


def _reads(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store)
