"""Switches that switch nothing: `p.require_grad = True`, `module.requires_grad = True`.

Python lets anyone put anything on a parameter or a module. So a name that is written wrongly counts
only if the program reads no such attribute, and if what it was set on is still frozen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Any

from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text.source import Edit, statement_at
from chainrule.verify.trees import users_trees

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Coverage, Seen


_SWITCH = "requires_grad"
_NEAR = 0.9
"""Share of letters in common from which on a name is meant to be another one."""


@dataclass(eq=False)
class _Set:
    """An attribute that is True, of parameters that are frozen or of modules that hold such."""

    name: str
    module: str
    """The module that has it; empty for parameters."""
    kept: dict[int, str] = field(default_factory=dict[int, str])
    """By id: names of the parameters that are frozen."""

    @cached_property
    def place(self) -> Place | None:
        """The first line of the user's that sets it; for the switch's own name, which parameters
        have, the only one, or the only one for what is called as the module is."""
        found = [
            (Place(file, node.lineno), ast.unparse(owner))
            for file, tree in users_trees(self.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and (owner := _owner(node, self.name)) is not None
        ]
        if self.name == _SWITCH:
            last = self.module.rpartition(".")[2]
            found = [row for row in found if row[1].rpartition(".")[2] == last] or found
            found = found if len(found) == 1 else []
        return found[0][0] if found else None

    @property
    def is_read(self) -> bool:
        """Whether code of the user's reads such an attribute, or names it."""
        nodes = [n for _, tree in users_trees(self.name) for n in ast.walk(tree)]
        loads = [n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)]
        texts = [n.value for n in nodes if isinstance(n, ast.Constant)]
        return self.name in [n.attr for n in loads] or self.name in texts

    @property
    def edit(self) -> Edit | None:
        """The line as it was meant: a module hands its switches on to what it holds by a method."""
        source, statement = statement_at(self.place) or (None, None)
        owner = _owner(statement, self.name) if isinstance(statement, ast.Assign) else None
        if source is None or owner is None or not isinstance(statement, ast.Assign):
            return None
        value, held = ast.unparse(statement.value), f"{ast.unparse(owner)}.{_SWITCH}"
        text = f"{held}_({value})" if self.module else f"{held} = {value}"
        return source.with_pieces([(statement, text)])


def _owner(node: ast.Assign, name: str) -> ast.expr | None:
    """What an attribute of this name is set of, to anything but False."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=owner, attr=attr)], value=value):
            return owner if attr == name and ast.unparse(value) != "False" else None
        case _:
            return None


def _misspelt(part: Coverage) -> list[_Set]:
    """Under a wrong name that nothing reads."""
    rows: dict[tuple[str, bool], _Set] = {}
    for name, module, frozen in (*_of_params(part.facts), *_of_modules(part.facts)):
        if name != _SWITCH:
            rows.setdefault((name, bool(module)), _Set(name, module)).kept.update(frozen)
    return [row for row in rows.values() if row.place is not None and not row.is_read]


def _misset(part: Coverage) -> Iterator[_Set]:
    """Modules that were to be trained, and are frozen: `module.requires_grad = True`."""
    for name, module, frozen in _of_modules(part.facts):
        kept = {key: p for key, p in frozen.items() if key in part.facts.optimized}
        if name == _SWITCH and kept:
            yield _Set(name, module, kept)


_Found = tuple[str, str, dict[int, str]]
"""The name of an attribute, that of the module which has it, and what is frozen because of it."""


def _of_params(seen: Seen) -> Iterator[_Found]:
    """Of frozen parameters, of models and of optimizers."""
    given = [p for steps in seen.optimizers.values() for p in steps.params.values()]
    for p in {id(p): p for p in [*seen.names.params(), *given]}.values():
        for name in () if p.requires_grad else _near(p):
            yield name, "", {id(p): seen.names.param(p)}


def _of_modules(seen: Seen) -> Iterator[_Found]:
    """Of modules that hold frozen parameters."""
    for engine, root in seen.names.roots.values():
        for path, module in engine.modules(root):
            inside = [p for _, m in engine.modules(module) for _, p in engine.own(m)]
            frozen = {id(p): seen.names.param(p) for p in inside if not p.requires_grad}
            own = [_SWITCH] if module.__dict__.get(_SWITCH) is True else []
            for name in [*own, *_near(module)] if frozen else ():
                yield name, path or type(root).__name__, frozen


def _near(thing: Any) -> Iterable[str]:
    """Attributes of its own that are True, have nearly the name of the switch, and mean nothing to
    its class."""
    own: dict[str, Any] = getattr(thing, "__dict__", {})
    some = [k for k, v in own.items() if v is True and k != _SWITCH and _is_meant(k)]
    return [k for k in some if getattr(thing.__class__, k, None) is None]


def _is_meant(name: str) -> bool:
    a, b = [text.lower().replace("_", "") for text in (name, _SWITCH)]
    return SequenceMatcher(None, a, b, autojunk=False).ratio() >= _NEAR


ROWS = (
    Row(
        "no_gradient",
        _misset,
        lambda c: (
            f"{c.module}.requires_grad = True sets an attribute of the module, which nothing "
            f"reads: {len(c.kept)} of its parameters are in the optimizer and still frozen"
        ),
        "{module}.requires_grad_(True)",
        subject=lambda c: join_names(c.kept.values()),
        kind="parameters",
        edit=lambda c: c.edit,
    ),
    Row(
        "no_gradient",
        _misspelt,
        lambda c: (
            f"`{c.name} = True` sets an attribute of {'modules' if c.module else 'parameters'} "
            "that nothing reads; `requires_grad` is still False, and what it was meant for is "
            f"frozen: {join_names(c.kept.values(), 3)}"
        ),
        "set requires_grad of parameters; of a module, call requires_grad_(True)",
        subject=lambda c: join_names(c.kept.values()),
        kind="parameters",
        edit=lambda c: c.edit,
    ),
)
