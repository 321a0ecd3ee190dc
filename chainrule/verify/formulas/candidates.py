"""Recorded statements as programs that run again, with other values and with changed text.

A statement is part of a program if it leaves the same values when it runs again with what it read:
this proves the copy of it faithful. Of any other one (it draws, trains, asks an environment) what
it left is an input. Each value on the way is told, by the text of its expression.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import Any, TypeAlias, cast

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.kinds import Kind
from chainrule.verify.formulas.recording import FILLS, Activation, Step, reads_of
from chainrule.verify.formulas.telling import LOOPS, TELL, compiled, renamed
from chainrule.verify.formulas.values import (
    array_of,
    fresh,
    is_number,
    is_plain,
    kind_of,
    moved,
    same,
    wide,
)
from chainrule.verify.stopwatch import interrupted_after

Key: TypeAlias = tuple[int, str]
"""The number of a line of a program, and the text of an expression or a name there."""
_SECONDS = 0.3
"""Of a statement that is run again."""
_FAITHFUL = 2e-4


@dataclass(eq=False)
class Line:
    """A line of a program: what is put in before, and then what runs."""

    inputs: dict[str, Any]
    statement: ast.stmt | None = None
    writes: tuple[str, ...] = ()
    step: Step | None = None

    @property
    def is_loop(self) -> bool:
        """Whether it runs statements many times."""
        return isinstance(self.statement, LOOPS)

    @cached_property
    def mutates(self) -> bool:
        """Whether it may write into what it reads."""
        calls = self.step is not None and bool(self.step.calls)
        return calls or (self.statement is not None and mutates(self.statement))

    def has(self, name: str) -> bool:
        """Whether it gives a name a value."""
        return name in self.inputs or name in self.writes


def mutates(statement: ast.stmt) -> bool:
    """Whether a statement may write into what it reads, as far as its own text tells."""
    for n in ast.walk(statement):
        match n:
            case ast.For() | ast.While() | ast.AugAssign() | ast.Subscript(ctx=ast.Store()):
                return True
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in FILLS or attr.endswith("_"):
                return True
            case _:
                pass
    return False


@dataclass(eq=False)
class Trace:
    """One run of a program: all values on the way, and what each line reads."""

    values: dict[Key, Array] = field(default_factory=dict[Key, Array])
    kinds: dict[Key, Kind] = field(default_factory=dict[Key, Kind])
    reads: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    left: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What each line has put in or written."""
    is_whole: bool = True
    """Whether kinds are noted, too."""

    def keep(self, key: Key, value: Any) -> None:
        """Note a value, and those of a tuple one by one."""
        if isinstance(value, tuple):
            for i, part in enumerate(cast("tuple[Any, ...]", value)[:8]):
                self.keep((key[0], f"{key[1]}#{i}"), part)
        elif is_plain(value) and (array := array_of(value)) is not None:
            self.values[key] = np.array(array)
            if self.is_whole:
                self.kinds[key] = kind_of_value(value, array)


@dataclass(eq=False)
class Unit:
    """What one run of a function or a loop computes, as far as it can be computed again."""

    activation: Activation
    lines: list[Line] = field(default_factory=list[Line])
    _codes: dict[int, CodeType] = field(default_factory=dict[int, CodeType])

    def run(self, inputs: Mapping[Key, Any]) -> Trace:
        """All of it, with other inputs."""
        scope, found = dict(self.activation.scope), Trace()
        for at, line in enumerate(self.lines):
            for name, value in line.inputs.items():
                scope[name] = fresh(inputs.get((at, name), value))
                found.keep((at, name), scope[name])
            names = () if line.step is None else line.step.reads
            found.reads.append({n: fresh(scope[n]) for n in names if n in scope})
            if line.statement is not None:
                self._execute(at, self._code(at), scope, found)
            left = (*line.inputs, *line.writes)
            found.left.append({n: fresh(scope[n]) for n in left if n in scope})
        return found

    def rerun(self, trace: Trace, at: int, statement: ast.stmt | None) -> Trace:
        """The lines that another statement at one of them, or other code of a function that it
        calls, may concern."""
        found, now = Trace(is_whole=False), dict[str, Any]()
        for i, line in enumerate(self.lines[at:], at):
            for name in line.inputs:
                now.pop(name, None)
            if line.statement is None or not (i == at or now.keys() & trace.reads[i].keys()):
                continue
            reads = trace.reads[i] | now
            if statement is not None and i == at:  # it may read other names
                known = self._names(trace, i)
                reads |= {n: known[n] for n in reads_of(statement) if n in known}
            is_copied = line.mutates or (i == at and statement is not None and mutates(statement))
            scope = self.activation.scope | {
                n: fresh(x) if is_copied else x for n, x in reads.items()
            }
            is_changed = statement is not None and i == at
            code = compiled(statement, self.file) if is_changed and statement else self._code(i)
            self._execute(i, code, scope, found)
            now.update({name: scope[name] for name in line.writes if name in scope})
        return found

    def ancestors(self, at: int, changed: int = -1, statement: ast.stmt | None = None) -> set[int]:
        """Lines that a line reads from, and those that these read from."""
        found, left = set[int](), [at]
        while left:
            i = left.pop()
            step = self.lines[i].step
            names = set[str]() if step is None else set(step.reads)
            if i == changed and statement is not None:
                names.update(reads_of(statement))
            for name in names - self.lines[i].inputs.keys():
                j = next((k for k in reversed(range(i)) if self.lines[k].has(name)), None)
                if j is not None and j not in found:
                    found.add(j)
                    left.append(j)
        return found

    def _names(self, trace: Trace, at: int) -> dict[str, Any]:
        """What names stand for before a line."""
        found = dict[str, Any]()
        for left in trace.left[:at]:
            found.update(left)
        return found | trace.reads[at]

    @property
    def file(self) -> str:
        """Of its text."""
        return self.activation.file

    def _execute(self, at: int, code: CodeType, scope: dict[str, Any], found: Trace) -> None:
        def tell(text: str, value: Any) -> Any:
            found.keep((at, text), value)
            return value

        scope[TELL] = tell
        exec(code, scope)
        for name in self.lines[at].writes:
            found.keep((at, f"{name} ="), scope.get(name))

    def _code(self, at: int) -> CodeType:
        if at not in self._codes:
            statement = self.lines[at].statement
            assert statement is not None
            self._codes[at] = compiled(statement, self.file)
        return self._codes[at]

    def inputs(self) -> Iterator[tuple[Key, Any]]:
        """What may be moved."""
        for at, line in enumerate(self.lines):
            yield from (((at, name), x) for name, x in line.inputs.items() if is_plain(x))

    def moved(self, seed: int) -> dict[Key, Any]:
        """Other inputs: what is equal stays equal."""
        known, found = list[tuple[Any, Any]](), dict[Key, Any]()
        for key, x in self.inputs():
            new = next((n for old, n in known if type(old) is type(x) and same(old, x, 0)), None)
            if new is None:
                new = moved(x, np.random.default_rng((seed, len(known))))
                known.append((x, new))
            found[key] = new
        return found


def kind_of_value(value: Any, array: Array) -> Kind:
    """What a value is, for those who put it into text."""
    library = "number" if array.ndim == 0 and is_number(value) else "list"
    if not is_number(value) and not isinstance(value, list | tuple | bool):
        library = "array" if isinstance(value, np.ndarray) else "tensor"
    least, most = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    is_whole = most > 1 and bool((array == np.round(array)).all())
    return Kind(library, array.shape, kind_of(value), least, most, is_whole)


def unit_of(activation: Activation) -> Unit:
    """The program of a run."""
    unit, now = Unit(activation), dict[str, Any]()
    given = {n: x for n, x in activation.arguments.items() if is_plain(x)}
    first = Step(ast.Pass(), dict(given))
    unit.lines.append(Line({n: wide(x) for n, x in given.items()}, None, (), first))
    now.update(given)
    for step in activation.steps:
        inputs = dict[str, Any]()
        for name, value in step.reads.items():
            if name not in now or not _is_same(now[name], value):
                inputs[name] = now[name] = value
        statement = renamed(step)
        if statement is not None and _is_faithful(unit, step, statement):
            line = Line({n: wide(x) for n, x in inputs.items()}, statement, (*step.writes,), step)
            unit.lines.append(line)
        else:
            after = Step(step.statement, dict(step.writes))
            unit.lines.append(Line({n: wide(x) for n, x in step.writes.items()}, None, (), after))
            for name in inputs:
                now.pop(name, None)
        now.update(step.writes)
    return unit


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (is_plain(a) and is_plain(b) and same(a, b, 0))


def _is_faithful(unit: Unit, step: Step, statement: ast.stmt) -> bool:
    """Whether a statement, run again, leaves what it has left."""
    plain = [n for n, x in step.writes.items() if _is_kept(x)]
    if not plain or len(plain) < len(step.writes):
        return False
    scope: dict[str, Any] = {**unit.activation.scope, TELL: _tell_nobody}
    scope.update({n: fresh(wide(x)) for n, x in step.reads.items()})
    try:
        with interrupted_after(_SECONDS):
            exec(compiled(statement, unit.activation.file), scope)
    except Exception:  # whatever the user's code raises
        return False
    return all(_is_again(scope.get(n), step.writes[n]) for n in plain)


def _tell_nobody(_: str, value: Any) -> Any:
    return value


def _is_kept(x: Any) -> bool:
    return is_plain(x) or _is_distribution(x)


def _is_distribution(x: Any) -> bool:
    return type(x).__module__.startswith("torch.distributions")


def _is_again(a: Any, b: Any) -> bool:
    return same(a, b, _FAITHFUL) or (_is_distribution(b) and type(a) is type(b))


def literals_of(lines: Sequence[Line]) -> list[float]:
    """Numbers that stand in the text of a program, and in functions that it calls."""
    trees: list[ast.AST] = [line.statement for line in lines if line.statement is not None]
    calls = [c for line in lines if line.step is not None for c in line.step.calls]
    trees += [c.node for c in calls if not isinstance(c.node, ast.Module)]
    found = [n.value for t in trees for n in ast.walk(t) if isinstance(n, ast.Constant)]
    numbers = [float(x) for x in found if isinstance(x, int | float) and not isinstance(x, bool)]
    return list(dict.fromkeys([x for x in numbers if x not in (0.0, 1.0, -1.0)]))
