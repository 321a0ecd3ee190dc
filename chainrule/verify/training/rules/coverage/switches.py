"""Modules that were to be frozen by `module.requires_grad = False`, which sets an attribute of the
module that nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from chainrule.verify.place import Place
from chainrule.verify.training.rules.finding import of_parameters
from chainrule.verify.training.text.source import Edit, Source
from chainrule.verify.trees import last_word, users_trees

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Coverage


class _Kept(NamedTuple):
    """A module that was to be frozen, and is trained."""

    name: str
    trained: int
    place: Place | None
    edit: Edit | None


def _unfrozen(part: Coverage) -> Iterator[_Kept]:
    """Modules with `requires_grad = False` as an attribute of their own."""
    seen = part.facts
    for engine, root in seen.names.roots.values():
        for path, module in engine.modules(root):
            inside = [p for _, m in engine.modules(module) for _, p in engine.own(m)]
            moved = [p for p in inside if p.requires_grad and id(p) in seen.optimized]
            if module.__dict__.get("requires_grad") is False and moved:
                place, edit = _setting(path.rpartition(".")[2])
                yield _Kept(path or type(root).__name__, len(moved), place, edit)


def _setting(name: str) -> tuple[Place | None, Edit | None]:
    """The first `name.requires_grad = False`, and the call that was meant."""
    for file, tree in users_trees("requires_grad"):
        for n in ast.walk(tree):
            match n:
                case ast.Assign(
                    targets=[ast.Attribute(value=owner, attr="requires_grad")],
                    value=ast.Constant(value=no),
                ) if no is False and last_word(owner) == name:
                    place = Place(file, n.lineno)
                    source = Source.at(place)
                    right = f"{ast.unparse(owner)}.requires_grad_(False)"
                    return place, source.with_pieces([(n, right)]) if source else None
                case _:
                    pass
    return None, None


ROWS = (
    of_parameters(
        "no_gradient",
        _unfrozen,
        "{name}.requires_grad = False sets an attribute of the module, which nothing reads: "
        "{trained} of its parameters are in the optimizer, and are trained",
        "{name}.requires_grad_(False)",
        subject="{name}",
        edit=lambda c: c.edit,
    ),
)
