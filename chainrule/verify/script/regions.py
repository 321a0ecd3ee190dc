"""The line of a `with torch.no_grad():` around a call."""

from __future__ import annotations

import ast
from functools import lru_cache

from chainrule.verify.place import Place
from chainrule.verify.trees import tree_of_file
from chainrule.verify.where import Frames, is_library, users_line

_OFF = ("no_grad", "inference_mode", "set_grad_enabled")


def switched_off(frames: Frames) -> Place | None:
    """Where the user switched autograd off; None if a library did.

    The innermost place counts: a `with` around the call or the decorator of its function. If none
    is to be seen, it is the line of the call.
    """
    for code, line in frames:
        found = _around(code.co_filename, line)
        if found is not None:
            if is_library(code.co_filename):
                return None
            return Place(code.co_filename, found, code.co_qualname)
    return users_line(frames)


def _around(file: str, line: int) -> int | None:
    """Line of the innermost `with` or decorator of the file that switches autograd off there."""
    inside = [(end - first, at) for first, end, at in _switches(file) if first <= line <= end]
    return min(inside)[1] if inside else None


@lru_cache(maxsize=256)
def _switches(file: str) -> tuple[tuple[int, int, int], ...]:
    """First line, last line, and line of the switch, of all regions in which autograd is off."""
    found: list[tuple[int, int, int]] = []
    for node in ast.walk(tree_of_file(file)):
        if isinstance(node, ast.With):
            makers = [item.context_expr for item in node.items]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            makers = node.decorator_list
        else:
            continue
        for maker in makers:
            if any(name in ast.unparse(maker) for name in _OFF):
                found.append((node.lineno, node.end_lineno or node.lineno, maker.lineno))
    return tuple(found)
