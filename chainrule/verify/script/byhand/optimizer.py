"""Optimizers of a script's own, held against the formulas of known ones.

With gradients that are given, a parameter changes as a function of these alone. If that is none of
the known ones, and a small change of the text makes it one, the change is what was meant.
"""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import Any, cast

import numpy as np

from chainrule.verify.arrays.members import is_object
from chainrule.verify.finding import Finding
from chainrule.verify.formulas.alternatives import expression, operators, turned_operator
from chainrule.verify.formulas.edits import with_node
from chainrule.verify.place import Place
from chainrule.verify.script.byhand import code_hooks, loops
from chainrule.verify.script.byhand.formulas import formula_name
from chainrule.verify.script.byhand.given_gradients import (
    Course,
    assigned_names,
    course,
    numbers_in,
    optimizers_in,
)
from chainrule.verify.script.byhand.loop_gradients import give_numbers_memory, rewriting
from chainrule.verify.script.byhand.script_state import widen
from chainrule.verify.script.byhand.step_text import turn_text
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text.source import line_as
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
    code_hooks.silence()
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
    if not wrong or not _is_same_again(own, run()):
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
            return [_finding(file, edit, names[0])]
    return []


def _is_same_again(own: Course, again: Course) -> bool:
    """Whether a second run has made the same steps: no state is left that one run hands to the next
    one, in a closure, say."""
    return len(own.rows) == len(again.rows) and all(
        np.array_equal(a[-1], b[-1]) for a, b in zip(own.rows, again.rows, strict=True)
    )


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
    where: tuple[int, int]
    statement: str = ""
    """As it is then."""

    def apply(self, tree: ast.AST) -> ast.AST:
        """The tree with the change in it, if it has that statement."""
        for n in ast.walk(tree):
            at = (getattr(n, "lineno", 0), getattr(n, "col_offset", -1))
            fits = at == self.where and isinstance(n, ast.expr | ast.AugAssign | ast.Assign)
            if fits and ast.unparse(n) == self.before:
                made = ast.parse(self.after).body[0]
                return with_node(tree, n, made.value if isinstance(made, ast.Expr) else made)
        return tree


def _edits(tree: ast.AST, scope: dict[str, Any]) -> Iterator[_Edit]:
    """Small changes of the statements of optimizers."""
    for own in optimizers_in(tree):
        names = _kinds(_names_of(own.statements), scope)
        for s in _computing(own.statements, own.gradient):
            for node in ast.walk(s):
                where = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
                before = ast.unparse(node)
                for made in _meant(node, names, own.gradient):
                    edit = _Edit(s.lineno, before, ast.unparse(made), where)
                    if edit.after != before:
                        yield replace(edit, statement=ast.unparse(edit.apply(copy.deepcopy(s))))


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


def _meant(node: ast.AST, names: dict[str, str], gradient: str) -> Iterator[ast.AST]:
    """What a node may have been meant to be."""
    match node:
        case ast.BinOp(op=op, left=left, right=right):
            text = ast.unparse(right)
            if text != gradient:
                yield from (made for _, made in turned_operator(node))
            instead: list[str] = []
            if isinstance(op, ast.Pow):
                yield left
                instead = [f"({text}) + 1", f"({text}) - 1"]
                instead += [ast.unparse(right.left)] if isinstance(right, ast.BinOp) else []
            elif isinstance(op, ast.Sub) and ast.unparse(left) in ("1", "1.0"):
                yield right
                counts = [n for n, kind in names.items() if kind == "count"]
                instead = [f"{text} ** {n}" for n in counts if not isinstance(right, ast.BinOp)]
            elif isinstance(op, ast.Div) and isinstance(right, ast.Name | ast.Attribute):
                instead = [f"np.sqrt({text})"]
            yield from (ast.BinOp(left, op, expression(new)) for new in instead)
        case ast.UnaryOp(op=ast.USub()):
            yield from (made for _, made in operators(node))
        case ast.Call(func=f, args=[x]) if "sqrt" in ast.unparse(f):
            yield x
        case ast.Name() | ast.Attribute() | ast.Subscript():
            yield from map(expression, _other_names(node, names, gradient))
        case ast.AugAssign(target=target, op=ast.Add(), value=value):
            yield ast.Assign([target], value, lineno=node.lineno)
        case ast.Assign(targets=[target], value=value):
            yield ast.AugAssign(cast("ast.Name", target), ast.Add(), value)
        case _:
            return


def _other_names(node: ast.expr, names: dict[str, str], gradient: str) -> Iterator[str]:
    """What may stand in the place of a name: others of its kind, `1 - b`, `g ** 2`."""
    text = ast.unparse(node)
    if not isinstance(getattr(node, "ctx", None), ast.Load) or text not in names:
        return
    yield from (n for n in names if n not in (text, gradient) and names[n] == names[text])
    if names[text] == "mean":
        yield f"(1 - {text})"
    if text == gradient:
        yield f"{text} ** 2"


def _finding(file: str, edit: _Edit, name: str) -> Finding:
    place = Place(file, edit.line)
    says = (
        f"with given gradients its steps are those of no optimizer that is known; they are those "
        f"of {_WORDS[name]} with `{edit.after}` for `{edit.before}`"
    )
    return finding(
        "error", "wrong_update", says, f"`{edit.before}` becomes `{edit.after}`", place,
        subject=WHAT, kind="training step by hand", evidence=(says,), rank=1.0,
        edit=line_as(place, edit.statement), rechecked=True,
    )  # fmt: skip
