"""Changed code for a finding: the user's lines, as they are and as they should be.

Only where the statement stands alone on its line; everything else is left to words.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from chainrule.engine.source_text import file_lines, source_line
from chainrule.verify.place import Place
from chainrule.verify.where import user_frame


@dataclass(frozen=True)
class Edit:
    """Lines from `place` on: `before` becomes `after`."""

    before: str
    after: str
    place: Place


@dataclass(frozen=True)
class Known:
    """What an object is called in a function, or in all of a file."""

    name: str
    file: str
    function: str

    def holds(self, place: Place | None) -> bool:
        """Whether it is called so at another line, too."""
        same = place is not None and bool(self.name) and place.file == self.file
        return same and self.function in ("", place.function if place is not None else "")

    def reaches(self, place: Place | None) -> bool:
        """The same; or whether it is an attribute of an object whose method the line is in."""
        if place is None or place.file != self.file or not self.name.startswith("self."):
            return self.holds(place)
        return place.function.rpartition(".")[0] == self.function.rpartition(".")[0]


def known_as(value: Any) -> Known:
    """What the user's running line calls an object, and where it is called so."""
    frame, name = user_frame(), name_of(value)
    if frame is None:
        return Known("", "", "")
    code = frame.f_code
    everywhere = frame.f_globals.get(name) is value
    return Known(name, code.co_filename, "" if everywhere else code.co_qualname)


def name_of(value: Any) -> str:
    """What the user's running line can call an object: a variable, or an attribute of `self`."""
    frame = user_frame()
    if frame is None:
        return ""
    own: dict[str, Any] = getattr(frame.f_locals.get("self"), "__dict__", {})
    named = {**frame.f_globals, **{f"self.{k}": v for k, v in own.items()}, **frame.f_locals}
    return next((name for name, held in named.items() if held is value), "")


def dropped(leaves: Sequence[Any]) -> str:
    """A statement that drops the gradients of leaves, by names of the user's running line."""
    frame = user_frame()
    if frame is None:
        return ""
    for name, held in {**frame.f_globals, **frame.f_locals}.items():
        if isinstance(held, list | tuple):
            inside = {id(x) for x in cast("Sequence[Any]", held)}
            if inside == {id(x) for x in leaves}:
                return f"for p in {name}: p.grad = None"
    names = [name_of(x) for x in leaves]
    return "".join([f"{name}.grad = " for name in names]) + "None" if all(names) else ""


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
    """The first line moved behind the second one, into whose block it comes; it may stand further
    down."""
    if first is None or second is None or first.file != second.file or first.line == second.line:
        return None
    start, end = sorted((first.line, second.line))
    lines = [source_line(first.file, n) for n in range(start, end + 1)]
    if _statement(lines[0]) is None or _statement(lines[-1]) is None:
        return None
    if start == first.line:
        new = [*lines[1:], _indent(lines[-1]) + lines[0].lstrip()]
    else:
        new = [lines[0], _indent(lines[0]) + lines[-1].lstrip(), *lines[1:-1]]
    return Edit("\n".join(lines), "\n".join(new), first if start == first.line else second)


def given_all(place: Place | None, model: str) -> Edit | None:
    """`optimizer = SGD(head.parameters(), ...)` with all parameters of the model."""

    def change(node: ast.stmt) -> bool:
        call = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(call, ast.Call) or not call.args or not model:
            return False
        given = ast.unparse(call.args[0])
        if not given.endswith(".parameters()") or given == f"{model}.parameters()":
            return False  # groups with settings of their own, a list, or all that there was then
        call.args[0] = ast.parse(f"{model}.parameters()", mode="eval").body
        return True

    return changed(place, change)


def given_more(place: Place | None, models: Sequence[str]) -> Edit | None:
    """`optimizer = SGD(model.parameters(), ...)` with the parameters of other models, too."""

    def change(node: ast.stmt) -> bool:
        call = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(call, ast.Call) or not call.args or not models:
            return False
        given = call.args[0]
        if isinstance(given, ast.List) and all(isinstance(e, ast.Dict) for e in given.elts):
            more = [f'{{"params": {model}.parameters()}}' for model in models]
            given.elts += [ast.parse(text, mode="eval").body for text in more]
            return True
        kept = given.elts if isinstance(given, ast.List) else [ast.Starred(given, ast.Load())]
        more = [ast.parse(f"[*{model}.parameters()]", mode="eval").body for model in models]
        added = [e for part in more if isinstance(part, ast.List) for e in part.elts]
        call.args[0] = ast.List([*kept, *added], ast.Load())
        return True

    return changed(place, change)


def with_tensors(place: Place | None, names: Sequence[str]) -> Edit | None:
    """`optimizer = SGD(model.parameters(), ...)` with some tensors more."""

    def change(node: ast.stmt) -> bool:
        call = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(call, ast.Call) or not call.args:
            return False
        given = call.args[0]
        more: list[ast.expr] = [ast.parse(name, mode="eval").body for name in names]
        if isinstance(given, ast.List) and any(isinstance(e, ast.Dict) for e in given.elts):
            more = [ast.Dict([ast.Constant("params")], [ast.List(more, ast.Load())])]
        first = given.elts if isinstance(given, ast.List) else [ast.Starred(given, ast.Load())]
        call.args[0] = ast.List([*first, *more], ast.Load())
        return True

    return changed(place, change)


def added(place: Place | None, models: Sequence[str]) -> Edit | None:
    """The optimizer on the line, given a group more, behind the later line that makes a model."""
    made = _statement(_line(place))
    if place is None or not isinstance(made, ast.Assign) or len(models) != 1:
        return None
    statement = (
        f'{ast.unparse(made.targets[0])}.add_param_group({{"params": {models[0]}.parameters()}})'
    )
    for n, line in enumerate(file_lines(place.file)[place.line :], place.line + 1):
        if line.strip().startswith(f"{models[0]} ="):
            return followed(Place(place.file, n, place.function), statement)
    return None


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

    return changed(place, change)


def _cut(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub):
        # total = total + loss: what is added
        return ast.BinOp(value.left, value.op, _cut(value.right))
    return ast.Call(ast.Attribute(value, "detach", ast.Load()), [], [])


def changed(place: Place | None, change: Callable[[Any], bool]) -> Edit | None:
    """The line with its statement changed; None if `change` returns False for it."""
    line = _line(place)
    node = _statement(line)
    if place is None or node is None or not change(node):
        return None
    return Edit(line, _indent(line) + ast.unparse(ast.fix_missing_locations(node)), place)


def _line(place: Place | None) -> str:
    return "" if place is None else source_line(place.file, place.line)


def _statement(line: str) -> ast.stmt | None:
    """The one simple statement of a line; None if it is another thing, or a part of one."""
    try:
        body = ast.parse(line.strip()).body
    except SyntaxError:
        return None
    return body[0] if len(body) == 1 and not hasattr(body[0], "body") else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
