"""Changed code for a finding: the user's lines, as they are and as they should be.

Only where the statement stands alone on its line; everything else is left to words.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, cast

from chainrule.engine.source_text import file_lines
from chainrule.verify.place import Place
from chainrule.verify.training.text.source import Edit, Source, statement_at
from chainrule.verify.user_frames import user_frame, with_callers


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


def known_name(value: Any) -> Known:
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
    return "" if frame is None else _name_in(frame, value)


def names_of(value: Any) -> set[str]:
    """The same for all lines that have led to the running one."""
    return {_name_in(frame, value) for frame in with_callers(user_frame())} - {""}


def _name_in(frame: FrameType, value: Any) -> str:
    own: dict[str, Any] = getattr(frame.f_locals.get("self"), "__dict__", {})
    named = {**frame.f_globals, **{f"self.{k}": v for k, v in own.items()}, **frame.f_locals}
    return next((name for name, held in named.items() if held is value), "")


def drop_statement(leaves: Sequence[Any]) -> str:
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


def insert_before(place: Place | None, statement: str) -> Edit | None:
    """The line with a statement in front of it."""
    found = _statement_at(place) if statement else None
    return None if found is None else found[0].before(found[1], statement)


def insert_behind(place: Place | None, statement: str) -> Edit | None:
    """The line with a statement behind it."""
    found = _statement_at(place) if statement else None
    return None if found is None else found[0].behind(found[1], statement)


def use_behind(place: Place | None, statement: str) -> Edit | None:
    """The line with a statement behind it about the `{name}` that it gives a value."""
    found = _statement_at(place)
    match found:
        case (_, ast.Assign(targets=[ast.Name(id=name)])):
            return insert_behind(place, statement.format(name=name))
        case _:
            return None


def move_behind(first: Place | None, second: Place | None) -> Edit | None:
    """The first line moved behind the second one, into whose block it comes; it may stand further
    down."""
    found, behind = _statement_at(first), _statement_at(second)
    if first is None or second is None or first.file != second.file or first.line == second.line:
        return None
    if found is None or behind is None:
        return None
    source, statement = found
    other = source.statement(second.line)
    return None if other is None else source.moved(statement, other)


def give_all(place: Place | None, model: str) -> Edit | None:
    """`optimizer = SGD(head.parameters(), ...)` with all parameters of the model."""

    def given(old: ast.expr) -> str:
        text, new = ast.unparse(old), f"{model}.parameters()"
        # not groups with settings of their own, a list, or all that there was then
        return new if model and text.endswith(".parameters()") and text != new else ""

    return _give(place, given)


def give_more(place: Place | None, models: Sequence[str]) -> Edit | None:
    """`optimizer = SGD(model.parameters(), ...)` with the parameters of other models, too."""
    more = [f"{model}.parameters()" for model in models]
    groups = [f'{{"params": {text}}}' for text in more]
    return _give(place, lambda old: _longer(old, [f"*{text}" for text in more], groups))


def give_tensors(place: Place | None, names: Sequence[str]) -> Edit | None:
    """`optimizer = SGD(model.parameters(), ...)` with some tensors more."""
    groups = [f'{{"params": [{", ".join(names)}]}}']
    return _give(place, lambda old: _longer(old, names, groups))


def _give(place: Place | None, given: Callable[[ast.expr], str]) -> Edit | None:
    """The optimizer on the line, given something else; nothing if that is empty."""

    def change(node: ast.stmt) -> bool:
        call = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(call, ast.Call) or not (text := "".join(map(given, call.args[:1]))):
            return False
        call.args[0] = ast.parse(text, mode="eval").body
        return True

    return change_line(place, change)


def _longer(old: ast.expr, more: Sequence[str], groups: Sequence[str]) -> str:
    """What an optimizer is given as a list, with more in it; with groups more if it has some."""
    listed = old.elts if isinstance(old, ast.List) else [ast.Starred(old, ast.Load())]
    grouped = isinstance(old, ast.List) and any(isinstance(e, ast.Dict) for e in old.elts)
    texts = [*map(ast.unparse, listed), *(groups if grouped else more)]
    return f"[{', '.join(texts)}]" if more else ""


def add_group(place: Place | None, models: Sequence[str]) -> Edit | None:
    """The optimizer on the line, given a group more, behind the later line that makes a model."""
    found = _statement_at(place)
    made = None if found is None else found[1]
    if place is None or not isinstance(made, ast.Assign) or len(models) != 1:
        return None
    statement = (
        f'{ast.unparse(made.targets[0])}.add_param_group({{"params": {models[0]}.parameters()}})'
    )
    for n, line in enumerate(file_lines(place.file)[place.line :], place.line + 1):
        if line.strip().startswith(f"{models[0]} ="):
            return insert_behind(Place(place.file, n, place.function), statement)
    return None


def detach_line(place: Place | None) -> Edit | None:
    """`losses.append(loss)`, `losses[i] = loss` or `total += loss`, without the graph."""

    def change(node: ast.stmt) -> bool:
        if isinstance(node, ast.Assign | ast.AugAssign):
            node.value = _detach_value(node.value)
            return True
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not call.args:
            return False
        call.args[-1] = _detach_value(call.args[-1])
        return True

    return change_line(place, change)


def _detach_value(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub):
        # total = total + loss: what is added
        return ast.BinOp(value.left, value.op, _detach_value(value.right))
    return ast.Call(ast.Attribute(value, "detach", ast.Load()), [], [])


def change_line(place: Place | None, change: Callable[[Any], bool]) -> Edit | None:
    """The line with its statement changed; None if `change` returns False for it."""
    found = _statement_at(place)
    if found is None or not change(found[1]):
        return None
    text = ast.unparse(ast.fix_missing_locations(found[1]))
    return found[0].with_pieces([(found[1], text)])


def _statement_at(place: Place | None) -> tuple[Source, ast.stmt] | None:
    """The file of a place and the statement on its line; None if that is not all of the line."""
    found = statement_at(place)
    if found is None or place is None:
        return None
    lines = found[0].lines[found[1].lineno - 1 : found[1].end_lineno]
    text = "\n".join(lines).encode()[found[1].col_offset :].decode()
    try:
        alone = len(ast.parse(text).body) == 1 and not lines[0][: found[1].col_offset].strip()
    except SyntaxError:
        return None
    return found if alone else None


def divide_loss(place: Place | None, by: int) -> Edit | None:
    """`loss.backward()` as `(loss / by).backward()`."""

    def change(node: ast.stmt) -> bool:
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return False
        if call.func.attr != "backward":
            return False
        call.func.value = ast.BinOp(call.func.value, ast.Div(), ast.Constant(by))
        return True

    return change_line(place, change)
