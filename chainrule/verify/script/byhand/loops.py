"""Loops that change parameters by themselves: being told when a turn of one begins.

Neither an optimizer nor a backward pass is to be seen there. So the script is compiled with one
call at the head of each such loop, on the line of its first statement; all else is as it stands.
"""

from __future__ import annotations

import ast
import builtins
import copy
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Final, TypeAlias, cast

from chainrule.verify.script.byhand.updates import updates_in

Loop: TypeAlias = ast.For | ast.While
Hear: TypeAlias = Callable[[int, FrameType], None]
"""Is told the line of a loop, and the frame that runs it."""
_TURN: Final = "__chainrule_turn__"
_heard: list[Hear] = []


def compile_with_calls(text: bytes, file: str) -> CodeType:
    """The code of a script that tells of its turns; `SyntaxError` and `ValueError` as of
    `compile`."""
    tree = compile(text, file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    return compile(with_calls(cast("ast.Module", tree)), file, "exec", dont_inherit=True)


@contextmanager
def reporting() -> Generator[None]:
    """Within it code that tells of its turns can run."""
    before = vars(builtins).get(_TURN)
    setattr(builtins, _TURN, _begin_iteration)
    try:
        yield
    finally:
        if before is None:
            delattr(builtins, _TURN)


def listen(tell: Hear) -> None:
    """Let each turn begin with `tell`."""
    _heard.append(tell)


def unlisten(tell: Hear) -> None:
    """No more."""
    if tell in _heard:
        _heard.remove(tell)


def silence() -> None:
    """Let nobody be told any more: in a copy of the process."""
    _heard.clear()


def _begin_iteration(line: int) -> None:
    for tell in tuple(_heard):
        tell(line, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]


def loop_at(tree: ast.AST, line: int) -> Loop | None:
    """The loop that begins on a line."""
    return next((n for n in _loops(tree) if n.lineno == line), None)


def with_calls(tree: ast.Module) -> ast.Module:
    """A copy whose loops tell of their turns, if an update may be in one of these."""
    if not any(True for _ in updates_in(tree)):
        return tree
    reaching = _reaching(tree)
    made = copy.deepcopy(tree)
    for loop in _loops(made):
        if any(map(reaching, loop.body)):
            call = ast.Call(ast.Name(_TURN, ast.Load()), [ast.Constant(loop.lineno)], [])
            loop.body.insert(0, ast.copy_location(ast.Expr(call), loop.body[0]))
    return ast.fix_missing_locations(made)


def _loops(tree: ast.AST) -> Iterator[Loop]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.For | ast.While))


def _reaching(tree: ast.Module) -> Callable[[ast.AST], bool]:
    """Whether a node holds an update, or calls by name what does."""
    named = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    known = set[str]()

    def reaches(node: ast.AST) -> bool:
        return not known.isdisjoint(_called_names(node)) or any(
            True for _ in updates_in(_block(node))
        )

    while found := {f.name for f in named if f.name not in known and reaches(f)}:
        known |= found
    return reaches


def _block(node: ast.AST) -> ast.AST:
    """A node as what has a block, where statements are looked for."""
    return ast.Module([node], []) if isinstance(node, ast.stmt) else node


def _called_names(node: ast.AST) -> Iterator[str]:
    calls = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    for f in calls:
        if isinstance(f, ast.Name):
            yield f.id
        elif isinstance(f, ast.Attribute):
            yield f.attr
