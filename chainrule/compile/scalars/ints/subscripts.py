"""Functions with subscripts that can see the index: `x[i]` as a call.

A list asks an index for its number and tells nobody who asked. So while a function is recorded, its
subscripts are calls of `item`: the source is compiled once more with these in their places. Where
there is no source, or another one than that of the code, nothing is changed. Then an index is a
number that has to stay.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, final

from chainrule.compile.scalars.ints.gather import item
from chainrule.engine.source_text import file_text

_ITEM = "\0chainrule.item"
"""Stands for the function among the constants of code."""


@contextmanager
def seeing(functions: Iterable[FunctionType]) -> Generator[None]:
    """Within it the subscripts of these functions are calls of `item`."""
    before: list[tuple[FunctionType, CodeType]] = []
    try:
        for f in functions:
            code = f.__code__
            text = file_text(code.co_filename)
            if text and (new := _rewritten(text, code.co_filename).get(code)):
                before.append((f, code))
                f.__code__ = new
        yield
    finally:
        for f, code in before:
            f.__code__ = code


@lru_cache(maxsize=64)
def _rewritten(source: str, file: str) -> Mapping[CodeType, CodeType]:
    """By the code of each function in a source, its code with calls in the place of subscripts."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is called is a constant
        try:
            old = _compiled(tree, file)
            new = _compiled(_Subscripts().visit(tree), file)
        except (SyntaxError, ValueError, RecursionError):
            return {}
    found: dict[CodeType, CodeType] = {}
    _pair(old, new, found)
    return found


def _compiled(tree: ast.Module, file: str) -> CodeType:
    make: Callable[..., CodeType] = compile
    return make(tree, file, "exec", dont_inherit=True)


def _pair(old: CodeType, new: CodeType, found: dict[CodeType, CodeType]) -> CodeType:
    """Note of each code within `old` what it is in `new`, with the function in its place."""
    inner = iter([x for x in old.co_consts if isinstance(x, CodeType)])
    constants: list[Any] = []
    for x in new.co_consts:
        if isinstance(x, CodeType):
            constants.append(_pair(next(inner), x, found))
        else:
            constants.append(item if x == _ITEM and type(x) is str else x)
    made = new.replace(co_consts=tuple(constants))
    if made.co_freevars == old.co_freevars:
        found[old] = made
    return made


@final
class _Subscripts(ast.NodeTransformer):
    """Puts calls in the places of subscripts that are read, by an index that is no literal."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """`x[i]`."""
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or _is_literal(node.slice):
            return node
        function = ast.copy_location(ast.Constant(_ITEM), node)
        return ast.copy_location(ast.Call(function, [node.value, node.slice], []), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """An annotation is left as it is."""
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """So is that of an argument."""
        return node


def _is_literal(x: ast.expr) -> bool:
    if isinstance(x, ast.Slice):
        return True
    if isinstance(x, ast.Tuple):
        return any(isinstance(e, ast.Slice | ast.Starred) for e in x.elts) or _all_literal(x.elts)
    return isinstance(x, ast.Constant)


def _all_literal(xs: Iterable[ast.expr]) -> bool:
    return all(map(_is_literal, xs))
