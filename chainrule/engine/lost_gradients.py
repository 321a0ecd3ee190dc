"""A number that is taken out of a function while it is differentiated: no gradient goes through.

`math.sin(x)`, and `a[0] = x` for an array `a` of NumPy's, ask a tensor for its number behind the
user's back; `float(x)` asks openly. Within `grad`, `vjp`, `jvp` and so on that is a warning where
the user's expression computes with the number. It is none where the number is only looked at:
compared, printed, handed to a function that is no function of numbers, or noted elsewhere.
"""

from __future__ import annotations

import ast
import math
import sys
import warnings
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any

from chainrule.engine.graph import Node, order
from chainrule.engine.provenance import HERE, line_of, user_line
from chainrule.engine.source_text import file_text
from chainrule.errors import LostGradientWarning
from chainrule.names.public_names import imports_of

differentiated: ContextVar[tuple[Node | None, ...]] = ContextVar("differentiated", default=())
"""The nodes of the arguments by which functions are being differentiated here."""
_given: set[tuple[str, int]] = set()
"""The lines for which the warning was given."""
_STEPS = {"int", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "isclose"}
"""Functions whose derivative is 0, or that only look."""
_NUMERIC = {"math", "cmath", "np", "numpy", "cr", "chainrule", "scipy"}
"""Modules whose functions compute with the numbers that they are given."""
_ARITHMETIC = {"abs", "complex", "divmod", "float", "max", "min", "pow", "sum", *dir(math)}
"""Functions that do under their own names."""


def notice(node: Node) -> None:
    """Warn if the value of `node`, which becomes a Python number, loses a gradient by that.

    To be called by the method that Python asks for the number, while something is differentiated.
    """
    if sys._getframe(2).f_code.co_filename.startswith(HERE[0]):  # pyright: ignore[reportPrivateUsage]
        return
    code, at = user_line()
    line = code.co_filename, line_of(code, at)
    if line in _given or (advice := _advice(code, at)) is None:
        return
    arguments = [n for n in differentiated.get() if n is not None]
    if not any(n in arguments for n in order([node], arguments)):
        return
    text = (
        f"{advice[0]} makes a plain number in a function that is being differentiated, and no "
        f"gradient goes through that: {advice[1]}. If none is to, write x.item() or x.detach()"
    )
    warnings.warn_explicit(text, LostGradientWarning, *line)
    _given.add(line)


@lru_cache(maxsize=256)
def _advice(code: CodeType, at: int) -> tuple[str, str] | None:
    """The expression at an instruction and what to write for it; None if it loses nothing."""
    found = _expression(code, at)
    if found is None:
        return "this line", "write functions of cr"
    x, around = found
    text = ast.unparse(x)
    if isinstance(x, ast.Subscript):
        return f"{text} = ...", "make the array by cr.zeros, or join its elements by cr.stack"
    if _is_format(x):
        return None
    name = _name(x.func)[1] if isinstance(x, ast.Call) else ""
    if name in _STEPS or not _is_computed_with(x, around, code):
        return None
    if name in ("float", "complex"):
        return text, f"leave {name}() out"
    return text, f"write cr.{name}" if name in imports_of("chainrule") else "write functions of cr"


def _expression(code: CodeType, at: int) -> tuple[ast.AST, list[ast.AST]] | None:
    """The expression that an instruction computes or assigns to, and what is around it."""
    place = next(islice(code.co_positions(), at // 2, None), None)
    if place is None or None in place:
        return None
    start, end, left, right = place
    for x, around in _nodes(file_text(code.co_filename)):
        span = (x.lineno, x.end_lineno, x.col_offset, x.end_col_offset)
        if span == (start, end, left, right):
            return x, around
    return None


@lru_cache(maxsize=4)
def _nodes(text: str) -> list[tuple[Any, list[ast.AST]]]:
    """The expressions of a text, each with what is around it, from the inside out."""
    try:
        stack: list[tuple[ast.AST, list[ast.AST]]] = [(ast.parse(text), [])]
    except (SyntaxError, ValueError):
        return []
    found: list[tuple[Any, list[ast.AST]]] = []
    while stack:
        x, around = stack.pop()
        if isinstance(x, ast.expr):
            found.append((x, around))
        stack += [(child, [x, *around]) for child in ast.iter_child_nodes(x)]
    return found


def _name(f: ast.expr) -> tuple[str, str]:
    """The first and the last part of a function's name."""
    last = f.attr if isinstance(f, ast.Attribute) else ""
    while isinstance(f, ast.Attribute):
        f = f.value
    first = f.id if isinstance(f, ast.Name) else ""
    return (first, last) if last else ("", first)


def _is_format(x: ast.AST) -> bool:
    """Whether this is `"..." % ...`."""
    return (
        isinstance(x, ast.BinOp)
        and isinstance(x.op, ast.Mod)
        and isinstance(x.left, ast.Constant)
        and isinstance(x.left.value, str)
    )


def _is_computed_with(x: ast.AST, around: list[ast.AST], code: CodeType) -> bool:
    """Whether the number that `x` gives goes on into what is computed around it."""
    listed = False
    for y in around:
        match y:
            case ast.Call():
                module, name = _name(y.func)
                if module not in _NUMERIC and (module or name not in _ARITHMETIC):
                    return False  # printed, appended, logged
                if name in _STEPS:
                    return False
                listed = False
            case ast.List() | ast.Tuple() | ast.ListComp() | ast.GeneratorExp():
                listed = True
            case ast.BinOp() if _is_format(y):
                return False
            case ast.BinOp() | ast.UnaryOp() | ast.IfExp() | ast.keyword() | ast.Starred():
                if isinstance(y, ast.IfExp) and y.test is x:
                    return False
            case ast.Attribute():
                pass
            case ast.Subscript() if y.value is x:
                pass
            case ast.Return() | ast.Lambda():
                return not listed  # a part of the result besides the value
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                return _is_local(y, code)
            case _:
                return False
        x = y
    return False


def _is_local(y: Any, code: CodeType) -> bool:
    """Whether an assignment is to a name of the function alone, with which it can go on."""
    targets = y.targets if isinstance(y, ast.Assign) else [y.target]
    names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    plain = all(isinstance(t, ast.Name | ast.Tuple | ast.List) for t in targets)
    return plain and all(name in code.co_varnames for name in names)
