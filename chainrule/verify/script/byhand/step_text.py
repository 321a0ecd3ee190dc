"""The text of a training step that computes gradients by hand, as a function that can be run again.

All that stands before the optimizer's step, in the block in which that stands, or all of a loop's
turn, becomes the body of a function of no arguments, on the lines of the file where it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, FunctionType
from typing import Any, cast

from chainrule.engine.source_text import file_text
from chainrule.verify.script.byhand.loops import Loop
from chainrule.verify.trees import blocks, tree_of_file

_DRAWS = re.compile(
    r"\b(next|rand|randn|randint|randperm|choice|normal|uniform|integers|permutation|shuffle|sample|"
    r"multinomial|bernoulli)\("
)
"""What gives other values each time: it is not run again, its values are there."""
_TAKES = re.compile(r"\bnext\(")
"""What takes from what cannot be set back."""
_TELLS = ("print", "append", "info", "debug", "write", "set_description", "set_postfix")
"""Functions by which losses are shown and kept."""
_LOSS = re.compile(r"loss|cost|nll|mse|error|objective|energy|^[lLJ]$|^ce$|^xent$", re.IGNORECASE)
_NAME = "_step"


@dataclass(frozen=True, eq=False)
class StepText:
    """A step; `results` are variables and other expressions that may be its loss, likely ones
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
    rewritten: Callable[[ast.AST], ast.AST] | None = None
    """What becomes of its tree before it is compiled."""

    def returning(self, loss: str) -> str:
        """The text of a function that returns an expression."""
        return "\n".join([*self.lines, f"{' ' * self.indent}return {loss}", ""])

    def function(self, loss: str, scope: dict[str, Any]) -> FunctionType:
        """The function, with the names of a scope."""
        tree = ast.parse(f"if True:\n{self.returning(loss)}")
        ast.increment_lineno(tree, self.first_line - 2)
        if self.rewritten is not None:
            tree = cast("ast.Module", self.rewritten(tree))
        exec(compile(tree, self.file, "exec", dont_inherit=True), scope)
        made: FunctionType = scope.pop(_NAME)
        made.__qualname__ = self.within
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
    lines = file_text(file).splitlines()
    mine, indent = block[:at], block[0].col_offset
    kept = [s for s in mine if not _draws(s)]
    for statement in mine:
        if statement not in kept:
            first, last = statement.lineno - 1, statement.end_lineno or 0
            lines[first:last] = [f"{' ' * indent}pass", *[""] * (last - first - 1)]
    body = lines[mine[0].lineno - 1 : mine[-1].end_lineno]
    before = ", ".join([f"{n}={n}" for n in _read_first(kept) if n in values])
    head = f"{' ' * (indent - 1)}def {_NAME}({before}):"
    results = [n for n in dict.fromkeys(_stored_names(kept)) if _is_number(values.get(n))]
    results.reverse()
    name = frame.f_code.co_qualname
    return StepText(
        file,
        mine[0].lineno - 1,
        (head, *body),
        indent,
        tuple(sorted(results, key=lambda n: _LOSS.search(n) is None)),
        "" if name == "<module>" else name,
        _clips(lines),
    )


def _clips(lines: list[str]) -> bool:
    return any("clip" in line or "clamp" in line for line in lines)


def turn_text(
    loop: Loop, file: str, name: str, values: Mapping[str, Any], after: Sequence[str] = ()
) -> StepText | None:
    """A turn of a loop; None where it cannot stand alone. `name`: of the function in which that is;
    `values`: of the variables that it sees; `after`: expressions that are shown behind it."""
    lines = file_text(file).splitlines()
    indent = loop.body[0].col_offset
    first, last = loop.body[0].lineno, loop.body[-1].end_lineno
    if indent < 2 or first < 3 or first == loop.lineno or _hands_out(loop.body):
        return None
    for s in loop.body:
        if isinstance(s, ast.Assign) and _TAKES.search(ast.unparse(s)):
            blank = [""] * ((s.end_lineno or s.lineno) - s.lineno)
            lines[s.lineno - 1 : s.end_lineno] = [f"{' ' * indent}pass", *blank]
    before = ", ".join([f"{n}={n}" for n in dict.fromkeys(_stored_names(loop.body)) if n in values])
    head = [f"def {_NAME}({before}):"]
    if any(map(_ends_a_turn, loop.body)):
        head.append("for _ in (0,):")
    outer = [f"{' ' * (indent - len(head) + i)}{line}" for i, line in enumerate(head)]
    return StepText(
        file,
        first - len(head),
        (*outer, *lines[first - 1 : last]),
        indent + 1 - len(head),
        (*_likely_first(_numbers(loop.body)), *after),
        name,
        _clips(lines),
    )


def _likely_first(found: Iterator[str]) -> tuple[str, ...]:
    """What is called a loss before other numbers, names before expressions; then the last one
    first, which may be the sum of the others."""
    last_first = list(dict.fromkeys(reversed(list(found))))
    return tuple(sorted(last_first, key=lambda n: (_LOSS.search(n) is None, not n.isidentifier())))


def _ends_a_turn(node: ast.AST) -> bool:
    """Whether a statement of a loop's block may end its turn."""
    if isinstance(node, ast.Break | ast.Continue):
        return True
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return False
        case (
            ast.For() | ast.While()
        ):  # what stands in it ends its own turns, but not what is behind
            return any(map(_ends_a_turn, node.orelse))
        case _:
            return any(map(_ends_a_turn, ast.iter_child_nodes(node)))


def _hands_out(block: list[ast.stmt]) -> bool:
    """Whether a turn gives values to who asks for the next ones."""
    inner = (n for s in block for n in _own_nodes(s))
    return any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in inner)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that are not of a function within."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        for child in ast.iter_child_nodes(node):
            yield from _own_nodes(child)


def _numbers(block: list[ast.stmt]) -> Iterator[str]:
    """What may be one number: variables, what these get where not every turn gives it to them, and
    what is printed or kept in a list."""
    for s in block:
        for n in _own_nodes(s):
            match n:
                case ast.Name(ctx=ast.Store(), id=name):
                    yield name
                case ast.Attribute(ctx=ast.Store()):
                    yield ast.unparse(n)
                case ast.Assign(targets=[ast.Name()], value=value) if n is not s:
                    yield ast.unparse(value)
                case ast.AugAssign(target=ast.Name(), value=value):
                    yield ast.unparse(value)
                case ast.Call(args=args) if shows_its_arguments(n.func):
                    yield from map(ast.unparse, printed_parts(args))
                case _:
                    pass


def shows_its_arguments(f: ast.expr) -> bool:
    """Whether a function shows, or keeps, what it is given."""
    return (f.attr if isinstance(f, ast.Attribute) else ast.unparse(f)) in _TELLS


def printed_parts(args: list[ast.expr]) -> Iterator[ast.expr]:
    """Expressions in what is printed, the parts of a text one by one."""
    for a in args:
        match a:
            case ast.JoinedStr(values=parts):
                yield from (p.value for p in parts if isinstance(p, ast.FormattedValue))
            case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod(), right=right):
                yield from printed_parts(right.elts if isinstance(right, ast.Tuple) else [right])
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="format"), args=inner):
                yield from printed_parts(inner)
            case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_text(a):
                yield from printed_parts([left, right])
            case ast.Call(func=ast.Name("str" | "round" | "float"), args=[inner, *_]):
                yield from printed_parts([inner])
            case ast.Constant():
                pass
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                yield from printed_parts(elts)
            case _:
                yield a


def _is_text(node: ast.expr) -> bool:
    """Whether a sum is one of texts."""
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(node))


def is_called_loss(name: str) -> bool:
    """Whether a variable is called as losses are."""
    return _LOSS.search(name) is not None


def _block(tree: ast.AST, line: int) -> tuple[list[ast.stmt], int] | None:
    """The statements among which one is on a line, and its place among them."""
    for rows in blocks(tree):
        for i, s in enumerate(rows):
            if s.lineno <= line <= (s.end_lineno or 0) and not hasattr(s, "body"):
                return rows, i
    return None


def _draws(statement: ast.stmt) -> bool:
    simple = isinstance(statement, ast.Assign | ast.AnnAssign)
    return simple and _DRAWS.search(ast.unparse(statement)) is not None


def _names(statements: list[ast.stmt]) -> Iterator[ast.Name]:
    found = [n for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)]
    yield from sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _stored_names(statements: list[ast.stmt]) -> Iterator[str]:
    for n in _names(statements):
        if isinstance(n.ctx, ast.Store):
            yield n.id


def _read_first(statements: list[ast.stmt]) -> list[str]:
    """Variables that are changed, and read before: what a turn hands on to the next one."""
    stored = dict.fromkeys(_stored_names(statements), 0)
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


def expressions_behind(tree: ast.AST, loop: ast.stmt) -> tuple[str, ...]:
    """Expressions that are printed, kept or returned behind a loop, and behind those around it."""
    return tuple(dict.fromkeys([ast.unparse(e) for e in _shown(tree, loop)]))


def _shown(tree: ast.AST, loop: ast.stmt) -> Iterator[ast.expr]:
    for block in reversed(list(blocks(tree))):  # the innermost first
        at = next((i for i, s in enumerate(block) if _holds(s, loop)), None)
        for s in [] if at is None else block[at + 1 :]:
            match s:
                case ast.Expr(value=ast.Call(func=f, args=args)) if shows_its_arguments(f):
                    yield from printed_parts(args)
                case ast.Return(value=ast.expr() as value):
                    yield from printed_parts([value])
                case _:
                    pass


def _holds(statement: ast.stmt, loop: ast.stmt) -> bool:
    return statement.lineno <= loop.lineno <= (statement.end_lineno or 0)
