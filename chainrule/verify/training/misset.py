"""Frozen by mistake: an optimizer was given parameters to train, and they are frozen.

`module.requires_grad = True` is an attribute that means nothing to a module. And who freezes by
names may freeze more than was meant: a group that was picked for the optimizer, where what else is
frozen was left out of it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from chainrule.source_text import source_line
from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.training.edits import Edit
from chainrule.verify.training.misspelt import is_near
from chainrule.verify.training.names import listed
from chainrule.verify.training.said import said
from chainrule.verify.trees import tree_of_file
from chainrule.verify.where import users_files

if TYPE_CHECKING:
    from chainrule.verify.training.coverage import Seen, Steps


def misset(seen: Seen) -> list[Finding]:
    """One for each module that was to be trained, and is frozen."""
    found: list[Finding] = []
    for engine, root in seen.names.roots.values():
        for name, module in engine.modules(root):
            held: dict[str, Any] = module.__dict__
            if held.get("requires_grad") is not True:
                continue
            frozen = [
                p for _, m in engine.modules(module) for _, p in engine.own(m)
                if not p.requires_grad and id(p) in seen.optimized
            ]  # fmt: skip
            if frozen:
                found.append(_finding(seen, name or type(root).__name__, frozen))
    return found


def frozen_groups(seen: Seen) -> list[Finding]:
    """One for each group of an optimizer of which all is frozen while others are trained, if there
    is more that is frozen and was not picked, and the optimizer's file thaws nothing."""
    params = list(seen.names.params())
    left_out = [p for p in params if not p.requires_grad and id(p) not in seen.optimized]
    found: list[Finding] = []
    for row in seen.optimizers.values() if left_out else ():
        if row.place is None or _thaws(row.place.file):
            continue
        groups = [list(group["params"]) for group in row.optimizer.param_groups]
        trained = [g for g in groups if any(id(p) in row.got for p in g)]
        for group in groups if trained and row.count else ():
            if group and not any(p.requires_grad or id(p) in row.got for p in group):
                found.append(_group(seen, row, group, len(left_out)))
    return found


def _thaws(file: str) -> bool:
    """Whether code sets `requires_grad`, or what was to be that, to anything but False."""
    for node in ast.walk(tree_of_file(file)):
        match node:
            case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=args, keywords=more):
                value = [*args, *[k.value for k in more]]
            case ast.Assign(targets=[ast.Attribute(attr=attr)], value=given) if is_near(
                attr, "requires_grad"
            ):
                value = [given]
            case _:
                continue
        if not value or ast.unparse(value[0]) != "False":
            return True
    return False


def _group(seen: Seen, row: Steps, group: list[Any], others: int) -> Finding:
    names = listed([seen.names.param(p) for p in group])
    because = (
        f"{type(row.optimizer).__name__} has a group of its own for {names}, which are frozen "
        f"(requires_grad is False); {others} parameters that are frozen as well are in no optimizer"
    )
    return said(
        "warning", "no_gradient", because,
        "freeze what is not to be trained only; if it is thawed later, nothing is to be done",
        row.place, subject=names, kind="parameters",
    )  # fmt: skip


def _finding(seen: Seen, name: str, frozen: list[Any]) -> Finding:
    place, edit = _line(name.rpartition(".")[2])
    because = (
        f"{name}.requires_grad = True sets an attribute of the module, which nothing reads: "
        f"{len(frozen)} of its parameters are in the optimizer and still frozen"
    )
    return said(
        "warning", "no_gradient", because, f"{name}.requires_grad_(True)", place,
        subject=listed([seen.names.param(p) for p in frozen]), kind="parameters", edit=edit,
    )  # fmt: skip


def _line(own: str) -> tuple[Place | None, Edit | None]:
    """The only line of the user's that sets it so for what has that name, or for anything."""
    rows = [(place, node) for file in users_files() for place, node in _settings(file)]
    named = [row for row in rows if ast.unparse(row[1].value).rpartition(".")[2] == own]
    some = named or rows
    if len(some) != 1:
        return None, None
    place, node = some[0]
    line = source_line(place.file, place.line)
    indent = line[: len(line) - len(line.lstrip())]
    after = f"{indent}{ast.unparse(node.value)}.requires_grad_(True)"
    return place, Edit(line, after, place)


def _settings(file: str) -> list[tuple[Place, ast.Attribute]]:
    nodes = ast.walk(tree_of_file(file))
    found = [n.targets[0] for n in nodes if isinstance(n, ast.Assign) and len(n.targets) == 1]
    return [
        (Place(file, t.lineno), t) for t in found
        if isinstance(t, ast.Attribute) and t.attr == "requires_grad"
    ]  # fmt: skip
