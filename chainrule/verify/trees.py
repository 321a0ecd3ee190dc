"""Syntax trees of the user's code, which is read and not run.

Trees are shared between all who ask: nobody changes them. What is no Python, or is not there, is an
empty module: it has nothing that anyone looks for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from textwrap import dedent
from typing import TypeAlias, cast

from chainrule.engine.source_text import file_text
from chainrule.verify.user_frames import users_files

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def tree_of(text: str) -> ast.Module:
    """The tree of some code, indented or not; lines are counted from its first one."""
    return _parsed(dedent(text))


def tree_of_file(file: str) -> ast.Module:
    """The tree of a file, as it was when the program began to run."""
    return _parsed(file_text(file))


def users_trees(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """The user's files whose text has one of the words, with their trees.

    A project may have thousands of files, and to parse one takes a hundred times as long as to look
    for a word in it.
    """
    for file in users_files():
        text = file_text(file)
        if any(word in text for word in words):
            yield file, tree_of(text)


def function_at(tree: ast.AST, line: int) -> FunctionNode | None:
    """The innermost function that has a line."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    around = [f for f in functions if f.lineno <= line <= (f.end_lineno or 0)]
    return max(around, key=lambda f: f.lineno, default=None)


def blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """All lists of statements in it, in the order of the text, an outer one before those in it."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        rows: object = getattr(tree, name, None)
        if isinstance(rows, list):
            if name not in ("handlers", "cases"):
                yield cast("list[ast.stmt]", rows)
            for row in cast("list[ast.AST]", rows):
                yield from blocks(row)


def last_word(node: ast.AST) -> str:
    """The last part of a dotted name; empty of anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):  # as of a null byte
        return ast.Module([], [])
