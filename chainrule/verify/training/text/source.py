"""A file of the user's as a tree, and pieces of it written anew.

A piece is a node of the tree and what is to stand in its place. An edit goes from the first line
that changes to the last one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from chainrule.engine.source_text import file_text, source_line
from chainrule.verify.place import Place
from chainrule.verify.trees import blocks, last_word

N = TypeVar("N", bound=ast.AST)

Piece = tuple[ast.AST, str]

_LONG = 60
"""Lines that an edit may go over."""
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
"""Statements that hold no others."""


@dataclass(frozen=True)
class Edit:
    """Lines from `place` on: `before` becomes `after`."""

    before: str
    after: str
    place: Place


class Source:
    """The text of a file around one line."""

    def __init__(self, place: Place, text: str) -> None:
        self.place = place
        self.lines = text.splitlines()
        self.tree = ast.parse(text)

    @staticmethod
    def at(place: Place | None) -> Source | None:
        """The file of a place; None if it cannot be read as Python."""
        text = file_text(place.file) if place else ""
        try:
            return Source(place, text) if place and text else None
        except (SyntaxError, ValueError):
            return None

    def text(self, node: ast.AST) -> str:
        """A node as Python would write it."""
        return ast.unparse(node)

    @cached_property
    def modules(self) -> frozenset[str]:
        """Names that imports of the file have given."""
        found = [n for n in ast.walk(self.tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        return frozenset((a.asname or a.name).split(".")[0] for n in found for a in n.names)

    def around(self, *kinds: type[N], line: int = 0) -> list[N]:
        """Nodes of these kinds that hold the line (that of the place), the innermost first."""
        line = line or self.place.line
        found = [n for n in ast.walk(self.tree) if isinstance(n, kinds) and _holds(n, line)]
        return sorted(found, key=lambda n: last(n) - _start(n)[0])

    def statement(self, line: int = 0) -> ast.stmt | None:
        """The simple statement on the line."""
        found = self.around(*SIMPLE, line=line)
        return found[0] if found else None

    def outermost(self, statement: ast.stmt) -> ast.stmt:
        """The statement, or the loop that does nothing else."""
        loops = self.around(ast.For, line=statement.lineno)
        return next((loop for loop in loops if loop.body == [statement]), statement)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements that it is one of."""
        return next((rows for rows in blocks(self.tree) if statement in rows), [statement])

    @property
    def scope(self) -> ast.AST:
        """The function around the place; the file, if there is none."""
        found = self.around(ast.FunctionDef, ast.AsyncFunctionDef)
        return found[0] if found else self.tree

    def scopes(self) -> Iterator[ast.AST]:
        """The function, the class and the file around the place."""
        yield from self.around(ast.FunctionDef, ast.AsyncFunctionDef)[:1]
        yield from self.around(ast.ClassDef)[:1]
        yield self.tree

    def made(self, node: ast.AST) -> ast.AST:
        """What a name was made of: the value of its last assignment before the place."""
        if not isinstance(node, ast.Name):
            return node
        found = [
            s
            for s in ast.walk(self.scope)
            if isinstance(s, ast.Assign) and s.lineno < self.place.line and len(s.targets) == 1
        ]
        found.sort(key=lambda s: s.lineno)
        values = [s.value for s in found if ast.unparse(s.targets[0]) == node.id]
        return values[-1] if values else node

    # --- edits

    def with_pieces(self, pieces: Sequence[Piece]) -> Edit | None:
        """The lines with other text in place of some nodes; None if that changes nothing."""
        if not pieces:
            return None
        lines = [line.encode() for line in self.lines]
        done: list[tuple[int, int]] = []
        for node, new in sorted(pieces, key=lambda p: _start(p[0]), reverse=True):
            start, end = _start(node), _end(node)
            if done and end > done[-1]:
                continue  # one within another: the inner one was written
            first, final = start[0] - 1, end[0] - 1
            joined = lines[first][: start[1]] + new.encode() + lines[final][end[1] :]
            lines[first : final + 1] = [joined, *[_GONE] * (final - first)]
            done.append(start)
        return self.edited([None if line is _GONE else line.decode() for line in lines])

    def edited(self, new: Sequence[str | None]) -> Edit | None:
        """The lines from the first changed one to the last; None stands for a line that is gone,
        and a line may have become several."""
        changed = [i for i, (a, b) in enumerate(zip(self.lines, new, strict=True)) if a != b]
        if not changed or changed[-1] - changed[0] > _LONG:
            return None
        if all(new[i] is None for i in changed) and changed[-1] + 1 < len(new):
            changed.append(changed[-1] + 1)  # lines that are only taken away: what comes behind
        rows = slice(changed[0], changed[-1] + 1)
        before = [line.rstrip() for line in self.lines[rows]]
        after = [line for line in new[rows] if line is not None]
        place = Place(self.place.file, changed[0] + 1, self.place.function)
        return Edit("\n".join(before), "\n".join(after), place)

    def without(self, nodes: Sequence[ast.stmt]) -> list[str | None]:
        """All lines, those of some statements gone."""
        gone = {i for n in nodes for i in range(n.lineno - 1, last(n))}
        return [None if i in gone else line for i, line in enumerate(self.lines)]

    def moved(self, node: ast.stmt, behind: ast.stmt) -> Edit | None:
        """A statement behind another one, into whose block it comes."""
        if _holds(node, behind.lineno) or _holds(behind, node.lineno):
            return None
        by = " " * behind.col_offset
        rows = self.lines[node.lineno - 1 : last(node)]
        new = self.without([node])
        at = last(behind) - 1
        new[at] = "\n".join([str(new[at]), *[by + row[node.col_offset :] for row in rows]])
        edit = self.edited(new)
        return None if edit is None or edit.after == edit.before else edit  # it was there already

    def before(self, node: ast.stmt, text: str) -> Edit | None:
        """A line in front of a statement."""
        new: list[str | None] = list(self.lines)
        new[node.lineno - 1] = f"{' ' * node.col_offset}{text}\n{new[node.lineno - 1]}"
        return self.edited(new)

    def behind(self, node: ast.stmt, text: str) -> Edit | None:
        """A line behind a statement."""
        new: list[str | None] = list(self.lines)
        new[last(node) - 1] = f"{new[last(node) - 1]}\n{' ' * node.col_offset}{text}"
        return self.edited(new)

    def dedented(self, block: ast.With) -> Edit | None:
        """What is within a `with`, without it."""
        by = block.body[0].col_offset - block.col_offset
        new = self.without([])
        for i in range(block.lineno - 1, last(block)):
            inside = i >= block.body[0].lineno - 1
            new[i] = self.lines[i][by:] if inside and self.lines[i].strip() else None
        return self.edited(new)


_GONE = b"\0"


def line_as(place: Place, text: str) -> Edit:
    """A line with another text behind its indent."""
    line = source_line(place.file, place.line)
    return Edit(line, line[: len(line) - len(line.lstrip())] + text, place)


def statement_at(place: Place | None) -> tuple[Source, ast.stmt] | None:
    """The file of a place and the simple statement on its line; None if there is none."""
    source = Source.at(place)
    statement = source.statement() if source is not None else None
    return (source, statement) if source is not None and statement is not None else None


def nodes(within: ast.AST, kind: type[N], fits: Callable[[N], bool] = lambda _: True) -> list[N]:
    """Nodes of a kind, in the order of the text."""
    found = [n for n in ast.walk(within) if isinstance(n, kind) and fits(n)]
    return sorted(found, key=_start)


def called_name(node: ast.AST) -> str:
    """The last word of what a call calls, "sqrt" of `torch.sqrt(x)`; empty if it is no call."""
    return last_word(node.func) if isinstance(node, ast.Call) else ""


def last(node: ast.AST) -> int:
    """The number of a node's last line."""
    return getattr(node, "end_lineno", 0) or 0


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end(node: ast.AST) -> tuple[int, int]:
    return last(node), getattr(node, "end_col_offset", 0) or 0


def _holds(node: ast.AST, line: int) -> bool:
    return _start(node)[0] <= line <= last(node)
