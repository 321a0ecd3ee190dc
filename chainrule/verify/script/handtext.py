"""The text of a training step that computes gradients by hand, as a function that can be run again.

All that stands before the optimizer's step, in the block in which that stands, becomes the body of
a function of no arguments, on the lines of the file where it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, cast

from chainrule.verify.trees import tree_of_file

_DRAWS = re.compile(
    r"\b(next|rand|randn|randint|randperm|choice|normal|uniform|integers|permutation|shuffle|sample|"
    r"multinomial|bernoulli)\("
)
"""What gives other values each time: it is not run again, its values are there."""
_LOSS = re.compile(r"loss|cost|nll|mse|error|objective|energy|^[lLJ]$|^ce$|^xent$", re.IGNORECASE)
_NAME = "_step"


@dataclass(frozen=True, eq=False)
class StepText:
    """A step up to its optimizer's; `results` are variables that may be its loss, likely ones
    first."""

    file: str
    first_line: int
    lines: tuple[str, ...]
    """From `first_line` on; what comes behind them returns the loss."""
    indent: int
    results: tuple[str, ...]
    within: str
    """The function that it stands in, "" if that is the file."""
    clips: bool
    """Whether anything is clipped in the file."""

    def returning(self, loss: str) -> str:
        """The text of a function that returns a variable."""
        return "\n".join([*self.lines, f"{' ' * self.indent}return {loss}", ""])

    def function(self, loss: str, scope: dict[str, Any]) -> FunctionType:
        """The function, with the names of a scope."""
        tree = ast.parse(f"if True:\n{self.returning(loss)}")
        ast.increment_lineno(tree, self.first_line - 2)
        exec(compile(tree, self.file, "exec"), scope)
        made: FunctionType = scope.pop(_NAME)
        made.__qualname__ = self.within or made.__qualname__
        return made


def step_text(frame: FrameType, values: Mapping[str, Any]) -> StepText | None:
    """The step that a frame is about to make; None where it is not one block of a file, or computes
    nothing that could be its loss. `values`: of the variables that the frame sees."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    found = _block(tree_of_file(file), line)
    if found is None:
        return None
    block, at = found
    if not at or not block[0].col_offset:
        return None
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    mine, indent = block[:at], block[0].col_offset
    kept = [s for s in mine if not _draws(s)]
    for statement in mine:
        if statement not in kept:
            first, last = statement.lineno - 1, statement.end_lineno or 0
            lines[first:last] = [f"{' ' * indent}pass", *[""] * (last - first - 1)]
    body = lines[mine[0].lineno - 1 : mine[-1].end_lineno]
    before = ", ".join([f"{n}={n}" for n in _read_first(kept) if n in values])
    head = f"{' ' * (indent - 1)}def {_NAME}({before}):"
    results = [n for n in dict.fromkeys(_stored(kept)) if _is_number(values.get(n))]
    results.reverse()
    name = frame.f_code.co_qualname
    return StepText(
        file,
        mine[0].lineno - 1,
        (head, *body),
        indent,
        tuple(sorted(results, key=lambda n: _LOSS.search(n) is None)),
        "" if name == "<module>" else name,
        any("clip" in line or "clamp" in line for line in lines),
    )


def is_called_loss(name: str) -> bool:
    """Whether a variable is called as losses are."""
    return _LOSS.search(name) is not None


def _block(tree: ast.AST, line: int) -> tuple[list[ast.stmt], int] | None:
    """The statements among which one is on a line, and its place among them."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block: object = getattr(node, name, None)
            rows = cast("list[ast.stmt]", block if isinstance(block, list) else [])
            for i, s in enumerate(rows):
                inside = s.lineno <= line <= (s.end_lineno or 0)
                if inside and not hasattr(s, "body"):
                    return rows, i
    return None


def _draws(statement: ast.stmt) -> bool:
    simple = isinstance(statement, ast.Assign | ast.AnnAssign)
    return simple and _DRAWS.search(ast.unparse(statement)) is not None


def _names(statements: list[ast.stmt]) -> Iterator[ast.Name]:
    found = [n for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)]
    yield from sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _stored(statements: list[ast.stmt]) -> Iterator[str]:
    for n in _names(statements):
        if isinstance(n.ctx, ast.Store):
            yield n.id


def _read_first(statements: list[ast.stmt]) -> list[str]:
    """Variables that are changed, and read before: what a turn hands on to the next one."""
    stored = dict.fromkeys(_stored(statements), 0)
    lines = dict[str, int]()
    for n in _names(statements):
        if isinstance(n.ctx, ast.Store) and n.id not in lines:
            lines[n.id] = n.lineno
    added = {
        n.target.id
        for s in statements
        for n in ast.walk(s)
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    early = {
        n.id
        for n in _names(statements)
        if isinstance(n.ctx, ast.Load) and n.id in stored and n.lineno <= lines[n.id]
    }
    return sorted(early | added)


def _is_number(value: Any) -> bool:
    """Whether it is one number with digits behind the point: a tensor, or Python's."""
    if isinstance(value, float):
        return True
    floating = getattr(getattr(value, "dtype", None), "is_floating_point", False)
    return bool(floating) and getattr(value, "numel", lambda: 0)() == 1
