"""What running functions of the user's compute, statement by statement: for a copy of the process.

The script goes on in the copy and is traced. Of each statement there is kept, once for each call of
its function, what it reads and what it leaves. Loops that train are gone through statement by
statement, too; other loops are one statement each.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType, ModuleType
from typing import Any, TypeAlias, final

from chainrule.verify.formulas.values import fresh, is_plain
from chainrule.verify.trees import tree_of_file

Code: TypeAlias = ast.Module | ast.FunctionDef | ast.Lambda
RESULT = "return"
"""What a function returns stands under this name, which no variable has."""
_TRAINS = frozenset({"backward", "step", "zero_grad"})
FILLS = frozenset({"append", "insert", "extend", "appendleft", "reverse"})
"""Methods that write into what they are called on, besides those that end in `_`."""
_ACTIVATIONS = 2
"""Calls of one function that are kept."""
_STEPS = 400


@dataclass(eq=False)
class Step:
    """A statement that ran, what it read and what it left."""

    statement: ast.stmt
    reads: dict[str, Any]
    writes: dict[str, Any] = field(default_factory=dict[str, Any])
    calls: list[Activation] = field(default_factory=list["Activation"])
    """Of functions of the user's, by it."""


@dataclass(eq=False)
class Activation:
    """One run of a function or of a script, or a part of it."""

    code: CodeType
    node: Code
    scope: dict[str, Any]
    """Its globals."""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a call has given."""
    steps: list[Step] = field(default_factory=list[Step])

    @property
    def file(self) -> str:
        """Where its code stands."""
        return self.code.co_filename


@final
class Recording:
    """Traces functions of some files.

    Args:
        files: Of the user's code.
        is_over: Asked at each call; whether enough was seen.
        over: Called once then, in the traced code.
    """

    def __init__(
        self, files: Sequence[str], is_over: Callable[[], bool], over: Callable[[], None]
    ) -> None:
        self.activations: list[Activation] = []
        self._files = frozenset(files)
        self._is_over = is_over
        self._over = over
        self._counts: dict[CodeType, int] = {}
        self._running: list[_Tracer] = []
        self._first: tuple[FrameType, int] | None = None
        self.came_again = False
        """Whether the line at which it began has run again."""

    def follow(self, frame: FrameType) -> None:
        """Trace a frame that runs already."""
        if frame.f_code.co_filename in self._files and (made := self._tracer(frame, running=True)):
            frame.f_trace = made.trace if self._first is not None else self._first_trace(made)
            self._first = self._first or (frame, frame.f_lineno)

    def _first_trace(self, made: _Tracer) -> Callable[..., Any]:
        """That of the innermost frame, which tells when it comes to its line again."""

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            if self._first is not None and event == "line" and frame.f_lineno == self._first[1]:
                self.came_again = True
            made.trace(frame, event, arg)
            return trace

        return trace

    def call(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What `sys.settrace` takes."""
        code = frame.f_code
        if code.co_filename not in self._files:
            return None
        if self._is_over():
            self._over()
        if self._counts.get(code, 0) >= _ACTIVATIONS or code.co_flags & inspect.CO_GENERATOR:
            return None
        made = self._tracer(frame, running=False)
        return None if made is None else made.trace

    def _tracer(self, frame: FrameType, *, running: bool) -> _Tracer | None:
        code = frame.f_code
        node = node_of(code)
        if node is None:
            return None
        self._counts[code] = self._counts.get(code, 0) + 1
        made = Activation(code, node, frame.f_globals)
        if not running:
            made.arguments = {n: fresh(x) for n, x in frame.f_locals.items() if is_plain(x)}
        self.activations.append(made)
        lines = dict(_lines(node, frame.f_lineno if running else 0))
        return _Tracer(made, lines, self._running)


@final
class _Tracer:
    """Follows one frame."""

    def __init__(
        self, activation: Activation, lines: dict[int, ast.stmt], running: list[_Tracer]
    ) -> None:
        self.made = activation
        self.step: Step | None = None
        self._lines = lines
        self._running = running
        self._seen: set[int] = set()
        caller = running[-1].step if running else None
        if caller is not None and caller not in self.made.steps:
            caller.calls.append(activation)

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What a frame's `f_trace` takes."""
        if event == "return":
            self._finish(frame)
            if self.step is not None and isinstance(self.step.statement, ast.Return):
                self.step.writes[RESULT] = fresh(arg)
            self.step = None
        elif event == "line":
            statement = self._lines.get(frame.f_lineno)
            if self.step is None or statement is not self.step.statement:
                self._finish(frame)
                self.step = None
                if statement is not None and len(self.made.steps) < _STEPS:
                    self._begin(statement, frame)
        return self.trace

    def _begin(self, statement: ast.stmt, frame: FrameType) -> None:
        if id(statement) in self._seen:
            return
        self._seen.add(id(statement))
        self.step = Step(statement, dict(_values(reads_of(statement), frame)))
        self.made.steps.append(self.step)
        self._running.append(self)

    def _finish(self, frame: FrameType) -> None:
        while self._running and self in self._running:
            self._running.pop()
        if self.step is not None:
            self.step.writes.update(_values(stores_of(self.step.statement), frame))


def _values(names: Sequence[str], frame: FrameType) -> Iterator[tuple[str, Any]]:
    """What a frame has under these names, copied if it is made of numbers; of dotted ones only if
    it is."""
    local, scope = frame.f_locals, frame.f_globals
    for name in names:
        root, *rest = name.replace("['", ".['").split(".")
        value = local.get(root, scope.get(root, _NOTHING))
        try:
            for part in rest:
                if isinstance(value, ModuleType) or is_plain(value):
                    value = _NOTHING
                    break
                value = value[part[2:-2]] if part.startswith("['") else getattr(value, part)
        except Exception:  # whatever an attribute's code raises
            continue
        if value is not _NOTHING and (not rest or is_plain(value)):
            yield name, fresh(value)


_NOTHING = object()


def node_of(code: CodeType) -> Code | None:
    """The function, lambda or file that some code is of."""
    tree = tree_of_file(code.co_filename)
    if code.co_name == "<module>":
        return tree
    found: list[Code] = []
    for n in ast.walk(tree):
        if isinstance(n, ast.FunctionDef) and n.name == code.co_name:
            first = min([n.lineno, *[d.lineno for d in n.decorator_list]])
            found += [n] if first == code.co_firstlineno else []
        elif isinstance(n, ast.Lambda) and code.co_name == "<lambda>":
            found += [n] if n.lineno == code.co_firstlineno else []
    return found[0] if len(found) == 1 else None


def _lines(node: Code, running: int) -> Iterator[tuple[int, ast.stmt]]:
    """Lines, and the statements that are recorded there."""
    if isinstance(node, ast.Lambda):
        statement = ast.copy_location(ast.Return(node.body), node.body)
        yield from ((line, statement) for line in _span(node.body))
        return
    for statement in _statements(node.body, running):
        yield from ((line, statement) for line in _span(statement))


def _span(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _statements(block: Sequence[ast.stmt], running: int) -> Iterator[ast.stmt]:
    """Statements that are recorded one by one: those within `if` and `with`, and within loops that
    train."""
    for s in block:
        match s:
            case ast.With(body=body):
                yield from _statements(body, running)
            case ast.If(body=body, orelse=orelse):
                yield from _statements([*body, *orelse], running)
            case ast.For(body=body) | ast.While(body=body) if running in _span(s) or _trains(s):
                yield from _statements(body, running)
            case ast.FunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom() | ast.Try():
                pass
            case _:
                yield s


def _trains(loop: ast.stmt) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in _TRAINS for n in ast.walk(loop))


def chain(node: ast.AST) -> str:
    """`self.gamma` and `batch['r']` as written; empty of what is no such way to a value."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr) if below := chain(value):
            return f"{below}.{attr}"
        case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
            below = chain(value)
            return f"{below}['{key}']" if below and key.isidentifier() else ""
        case _:
            return ""


def reads_of(statement: ast.stmt) -> list[str]:
    """Names that a statement reads, dotted ones too, and what it writes into."""
    return list(dict.fromkeys([*loads_of(statement), *stores_of(statement)]))


def loads_of(node: ast.AST) -> Iterator[str]:
    """Names that a node reads, dotted ones too."""
    is_read = not isinstance(getattr(node, "ctx", None), ast.Store)
    if is_read and isinstance(node, ast.expr) and (text := chain(node)):
        yield text
    for child in ast.iter_child_nodes(node):
        yield from loads_of(child)


def stores_of(statement: ast.stmt) -> list[str]:
    """What a statement may leave otherwise than it was."""
    found = list[str]()
    for n in ast.walk(statement):
        match n:
            case ast.Name(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                found.append(chain(n))
            case ast.Subscript(ctx=ast.Store(), value=value):
                found.append(chain(n) or chain(value))
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in FILLS or (
                attr.endswith("_") and not attr.endswith("__")
            ):
                found.append(chain(value))
            case _:
                pass
    return [name for name in dict.fromkeys(found) if name]
