"""Small changes of an expression or a statement: what somebody may have meant who wrote it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TypeVar, cast

from chainrule.verify.formulas import alternatives, insertions
from chainrule.verify.formulas.alternatives import Meant
from chainrule.verify.formulas.kinds import Reach

T = TypeVar("T", bound=ast.AST)
_MOST_NAMES = 8


@dataclass(frozen=True, eq=False)
class Edit:
    """A change of one node of a statement."""

    cost: float
    line: int
    root: ast.stmt
    node: ast.AST
    made: ast.AST
    """What stands in its place."""

    @cached_property
    def before(self) -> str:
        """The node."""
        return ast.unparse(self.node)

    @cached_property
    def after(self) -> str:
        """What it becomes."""
        return ast.unparse(self.made)

    @cached_property
    def statement(self) -> ast.stmt:
        """The statement as it is then."""
        return with_node(self.root, self.node, self.made)


def edits(statement: ast.stmt, reach: Reach) -> Iterator[Edit]:
    """Changes of a statement, in the order of its text."""
    for node in ast.walk(statement):
        line = getattr(node, "lineno", statement.lineno)
        for cost, made in meant(node, reach):
            yield Edit(cost, line, statement, node, made)
    yield from _exchanged(statement, reach)


def meant(node: ast.AST, reach: Reach) -> Meant:
    """What a node may have been meant to be."""
    for kind in _KINDS:
        yield from kind(node, reach)


_KINDS: tuple[Callable[[ast.AST, Reach], Meant], ...] = (
    alternatives.operators, alternatives.operands, alternatives.functions, alternatives.axes,
    alternatives.places, alternatives.numbers, insertions.names, insertions.wraps,
    insertions.pairs, insertions.factors,
)  # fmt: skip


def with_node(root: T, old: ast.AST, new: ast.AST) -> T:
    """A copy of a tree with another node in the place of one."""
    if old is not root:
        return cast("T", ast.fix_missing_locations(_Put(old, new).visit(root)))
    made = copy.deepcopy(new)
    for n in ast.walk(made):
        if not hasattr(n, "end_lineno"):
            ast.copy_location(n, old)
    return cast("T", ast.fix_missing_locations(made))


class _Put(ast.NodeTransformer):
    """Copies the way to a node, and what is beside it is shared."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        """The node, or a copy in which the other one stands."""
        if node is self._old:
            made = copy.deepcopy(self._new)
            for n in ast.walk(made):
                ast.copy_location(n, node)
            return made
        return self.generic_visit(copy.copy(node))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Lists are copied, too: `NodeTransformer` writes into them."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, list(cast("list[object]", value)))
        return super().generic_visit(node)


def _exchanged(statement: ast.stmt, reach: Reach) -> Iterator[Edit]:
    """Two names of one kind, each in the place of the other."""
    part = getattr(statement, "value", None)
    if not isinstance(part, ast.expr):
        return
    read = [n.id for n in ast.walk(part) if isinstance(n, ast.Name) and n.id in reach.names]
    for a, b in combinations(list(dict.fromkeys(read))[:_MOST_NAMES], 2):
        if insertions.alike(reach.names[a], reach.names[b]):
            made = copy.deepcopy(part)
            for n in ast.walk(made):
                if isinstance(n, ast.Name) and n.id in (a, b):
                    n.id = b if n.id == a else a
            yield Edit(1.8, statement.lineno, statement, part, made)
