"""Syntax trees of the user's code, which is read and not run.

Trees are shared between all who ask: nobody changes them. What is no Python, or is not there, is an
empty module: it has nothing that anyone looks for.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from textwrap import dedent

from chainrule.engine.source_text import file_text


def tree_of(text: str) -> ast.Module:
    """The tree of some code, indented or not; lines are counted from its first one."""
    return _parsed(dedent(text))


def tree_of_file(file: str) -> ast.Module:
    """The tree of a file, as it was when the program began to run."""
    return _parsed(file_text(file))


@lru_cache(maxsize=256)
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):  # as of a null byte
        return ast.Module([], [])
