"""Changes of a program's text that can be run: of its own statements, and of what these call."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from chainrule.verify.formulas.candidates import Key, Trace, Unit, kind_of_value
from chainrule.verify.formulas.edits import Edit, edits, with_node
from chainrule.verify.formulas.kinds import Kind, Reach
from chainrule.verify.formulas.recording import Activation, loads_of
from chainrule.verify.formulas.values import array_of, is_plain

_LONG = 40
"""Lines of a function that is called, of which changes are tried."""
_LATER = 0.5
"""What it costs that a change stands there."""


@dataclass(frozen=True, eq=False)
class Change:
    """An edit, and where it stands."""

    unit: Unit
    at: int
    """The line of the program that it concerns first."""
    edit: Edit
    file: str
    inner: Inner | None = None
    """The function that the line calls, if it stands there."""

    @property
    def cost(self) -> float:
        """What is likelier comes first."""
        return self.edit.cost + (0.0 if self.inner is None else _LATER)

    @cached_property
    def _code(self) -> CodeType | None:
        return None if self.inner is None else self.inner.code_with(self.edit)

    def run(self, trace: Trace) -> Trace:
        """What it changes of a run; whatever the changed code raises."""
        if self.inner is None:
            return self.unit.rerun(trace, self.at, self.edit.statement)
        if self._code is None:
            return Trace()
        function: Any = self.inner.function
        old = function.__code__
        try:
            function.__code__ = self._code
            return self.unit.rerun(trace, self.at, None)
        finally:
            function.__code__ = old


@dataclass(frozen=True, eq=False)
class Inner:
    """A function that a program calls, and a statement of it."""

    function: Any
    node: ast.FunctionDef | ast.Lambda
    part: ast.stmt | ast.expr

    def code_with(self, edit: Edit) -> CodeType | None:
        """Its code with another statement, for the same closure."""
        new = edit.statement
        is_lambda = isinstance(self.node, ast.Lambda) and isinstance(new, ast.Expr)
        piece = new.value if is_lambda and isinstance(new, ast.Expr) else new
        return _code_with(self.function, with_node(self.node, self.part, piece))


def changes_of(unit: Unit, kinds: Mapping[Key, Kind]) -> list[Change]:
    """All of a program, the likeliest first."""
    found = list[Change]()
    for at, line in enumerate(unit.lines):
        if line.statement is None:
            continue
        reach = _reach(unit, kinds, at)
        for edit in edits(line.statement, reach):
            if not _forgets(unit, at, edit, reach):
                found.append(Change(unit, at, edit, unit.file))
        for call in line.step.calls if line.step is not None else ():
            found += _inner(unit, at, call)
    return sorted(found, key=lambda c: c.cost)


def _forgets(unit: Unit, at: int, edit: Edit, reach: Reach) -> bool:
    """Whether a change leaves out a value that the program has put in, and takes no other one; or
    one that nothing else reads: who has put it in knew of it."""
    old, new = (set(loads_of(n)) & reach.names.keys() for n in (edit.node, edit.made))
    if not old - new:
        return False
    gone = old - set(loads_of(edit.statement))
    others = [x.step.reads.keys() for i, x in enumerate(unit.lines) if i > at and x.step]
    return bool(gone) and (not new - old or not any(gone & names for names in others))


def _reach(unit: Unit, kinds: Mapping[Key, Kind], at: int) -> Reach:
    """What a line can read: what names stood for before it, and in its loop."""
    names, own = dict[str, Kind](), dict[str, Kind]()
    line = unit.lines[at]
    for (i, text), kind in kinds.items():
        name = text.removesuffix(" =")
        if is_name(name) and (i <= at) and name != "return":
            if name == text or i < at or isinstance(line.statement, ast.For | ast.While):
                names[name] = kind
        elif i == at:
            own[text] = kind
    numpy = next((name for name, x in unit.activation.scope.items() if x is np), "")
    return Reach(names, own, numpy)


def is_name(text: str) -> bool:
    """Whether a text is a name, or a dotted way."""
    return all(part.isidentifier() for part in text.replace("['", ".").replace("']", "").split("."))


def _inner(unit: Unit, at: int, call: Activation) -> Iterator[Change]:
    """Changes of a function that a line calls."""
    function = _function_of(call.code)
    node = call.node
    if function is None or isinstance(node, ast.Module):
        return
    if len(ast.unparse(node).splitlines()) > _LONG:
        return
    names, kinds = dict[str, Kind](), dict[str, Kind]()
    for n, x in call.arguments.items():
        _note(names, n, x)
    for step in call.steps:
        for n, x in (*step.reads.items(), *step.writes.items()):
            _note(names, n, x)
    names.pop("return", None)
    reach = Reach(names, kinds, next((n for n, x in call.scope.items() if x is np), ""))
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    for part in body:
        statement = part if isinstance(part, ast.stmt) else ast.copy_location(ast.Expr(part), part)
        inner = Inner(function, node, part)
        yield from (Change(unit, at, e, call.file, inner) for e in edits(statement, reach))


def _note(names: dict[str, Kind], name: str, value: Any) -> None:
    if is_plain(value) and (array := array_of(value)) is not None:
        names[name] = kind_of_value(value, array)


def _function_of(code: CodeType) -> Any:
    found: list[Any] = [f for f in gc.get_referrers(code) if isinstance(f, FunctionType)]
    return found[0] if found else None


def _code_with(function: Any, node: ast.AST) -> CodeType | None:
    """The code of a function with another text, for the same closure."""
    old: CodeType = function.__code__
    if isinstance(node, ast.FunctionDef):
        inner: ast.stmt = ast.FunctionDef(
            node.name, node.args, node.body, [], node.returns, lineno=node.lineno, col_offset=0
        )
    else:
        inner = ast.Expr(node)  # type: ignore[arg-type]
    free = [ast.Assign([ast.Name(n, ast.Store())], ast.Constant(None)) for n in old.co_freevars]
    outer = ast.FunctionDef(
        "outer", ast.arguments([], [], None, [], [], None, []), [*free, inner], [], None
    )
    try:
        module = ast.fix_missing_locations(ast.Module([outer], []))
        made = compile(module, old.co_filename, "exec", dont_inherit=True)
        codes = [c for c in made.co_consts if isinstance(c, CodeType)]
        inside = [c for c in codes[0].co_consts if isinstance(c, CodeType)]
        code = next(c for c in inside if c.co_name == old.co_name)
    except (SyntaxError, ValueError, StopIteration, IndexError):
        return None
    return code if code.co_freevars == old.co_freevars else None
