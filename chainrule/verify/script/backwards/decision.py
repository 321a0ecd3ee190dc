"""The line that decided why two runs of one function differ, told from the function's text.

If they went on at different lines, it is the `if` around one of them. If they came to one line with
other numbers in variables that it reads, it is the line that gave the variable its number.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from chainrule.verify.place import Place
from chainrule.verify.trees import tree_of_file
from chainrule.verify.where import Frames, Line, is_library, placed, user_frame

N = TypeVar("N", bound=ast.stmt | ast.expr)
_CHECKPOINT = "checkpoint.py"
"""Frames outside of it are not those of the function that is run twice."""


def numbers() -> dict[str, float]:
    """Numbers in variables of the user's running function, and in attributes of its `self`."""
    frame = user_frame()
    if frame is None:
        return {}
    own: Mapping[str, Any] = getattr(frame.f_locals.get("self"), "__dict__", {})
    named = {**frame.f_locals, **{f"self.{key}": value for key, value in own.items()}}
    return {name: x for name, x in named.items() if isinstance(x, int | float)}


def deciding_line(
    first: Frames, second: Frames, before: Mapping[str, float], after: Mapping[str, float]
) -> Place | None:
    """Where it was decided what differs between two runs; None if the text does not tell.

    Args:
        first: Where the first run was when they differed.
        second: Where the second one was.
        before: Its `numbers` in the first run.
        after: The same in the second.
    """
    here, there = _frames_within(first), _frames_within(second)
    if not here or not there:
        return None
    if here[0] == there[0]:
        return _assigning_line(
            here[0], [name for name, x in before.items() if after.get(name, x) != x]
        )
    lines = dict(reversed(there))
    for code, line in here:
        other = lines.get(code, line)
        if other != line:
            return _branching_line((code, line), other)
    return None


def _frames_within(frames: Frames) -> Sequence[Line]:
    """The user's lines within the function that is run twice, the innermost first."""
    files = [code.co_filename for code, _ in frames]
    end = next((i for i, f in enumerate(files) if f.endswith(_CHECKPOINT)), len(files))
    return [row for row, f in zip(frames[:end], files[:end], strict=True) if not is_library(f)]


def _branching_line(at: Line, other: int) -> Place | None:
    """The outermost condition that holds one of the lines and not the other."""
    code, line = at
    first = min(line, other)
    for n in sorted(_nodes(at, ast.If), key=lambda n: n.lineno):
        end = n.body[-1].end_lineno or n.lineno
        inside = [n.lineno < x <= end for x in (line, other)]
        if n.lineno < first and inside[0] != inside[1]:
            return placed((code, n.lineno))
    return None


def _assigning_line(at: Line, changed: Sequence[str]) -> Place | None:
    """The last line of the function, before `at`, that gives a number which `at` reads."""
    code, line = at
    names = [*_nodes(at, ast.Name), *_nodes(at, ast.Attribute)]
    read = {ast.unparse(n) for n in names if n.lineno <= line <= (n.end_lineno or n.lineno)}
    some = read.intersection(changed)
    gives = [*_nodes(at, ast.Assign), *_nodes(at, ast.AugAssign)]
    made = [
        n.lineno
        for n in gives
        if n.lineno < line and some.intersection(map(ast.unparse, _targets(n)))
    ]
    return placed((code, max(made))) if made else None


def _targets(n: ast.Assign | ast.AugAssign) -> Sequence[ast.expr]:
    return n.targets if isinstance(n, ast.Assign) else [n.target]


def _nodes(at: Line, kind: type[N]) -> list[N]:
    """Nodes of a kind in the function of a line."""
    code = at[0]
    tree = tree_of_file(code.co_filename)
    ends = {line for _, _, line in code.co_lines() if line is not None}
    first, last = min(ends, default=0), max(ends, default=0)
    return [n for n in ast.walk(tree) if isinstance(n, kind) and first <= n.lineno <= last]
