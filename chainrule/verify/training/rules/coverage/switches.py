"""Switches that switch nothing: `p.require_grad = True`, `module.requires_grad = True`.

Python lets anyone put anything on a parameter or a module. So a name that is written wrongly
counts only if the program reads no such attribute, and if the switch that it is named after stands
the other way. A group that was picked for an optimizer and is frozen, where what else is frozen was
left out of it, was frozen by names that fit more than was meant.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.record.op_names import MODAL
from chainrule.verify.training.rules.coverage.mistaken_switches import (
    Mistaken,
    correction_of,
    is_near,
    mistaken_names,
    owner_text,
)
from chainrule.verify.training.rules.finding import Row, of_parameters
from chainrule.verify.training.text.source import Edit
from chainrule.verify.trees import tree_of_file, users_trees

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Coverage, Seen, Steps


def _misspelt(part: Coverage, switch: str) -> list[Mistaken]:
    """Of a switch under a wrong name."""
    rows = [row for row in [*_of_params(part.facts), *_of_modules(part.facts)] if row.settings]
    return [row for row in rows if row.switch == switch and not row.is_exact and not row.is_read]


def _misset(part: Coverage) -> list[Mistaken]:
    """Modules that were to be trained, and are frozen: `module.requires_grad = True`."""
    return [row for row in _of_modules(part.facts) if row.is_exact]


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
                row = Mistaken("requires_grad", "requires_grad", module=True)
                last = path.rpartition(".")[2]
                found = [
                    (file, n)
                    for file, tree in users_trees("requires_grad")
                    for n in ast.walk(tree)
                    if isinstance(n, ast.Assign) and ast.unparse(n.value) == "False"
                    and owner_text(n).rpartition(".")[2] == last
                ]  # fmt: skip
                place = Place(found[0][0], found[0][1].lineno) if found else None
                edit = correction_of(found[0][0], [found[0][1]], row) if found else None
                yield _Kept(path or type(root).__name__, len(moved), place, edit)


def _of_params(seen: Seen) -> list[Mistaken]:
    """Frozen parameters, of models and of optimizers."""
    rows: dict[str, Mistaken] = {}
    given = [p for steps in seen.optimizers.values() for p in steps.params.values()]
    for p in {id(p): p for p in [*seen.names.params(), *given]}.values():
        for name in () if p.requires_grad else mistaken_names(p, "requires_grad"):
            row = rows.setdefault(name, Mistaken(name, "requires_grad", module=False))
            row.owners.append(seen.names.param(p))
            row.kept[id(p)] = seen.names.param(p)
    return list(rows.values())


def _of_modules(seen: Seen) -> list[Mistaken]:
    """Modules that hold frozen parameters, and such as were trained in eval mode; each by itself
    that has the switch's own name and is in an optimizer."""
    rows: dict[tuple[str, ...], Mistaken] = {}

    def note(name: str, switch: str, owner: str, kept: dict[int, str], *apart: str) -> None:
        row = rows.setdefault((name, switch, *apart), Mistaken(name, switch, module=True))
        row.owners += [owner] if kept else []
        row.kept.update(kept)

    for engine, root in seen.names.roots.values():
        for path, module in engine.modules(root):
            inside = [m for _, m in engine.modules(module)]
            owner, kind = seen.names.module(module), "requires_grad"
            own = [p for m in inside for _, p in engine.own(m) if not p.requires_grad]
            frozen = {id(p): seen.names.param(p) for p in own}
            for name in mistaken_names(module, kind):
                note(name, kind, owner, frozen)
            if module.__dict__.get(kind) is True:
                mine = {key: name for key, name in frozen.items() if key in seen.optimized}
                note(kind, kind, path or type(root).__name__, mine, path)
            for name in mistaken_names(module, "training"):
                still = [m for m in inside if _is_modal(m) and not m.training and id(m) in seen.ran]
                note(name, "training", owner, {id(m): seen.names.module(m) for m in still})
    return [row for row in rows.values() if row.kept]


def _is_modal(module: Any) -> bool:
    return any(part in type(module).__name__ for part in MODAL)


class _Group(NamedTuple):
    """A group of an optimizer that is frozen, while others are trained."""

    steps: Steps
    names: str
    others: int
    """Parameters that are frozen as well, and in no optimizer."""


def _frozen_groups(part: Coverage) -> Iterator[_Group]:
    """If more is frozen that was not picked, and the optimizer's file thaws nothing."""
    seen = part.facts
    params = list(seen.names.params())
    left_out = [p for p in params if not p.requires_grad and id(p) not in seen.optimized]
    for row in seen.optimizers.values() if left_out else ():
        if row.place is None or _thaws(row.place.file):
            continue
        groups = [list(group["params"]) for group in row.optimizer.param_groups]
        trained = [g for g in groups if any(id(p) in row.got for p in g)]
        for group in groups if trained and row.count else ():
            if group and not any(p.requires_grad or id(p) in row.got for p in group):
                yield _Group(row, join_names([seen.names.param(p) for p in group]), len(left_out))


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


def _of(switch: str, code: str) -> Row:
    """The row of a switch under a wrong name."""
    return of_parameters(
        code,
        lambda f: _misspelt(f, switch),
        lambda c: (
            f"`{c.name} = True` sets an attribute of {'modules' if c.module else 'parameters'} "
            f"that nothing reads; `{c.switch}` is still False, and what it was meant for is "
            f"{c.state}: {c.some}"
        ),
        "{right}",
        subject=lambda c: join_names(c.owners),
        edit=lambda c: c.edit,
    )


ROWS = (
    of_parameters(
        "no_gradient",
        _misset,
        lambda c: (
            f"{c.owners[0]}.requires_grad = True sets an attribute of the module, which nothing "
            f"reads: {len(c.kept)} of its parameters are in the optimizer and still frozen"
        ),
        "{owners[0]}.requires_grad_(True)",
        subject=lambda c: join_names(c.kept.values()),
        edit=lambda c: c.edit,
    ),
    of_parameters(
        "no_gradient",
        _unfrozen,
        "{name}.requires_grad = False sets an attribute of the module, which nothing reads: "
        "{trained} of its parameters are in the optimizer, and are trained",
        "{name}.requires_grad_(False)",
        subject="{name}",
        edit=lambda c: c.edit,
    ),
    _of("requires_grad", "no_gradient"),
    _of("training", "eval_mode"),
    of_parameters(
        "no_gradient",
        _frozen_groups,
        "{steps.kind} has a group of its own for {names}, which are frozen (requires_grad is "
        "False); {others} parameters that are frozen as well are in no optimizer",
        "freeze what is not to be trained only; if it is thawed later, nothing is to be done",
        place=lambda c: c.steps.place,
    ),
)
