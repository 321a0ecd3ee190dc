"""Changed code for a finding: the user's lines, as they are and as they should be.

Only where the statement stands alone on its line; everything else is left to words.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chainrule.verify.place import Place
from chainrule.verify.where import user_frame


@dataclass(frozen=True)
class Edit:
    """Lines from `place` on: `before` becomes `after`."""

    before: str
    after: str
    place: Place


def name_of(value: Any) -> str:
    """What the user's running line can call an object: a variable, or an attribute of `self`."""
    frame = user_frame()
    if frame is None:
        return ""
    own: dict[str, Any] = getattr(frame.f_locals.get("self"), "__dict__", {})
    named = {**frame.f_globals, **{f"self.{k}": v for k, v in own.items()}, **frame.f_locals}
    return next((name for name, held in named.items() if held is value), "")


def inserted(place: Place | None, statement: str) -> Edit | None:
    """The line with a statement in front of it."""
    line = _line(place)
    if place is None or _statement(line) is None or not statement:
        return None
    return Edit(line, f"{_indent(line)}{statement}\n{line}", place)


def followed(place: Place | None, statement: str) -> Edit | None:
    """The line with a statement behind it."""
    line = _line(place)
    if place is None or _statement(line) is None or not statement:
        return None
    return Edit(line, f"{line}\n{_indent(line)}{statement}", place)


def moved_behind(first: Place | None, second: Place | None) -> Edit | None:
    """The first line moved behind the second one, if both stand in the same block."""
    if first is None or second is None or first.file != second.file or first.line >= second.line:
        return None
    lines = [linecache.getline(first.file, n).rstrip() for n in range(first.line, second.line + 1)]
    if any(_statement(line) is None or _indent(line) != _indent(lines[0]) for line in lines):
        return None
    return Edit("\n".join(lines), "\n".join([*lines[1:], lines[0]]), first)


def divided(place: Place | None, by: int) -> Edit | None:
    """`loss.backward()` as `(loss / by).backward()`."""

    def change(node: ast.stmt) -> bool:
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return False
        if call.func.attr != "backward":
            return False
        call.func.value = ast.BinOp(call.func.value, ast.Div(), ast.Constant(by))
        return True

    return _changed(place, change)


def detached(place: Place | None) -> Edit | None:
    """`losses.append(loss)`, `losses[i] = loss` or `total += loss`, without the graph."""

    def change(node: ast.stmt) -> bool:
        if isinstance(node, ast.Assign | ast.AugAssign):
            node.value = _cut(node.value)
            return True
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not call.args:
            return False
        call.args[-1] = _cut(call.args[-1])
        return True

    return _changed(place, change)


def _cut(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.BinOp):  # total = total + loss: what is added
        return ast.BinOp(value.left, value.op, _cut(value.right))
    return ast.Call(ast.Attribute(value, "detach", ast.Load()), [], [])


def _changed(place: Place | None, change: Callable[[Any], bool]) -> Edit | None:
    line = _line(place)
    node = _statement(line)
    if place is None or node is None or not change(node):
        return None
    return Edit(line, _indent(line) + ast.unparse(ast.fix_missing_locations(node)), place)


def _line(place: Place | None) -> str:
    return "" if place is None else linecache.getline(place.file, place.line).rstrip()


def _statement(line: str) -> ast.stmt | None:
    """The one simple statement of a line; None if it is another thing, or a part of one."""
    try:
        body = ast.parse(line.strip()).body
    except SyntaxError:
        return None
    return body[0] if len(body) == 1 and not hasattr(body[0], "body") else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
