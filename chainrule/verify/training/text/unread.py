"""What code makes and never reads: parts of a module.

Parameters of such parts can have no gradient, and nobody makes a layer for that. A class that asks
for its parts in another way than by their names may read them all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.engine.source_text import class_file
from chainrule.verify.place import Place
from chainrule.verify.trees import last_word, users_trees
from chainrule.verify.where import is_library

if TYPE_CHECKING:
    from chainrule.verify.training.facts.names import Names


_INDIRECT = frozenset(
    {"getattr", "vars", "__dict__", "_modules", "_parameters", "children", "named_children",
     "modules", "named_modules", "get_submodule", "get_parameter", "eval", "exec", "setattr"}
)  # fmt: skip
"""By these names code gets at parts without theirs."""


class Unread(NamedTuple):
    """A part that is never read."""

    part: str
    """What its module calls it."""
    owner: str
    """The class of the module."""
    place: Place
    """Where it is made."""
    is_head: bool = False
    """Whether it is one of several layers that take what others give, for a task of its own."""

    @property
    def because(self) -> str:
        """What is seen."""
        return (
            f"{self.owner} makes self.{self.part} and reads it nowhere: its parameters are in the "
            "optimizer, and no loss can depend on them"
        )

    @property
    def advice(self) -> str:
        """What to do."""
        return f"use self.{self.part} in forward, or leave it out"


def unread_part(names: Names, p: Any) -> Unread | None:
    """The part with a parameter that no code reads; None if there may be some."""
    for module, part in holders(names, p):
        place = _place_that_makes(module.__class__, part)
        if place is not None:
            owner = module.__class__.__name__
            return Unread(part, owner, place, is_head=_is_head(module, part))
    return None


def _is_head(module: Any, part: str) -> bool:
    """Whether another layer takes what a part would take, and no layer what it would give."""
    matrices = {name: x for name, x in module.named_parameters() if len(x.shape) == 2}
    own = [tuple(x.shape) for name, x in matrices.items() if name.startswith(f"{part}.")]
    others = [tuple(x.shape) for name, x in matrices.items() if not name.startswith(f"{part}.")]
    return (
        len(own) == 1
        and any(own[0][1] == n for _, n in others)
        and all(own[0][0] not in shape for shape in others)
    )


def holders(names: Names, p: Any) -> Iterator[tuple[Any, str]]:
    """Modules in which a parameter is, and what each calls the part that has it."""
    for engine, root in names.roots.values():
        inside = dict(engine.modules(root))
        for path, module in inside.items():
            for own, q in engine.own(module):
                if q is not p:
                    continue
                steps = [*path.split("."), own] if path else [own]
                for i, step in enumerate(steps):
                    yield inside[".".join(steps[:i])], step


def _place_that_makes(kind: type, part: str) -> Place | None:
    """The line that makes the part, if no code of the user's reads it."""
    own = [c.__name__ for c in kind.__mro__ if not _is_library(c)]
    bases = {c.__name__ for c in kind.__mro__ if _is_library(c)}
    if not part.isidentifier() or bases != {"Module", "object"}:
        return None  # a base's forward may read it
    rows: list[_Made] = []
    for file, tree in users_trees(part, *own):
        found = _uses(file, tree)
        if part in found.read or not found.indirect.isdisjoint(own):
            return None
        rows += [row for row in found.made if row.part == part]
    return next((row.place for name in own for row in rows if row.owner == name), None)


def _is_library(kind: type) -> bool:
    file = class_file(kind)
    return file is None or is_library(file)


class _Made(NamedTuple):
    part: str
    owner: str
    place: Place


class _Uses(NamedTuple):
    read: frozenset[str]
    """Names of attributes that the file reads, other than where a module is made."""
    made: Sequence[_Made]
    """Attributes of `self` that an `__init__` sets."""
    indirect: frozenset[str]
    """Classes whose methods may get at their parts without naming them."""


@lru_cache(maxsize=64)
def _uses(file: str, tree: ast.Module) -> _Uses:
    """What a file does with attributes."""
    nodes = list(ast.walk(tree))
    apart: set[ast.AST] = set()
    made: list[_Made] = []
    indirect: set[str] = set()
    for kind in [n for n in nodes if isinstance(n, ast.ClassDef)]:
        for f in kind.body:
            inside = list(ast.walk(f))
            if isinstance(f, ast.FunctionDef) and f.name == "__init__":
                apart.update(inside)
                places = [(n.attr, Place(file, n.lineno, f"{kind.name}.__init__")) for n in inside
                          if isinstance(n, ast.Attribute) and _is_set(n)]  # fmt: skip
                made += [_Made(part, kind.name, place) for part, place in places]
                continue
            if _INDIRECT & {last_word(n) for n in inside}:
                indirect.add(kind.name)
    read = [
        n.attr for n in nodes
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and n not in apart
    ]  # fmt: skip
    return _Uses(frozenset(read), made, frozenset(indirect))


def _is_set(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and _is_own(node)


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
