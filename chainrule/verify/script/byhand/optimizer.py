"""Optimizers of a script's own, held against the formulas of known ones.

With gradients that are given, a parameter changes as a function of these alone. If that is none of
the known ones, and a small change of the text makes it one, the change is what was meant.
"""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

from chainrule.engine.source_text import source_line
from chainrule.verify.arrays.members import is_object
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.place import Place
from chainrule.verify.script.byhand import loops
from chainrule.verify.script.byhand.formulas import formula_name
from chainrule.verify.script.byhand.given_gradients import (
    Course,
    assigned_names,
    course,
    numbers_in,
    optimizers_in,
)
from chainrule.verify.script.byhand.script_state import widen
from chainrule.verify.script.byhand.text import turn_text
from chainrule.verify.script.byhand.turn import give_numbers_memory, rewriting
from chainrule.verify.trees import tree_of_file

WHAT = "an optimizer by hand"
_SECONDS = 25.0
"""Of processor time, for all changes."""
_MOST = 240
"""Changes that are tried."""
_WORDS = {
    "momentum": "a velocity", "lion": "Lion", "adagrad": "Adagrad", "rmsprop": "RMSprop",
    "adam": "Adam",
}  # fmt: skip


def has_optimizer(file: str) -> bool:
    """Whether a file has one."""
    return any(True for _ in optimizers_in(tree_of_file(file)))


def optimizer_findings(line: int, frame: FrameType) -> list[Finding]:
    """What is wrong with the optimizer of a loop whose first turn a frame is about to make. Changes
    what the frame sees: for a copy of the process."""
    loops.silence()
    scope, file = frame.f_globals, frame.f_code.co_filename
    scope.update(frame.f_locals)
    tree = tree_of_file(file)
    loop = loops.loop_at(tree, line)
    widen(scope)
    give_numbers_memory(loop, scope)
    text = None if loop is None else turn_text(loop, file, frame.f_code.co_qualname, scope)
    if loop is None or text is None:
        return []
    numbers = numbers_in(scope, tree)
    run = partial(course, text, scope, loop, rewriting)
    own = run()
    wrong = [row for row, name in zip(own.rows, _names(own, numbers), strict=True) if not name]
    if not wrong:
        return []
    end = time.process_time() + _SECONDS
    for _, edit in zip(range(_MOST), _edits(tree, scope), strict=False):
        if time.process_time() > end:
            break
        try:
            names = _names(run(edit.apply), numbers, exact=True)
        except Exception:  # whatever a change does
            continue
        if names and all(names):
            return [_finding(file, frame, edit, names[0])]
    return []


def _names(own: Course, numbers: list[float], *, exact: bool = False) -> list[str]:
    """Of the formulas by which parameters change, those that are alike once."""
    found = dict[bytes, str]()
    for g, p, steps in own.rows:
        key = g.tobytes() + steps.tobytes()
        if key not in found:
            found[key] = formula_name(g, p, steps, numbers, own.rates, exact=exact)
        if not found[key]:
            break
    return [found.get(g.tobytes() + s.tobytes(), "") for g, _, s in own.rows]


@dataclass(frozen=True)
class _Edit:
    """A change of one node of a statement."""

    line: int
    before: str
    after: str
    """Of the node."""
    statement: str
    """As it is then."""
    mend: Callable[[ast.AST], ast.AST]
    where: tuple[int, int]

    def apply(self, tree: ast.AST) -> ast.AST:
        """The tree with the change in it, if it has that statement."""
        for n in ast.walk(tree):
            at = (getattr(n, "lineno", 0), getattr(n, "col_offset", -1))
            fits = at == self.where and isinstance(n, ast.expr | ast.AugAssign | ast.Assign)
            if fits and ast.unparse(n) == self.before:
                return _Put(n, self.mend(copy.deepcopy(n))).visit(tree)
        return tree


class _Put(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        if node is self._old:
            for n in ast.walk(self._new):
                ast.copy_location(n, self._old)
            return ast.fix_missing_locations(self._new)
        return self.generic_visit(node)


def _edits(tree: ast.AST, scope: dict[str, Any]) -> Iterator[_Edit]:
    """Small changes of the statements of optimizers."""
    for own in optimizers_in(tree):
        names = _kinds(_names_of(own.statements), scope)
        for s in _computing(own.statements, own.gradient):
            for node in ast.walk(s):
                for mend in _mends(node, names, own.gradient):
                    made = mend(copy.deepcopy(node))
                    if ast.unparse(made) != ast.unparse(node):
                        yield _edit(s, node, mend)


def _edit(s: ast.stmt, node: ast.AST, mend: Callable[[ast.AST], ast.AST]) -> _Edit:
    whole = copy.deepcopy(s)
    where = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    edit = _Edit(
        s.lineno, ast.unparse(node), ast.unparse(mend(copy.deepcopy(node))), "", mend, where
    )
    return _Edit(edit.line, edit.before, edit.after, ast.unparse(edit.apply(whole)), mend, where)


def _computing(statements: list[ast.stmt], gradient: str) -> Iterator[ast.stmt]:
    """Those that compute with a gradient, or with what was made of it."""
    made = {gradient}
    for s in statements:
        said = {ast.unparse(n) for n in ast.walk(s) if isinstance(n, ast.expr)}
        if said & made:
            made |= assigned_names(s)
            yield s


def _kinds(names: list[str], scope: dict[str, Any]) -> dict[str, str]:
    """Which of them are arrays, numbers that means are made with, and counts."""
    found = dict[str, str]()
    for name in names:
        try:
            x: Any = eval(name, {**scope, **_selves(scope)})
        except Exception:  # a name of a function, which holds an array mostly
            x = np.zeros(1) if name.isidentifier() else None
        if isinstance(x, float) and 0.3 < x < 1:
            found[name] = "mean"
        elif isinstance(x, int) and not isinstance(x, bool):
            found[name] = "count"
        elif isinstance(x, np.ndarray):
            found[name] = "array"
    return found


def _selves(scope: dict[str, Any]) -> dict[str, Any]:
    """The first object of the script's own, as its methods call it."""
    some = [x for x in scope.values() if is_object(x) and hasattr(x, "__dict__")]
    return {"self": some[-1]} if some else {}


def _names_of(statements: list[ast.stmt]) -> list[str]:
    """What they read, other than functions."""
    found = [n for s in statements for n in ast.walk(s)]
    called = {id(n.func) for n in found if isinstance(n, ast.Call)}
    read = [n for n in found if isinstance(n, ast.Name | ast.Attribute | ast.Subscript)]
    return list(dict.fromkeys([ast.unparse(n) for n in read if id(n) not in called]))


def _mends(
    node: ast.AST, names: dict[str, str], gradient: str
) -> Iterator[Callable[[ast.AST], ast.AST]]:
    """What a node may have been meant to be."""
    match node:
        case ast.BinOp(op=op, left=left, right=right):
            for one, other in ((ast.Add, ast.Sub), (ast.Mult, ast.Div)):
                if isinstance(op, one | other) and ast.unparse(right) != gradient:
                    yield partial(_with_op, op=other() if isinstance(op, one) else one())
            if isinstance(op, ast.Pow):
                yield _left
                for more in ("{} + 1", "{} - 1"):
                    yield partial(_with_right, text=more.format(f"({ast.unparse(right)})"))
                if isinstance(right, ast.BinOp):
                    yield partial(_with_right, text=ast.unparse(right.left))
            if isinstance(op, ast.Sub) and ast.unparse(left) in ("1", "1.0"):
                yield _right
                counts = [n for n, kind in names.items() if kind == "count"]
                for count in counts if not isinstance(right, ast.BinOp) else ():
                    yield partial(_with_right, text=f"{ast.unparse(right)} ** {count}")
            if isinstance(op, ast.Div) and isinstance(right, ast.Name | ast.Attribute):
                yield partial(_with_right, text=f"np.sqrt({ast.unparse(right)})")
        case ast.UnaryOp(op=ast.USub()):
            yield _operand
        case ast.Call(func=f, args=[_]) if "sqrt" in ast.unparse(f):
            yield _argument
        case ast.Name() | ast.Attribute() | ast.Subscript():
            yield from _other_names(node, names, gradient)
        case ast.AugAssign(op=ast.Add()):
            yield _assigned
        case ast.Assign(targets=[_]):
            yield _added
        case _:
            return


def _other_names(
    node: ast.AST, names: dict[str, str], gradient: str
) -> Iterator[Callable[[ast.AST], ast.AST]]:
    text = ast.unparse(node)
    if not isinstance(getattr(node, "ctx", None), ast.Load) or text not in names:
        return
    yield from (
        partial(_named, text=n)
        for n in names
        if n not in (text, gradient) and names[n] == names[text]
    )
    if names[text] == "mean":
        yield partial(_named, text=f"(1 - {text})")
    if text == gradient:
        yield partial(_named, text=f"{text} ** 2")


def _left(node: Any) -> ast.AST:
    return node.left


def _right(node: Any) -> ast.AST:
    return node.right


def _operand(node: Any) -> ast.AST:
    return node.operand


def _argument(node: Any) -> ast.AST:
    return node.args[0]


def _assigned(node: Any) -> ast.AST:
    return ast.Assign([node.target], node.value)


def _added(node: Any) -> ast.AST:
    return ast.AugAssign(node.targets[0], ast.Add(), node.value)


def _named(_: ast.AST, text: str) -> ast.AST:
    return ast.parse(text, mode="eval").body


def _with_op(node: Any, op: ast.operator) -> ast.AST:
    node.op = op
    return node


def _with_right(node: Any, text: str) -> ast.AST:
    node.right = _named(node, text)
    return node


def _finding(file: str, frame: FrameType, edit: _Edit, name: str) -> Finding:
    place = Place(file, edit.line, "")
    line = source_line(file, edit.line)
    says = (
        f"with given gradients its steps are those of no optimizer that is known; they are those "
        f"of {_WORDS[name]} with `{edit.after}` for `{edit.before}`"
    )
    indent = line[: len(line) - len(line.lstrip())]
    found = Correction(
        f"`{edit.before}` becomes `{edit.after}`", line, indent + edit.statement, place,
        rechecked=True,
    )  # fmt: skip
    return Finding(
        "error", WHAT, "training step by hand", "", (Name("wrong_update", says, rank=1.0),), place,
        evidence=(says,), correction=found,
    )  # fmt: skip
