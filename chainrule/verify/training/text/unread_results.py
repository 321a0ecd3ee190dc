"""What code makes and never reads: parts of a module, and results of a call.

Parameters of such parts can have no gradient, and nobody makes a layer for that. A class that asks
for its parts in another way than by their names may read them all. A function that returns what it
has, or keeps it, reads the name; who calls a module for something else than its value gives that no
name, or `_`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.engine.source_text import class_file, source_line
from chainrule.verify.place import Place
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.trees import blocks, function_at, last_word, tree_of_file, users_trees
from chainrule.verify.user_frames import Line, is_library, placed

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
    """Where it is made, or where another one is read in its place."""
    twice: str = ""
    """What another part is called that is read there, and once more."""
    is_head: bool = False
    """Whether it is one of several layers that take what others give, for a task of its own."""

    @property
    def because(self) -> str:
        """What is seen."""
        others = f", and self.{self.twice} more than once" if self.twice else ""
        return (
            f"{self.owner} makes self.{self.part} and reads it nowhere{others}: its parameters are "
            "in the optimizer, and no loss can depend on them"
        )

    @property
    def advice(self) -> str:
        """What to do."""
        return f"use self.{self.part} in forward, or leave it out"

    @property
    def edit(self) -> Edit | None:
        """The line that reads the other one, with this one."""
        if not self.twice:
            return None
        old, new = rf"\bself\.{self.twice}\b", f"self.{self.part}"
        line = source_line(self.place.file, self.place.line)
        return Edit(line, re.sub(old, new, line), self.place)


def unread_part(names: Names, p: Any) -> Unread | None:
    """The part with a parameter that no code reads; None if there may be some."""
    for module, part in holders(names, p):
        place = _place_that_makes(module.__class__, part)
        if place is not None:
            owner = module.__class__.__name__
            lines = _uses(place.file, tree_of_file(place.file)).lines
            for other in _similar_parts(module, part):
                again = [r for r in lines if r.part == other and r.owner == owner]
                if len({row.place for row in again}) > 1:
                    return Unread(part, owner, again[-1].place, other)
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


def _similar_parts(module: Any, part: str) -> list[str]:
    """Parts of the same class whose names differ in their numbers only: `conv2` for `conv3`."""
    word, value = re.sub(r"\d", "", part), getattr(module, part, None)
    others: dict[str, Any] = dict(module.named_children())
    return [
        name
        for name, other in others.items()
        if name != part and re.sub(r"\d", "", name) == word and other.__class__ is value.__class__
    ]


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
    lines: Sequence[_Made]
    """Attributes of `self` that other methods read, line by line."""
    indirect: frozenset[str]
    """Classes whose methods may get at their parts without naming them."""


@lru_cache(maxsize=64)
def _uses(file: str, tree: ast.Module) -> _Uses:
    """What a file does with attributes."""
    nodes = list(ast.walk(tree))
    apart: set[ast.AST] = set()
    made: list[_Made] = []
    lines: list[_Made] = []
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
            lines += [_Made(n.attr, kind.name, Place(file, n.lineno)) for n in inside
                      if isinstance(n, ast.Attribute) and _is_own(n)]  # fmt: skip
            if _INDIRECT & {last_word(n) for n in inside}:
                indirect.add(kind.name)
    read = [
        n.attr for n in nodes
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and n not in apart
    ]  # fmt: skip
    lines.sort(key=lambda row: row.place.line)
    return _Uses(frozenset(read), made, lines, frozenset(indirect))


def _is_set(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and _is_own(node)


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.While, ast.AsyncFor)


class Unused(NamedTuple):
    """A value that nothing reads."""

    name: str
    """What it was put into."""
    place: Place
    again: int | None
    """The line on which the name gets another value before anybody has read it."""

    @property
    def because(self) -> str:
        """What is seen."""
        other = f"line {self.again} gives it another value"
        then = "nothing reads it" if self.again is None else other
        return (
            f"what is computed with them is put into `{self.name}`, and {then}: no loss can depend "
            "on it"
        )

    @property
    def advice(self) -> str:
        """What to do."""
        return f"use `{self.name}`, or leave the call out"


def unused_value(at: Line | None) -> Unused | None:
    """What the call on a line gives to a name in vain; None if somebody may read it."""
    place = placed(at)
    if at is None or place is None:
        return None
    tree = tree_of_file(place.file)
    function = function_at(tree, at[1]) or tree
    for block in blocks(function):
        for i, statement in enumerate(block):
            inside = statement.lineno <= at[1] <= (statement.end_lineno or 0)
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)]) if inside and name.strip("_"):
                    again = _again(block[i + 1 :], name)
                    if again is not None or not _is_read(function, statement, name):
                        return Unused(name, place, again)
                case _:
                    pass
    return None


def _again(after: list[ast.stmt], name: str) -> int | None:
    """The line of a block that gives the name another value, if nothing before it has the name."""
    for statement in after:
        if not _mentions(statement, name):
            continue
        match statement:
            case ast.Assign(targets=[ast.Name(id=other)], value=value) if other == name:
                return None if _mentions(value, name) else statement.lineno
            case _:
                return None
    return None


def _is_read(function: ast.AST, statement: ast.stmt, name: str) -> bool:
    """Whether the name is read behind the statement, in a function within, or in another turn."""
    nodes = list(ast.walk(function))
    names = [n for n in nodes if isinstance(n, ast.Name)]
    if any(isinstance(n, ast.Global | ast.Nonlocal) and name in n.names for n in nodes):
        return True
    if any(n.id in ("locals", "eval", "exec") for n in names):
        return True
    turns = [n for n in nodes if isinstance(n, _LOOPS) and statement in ast.walk(n)]
    inner = [n for n in nodes if isinstance(n, (*_FUNCTIONS, ast.Lambda)) and n is not function]
    end = statement.end_lineno or statement.lineno
    later = any(_reads(n, name) and n.lineno > end for n in names)
    return later or any(_reads(n, name) for whole in (*turns, *inner) for n in ast.walk(whole))


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


def _reads(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store)
