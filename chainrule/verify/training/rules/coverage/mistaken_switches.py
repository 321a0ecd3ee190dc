"""Attributes that were meant to be a switch: where they are set, and what was meant."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Any

from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.text.source import Edit, Source
from chainrule.verify.trees import users_trees

if TYPE_CHECKING:
    pass


_NEAR = 0.9
"""Share of letters in common from which on a name is meant to be another one."""
_METHODS = ("requires_grad_",)
"""Methods that may be taken for switches."""


@dataclass(eq=False)
class Mistaken:
    """Things with one attribute that is True, and should be a switch."""

    name: str
    switch: str
    module: bool
    """Whether it was set on modules."""
    owners: list[str] = field(default_factory=list[str])
    """Names of the things."""
    kept: dict[int, str] = field(default_factory=dict[int, str])
    """By id: what is frozen, or in eval mode, because of it, and its name."""

    @cached_property
    def settings(self) -> list[tuple[str, ast.Assign]]:
        """Statements of the user's that set it to anything but False, with their files: of a
        module, the only one for what has its name, or for anything."""
        rows = [
            (file, node)
            for file, tree in users_trees(self.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and _sets(node, self.name)
        ]
        if not self.is_exact:
            return rows
        last = self.owners[0].rpartition(".")[2]
        named = [row for row in rows if owner_text(row[1]).rpartition(".")[2] == last]
        return (named or rows) if len(named or rows) == 1 else []

    @property
    def is_exact(self) -> bool:
        """Whether it is called as the switch is, which a module has not."""
        return self.name == self.switch

    @property
    def place(self) -> Place | None:
        """The first of them."""
        return Place(self.settings[0][0], self.settings[0][1].lineno) if self.settings else None

    @property
    def is_read(self) -> bool:
        """Whether code of the user's reads such an attribute, or names it. A method that was
        replaced by True may have been called before."""
        nodes = [n for _, tree in users_trees(self.name) for n in ast.walk(tree)]
        texts = [n.value for n in nodes if isinstance(n, ast.Constant)]
        loads = [n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)]
        return self.name in texts or any(
            n.attr == self.name for n in loads if self.name not in _METHODS
        )

    @property
    def state(self) -> str:
        """What it is in that has the switch."""
        return "in eval mode" if self.switch == "training" else "frozen"

    @property
    def some(self) -> str:
        """The first of what is."""
        return join_names(self.kept.values(), 3)

    @property
    def right(self) -> str:
        """The first statement as it was meant."""
        return ast.unparse(_right(self.settings[0][1], self))

    @property
    def edit(self) -> Edit | None:
        """All these statements of a file in one correction."""
        file = self.settings[0][0] if self.settings else ""
        return correction_of(file, [node for other, node in self.settings if other == file], self)


def mistaken_names(thing: Any, switch: str) -> list[str]:
    """Attributes of its own that are True, have nearly the name of a switch, and mean nothing to
    its class."""
    own: dict[str, Any] = getattr(thing, "__dict__", {})
    some = [k for k, v in own.items() if v is True and k != switch and is_near(k, switch)]
    return [k for k in some if k in _METHODS or getattr(thing.__class__, k, None) is None]


def is_near(name: str, switch: str) -> bool:
    """Whether a name is that of a switch, or means it."""
    a, b = [text.lower().replace("_", "") for text in (name, switch)]
    return SequenceMatcher(None, a, b, autojunk=False).ratio() >= _NEAR


def _sets(node: ast.Assign, name: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr=attr)], value=value):
            return attr == name and ast.unparse(value) != "False"
        case _:
            return False


def owner_text(node: ast.Assign) -> str:
    """What an attribute is set of."""
    owner_text = node.targets[0]
    return ast.unparse(owner_text.value) if isinstance(owner_text, ast.Attribute) else ""


def _right(node: ast.Assign, row: Mistaken) -> ast.stmt:
    """The statement as it was meant: a module hands its switches on to what it holds."""
    owner_text = node.targets[0]
    assert isinstance(owner_text, ast.Attribute)
    if not row.module:
        held = ast.Attribute(owner_text.value, row.switch, ast.Store())
        return ast.fix_missing_locations(ast.Assign([held], node.value))
    call = "train" if row.switch == "training" else "requires_grad_"
    method = ast.Attribute(owner_text.value, call, ast.Load())
    return ast.fix_missing_locations(ast.Expr(ast.Call(method, [node.value], [])))


def correction_of(file: str, nodes: Sequence[ast.Assign], row: Mistaken) -> Edit | None:
    """All these statements in one correction, if they are near each other."""
    source = Source.at(Place(file, nodes[0].lineno)) if nodes else None
    pieces = [(n, ast.unparse(_right(n, row))) for n in nodes]
    return None if source is None else source.with_pieces(pieces)
