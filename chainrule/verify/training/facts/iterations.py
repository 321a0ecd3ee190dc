"""The loops that a running line of the user's is in, the innermost first, through the functions
that lead there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from chainrule.verify.trees import tree_of_file
from chainrule.verify.where import is_library, user_frame

_CALLS = ("range", "len", "enumerate", "zip", "tqdm", "trange", "list", "reversed")
_PLAIN = (
    ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.operator, ast.Call, ast.expr_context,
)  # fmt: skip
_MOST = 12
"""Frames that are looked at."""


@dataclass(frozen=True)
class Loop:
    """One of them."""

    file: str
    line: int
    count: int | None
    """How many turns it makes; None if that is not known before."""


def loops_here() -> tuple[Loop, ...]:
    """Those of the line that is running."""
    return tuple(_all(user_frame()))


def _all(frame: FrameType | None) -> Iterator[Loop]:
    for _ in range(_MOST):
        if frame is None:
            return
        file = frame.f_code.co_filename
        if not is_library(file):
            yield from _around(frame, file)
        frame = frame.f_back


def _around(frame: FrameType, file: str) -> Iterator[Loop]:
    line, first = frame.f_lineno, frame.f_code.co_firstlineno
    found = [
        n
        for n in ast.walk(tree_of_file(file))
        if isinstance(n, ast.For | ast.While)
        and first <= n.lineno < line <= (n.end_lineno or 0)
        and not _is_behind(n, line)
    ]
    for n in sorted(found, key=lambda n: -n.lineno):
        yield Loop(file, n.lineno, _count(n.iter, frame) if isinstance(n, ast.For) else None)


def _is_behind(loop: ast.For | ast.While, line: int) -> bool:
    """Whether a line is in the `else` of a loop."""
    return bool(loop.orelse) and line >= loop.orelse[0].lineno


def _count(of: ast.expr, frame: FrameType) -> int | None:
    """How many things an expression goes over, if asking that changes nothing."""
    if not all(isinstance(n, _PLAIN) for n in ast.walk(of)):
        return None
    calls = [n.func for n in ast.walk(of) if isinstance(n, ast.Call)]
    if any(not isinstance(f, ast.Name) or f.id not in _CALLS for f in calls):
        return None
    match of:
        case ast.Call(func=ast.Name(id="enumerate" | "tqdm" | "list" | "reversed"), args=[x, *_]):
            return _count(x, frame)
        case ast.Call(func=ast.Name(id="zip"), args=parts):
            return min([n for p in parts if (n := _count(p, frame)) is not None], default=None)
        case ast.Call(func=ast.Name(id="trange"), args=args):
            of = ast.Call(ast.Name("range", ast.Load()), args, [])
        case _:
            pass
    try:
        code = compile(ast.fix_missing_locations(ast.Expression(of)), "<turns>", "eval")
        x: Any = eval(code, frame.f_globals, frame.f_locals)
        return len(x) if hasattr(x, "__len__") else None
    except Exception:  # what the user's objects do when they are asked is theirs
        return None
