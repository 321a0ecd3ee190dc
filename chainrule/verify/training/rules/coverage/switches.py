"""Switches that switch nothing: `p.require_grad = True`, `module.requires_grad = True`.

Python lets anyone put anything on a parameter or a module. So a name that is written wrongly
counts only if the program reads no such attribute, and if the switch that it is named after stands
the other way. A group that was picked for an optimizer and is frozen, where what else is frozen was
left out of it, was frozen by names that fit more than was meant.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from chainrule.source_text import source_line
from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import listed
from chainrule.verify.training.record.op_names import MODAL
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.trees import tree_of_file
from chainrule.verify.where import users_files

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Seen, Steps


_NEAR = 0.9
"""Share of letters in common from which on a name is meant to be another one."""
_METHODS = ("requires_grad_",)
"""Methods that may be taken for switches."""
_SPAN = 60
"""Lines that a correction may go over."""


@dataclass(eq=False)
class _Set:
    """Things with one misspelt attribute, which is True."""

    name: str
    switch: str
    module: bool
    """Whether it was set on modules."""
    owners: list[str] = field(default_factory=list[str])
    """Names of the things."""
    kept: dict[int, str] = field(default_factory=dict[int, str])
    """By id: what is frozen, or in eval mode, because of it, and its name."""


def misspelt(seen: Seen) -> list[Finding]:
    """One for each name that is written wrongly."""
    found: list[Finding] = []
    for row in [*_of_params(seen), *_of_modules(seen)]:
        lines = [] if _is_read(row.name) else _settings(row.name)
        if lines:
            found.append(_finding(row, lines))
    return found


def _of_params(seen: Seen) -> list[_Set]:
    """Frozen parameters, of models and of optimizers."""
    rows: dict[str, _Set] = {}
    given = [p for steps in seen.optimizers.values() for p in steps.params.values()]
    for p in {id(p): p for p in [*seen.names.params(), *given]}.values():
        for name in () if p.requires_grad else _near(p, "requires_grad"):
            row = rows.setdefault(name, _Set(name, "requires_grad", module=False))
            row.owners.append(seen.names.param(p))
            row.kept[id(p)] = seen.names.param(p)
    return list(rows.values())


def _of_modules(seen: Seen) -> list[_Set]:
    """Modules that hold frozen parameters, and such as were trained in eval mode."""
    rows: dict[tuple[str, str], _Set] = {}

    def note(name: str, switch: str, owner: Any, kept: dict[int, str]) -> None:
        row = rows.setdefault((name, switch), _Set(name, switch, module=True))
        row.owners += [seen.names.module(owner)] if kept else []
        row.kept.update(kept)

    for engine, root in seen.names.roots.values():
        for _, module in engine.modules(root):
            inside = [m for _, m in engine.modules(module)]
            for name in _near(module, "requires_grad"):
                own = [p for m in inside for _, p in engine.own(m) if not p.requires_grad]
                note(name, "requires_grad", module, {id(p): seen.names.param(p) for p in own})
            for name in _near(module, "training"):
                still = [m for m in inside if _is_modal(m) and not m.training and id(m) in seen.ran]
                note(name, "training", module, {id(m): seen.names.module(m) for m in still})
    return [row for row in rows.values() if row.kept]


def _is_modal(module: Any) -> bool:
    return any(part in type(module).__name__ for part in MODAL)


def _near(thing: Any, switch: str) -> list[str]:
    """Attributes of its own that are True, have nearly the name of a switch, and mean nothing to
    its class."""
    own: dict[str, Any] = getattr(thing, "__dict__", {})
    some = [k for k, v in own.items() if v is True and k != switch and is_near(k, switch)]
    return [k for k in some if k in _METHODS or getattr(thing.__class__, k, None) is None]


def is_near(name: str, switch: str) -> bool:
    """Whether a name is that of a switch, or means it."""
    a, b = [text.lower().replace("_", "") for text in (name, switch)]
    return SequenceMatcher(None, a, b, autojunk=False).ratio() >= _NEAR


def _is_read(name: str) -> bool:
    """Whether code of the user's reads such an attribute, or names it. A method that was replaced
    by True may have been called before."""
    nodes = [n for file in users_files() for n in ast.walk(tree_of_file(file))]
    texts = [n.value for n in nodes if isinstance(n, ast.Constant)]
    loads = [n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)]
    return name in texts or any(n.attr == name for n in loads if name not in _METHODS)


def _settings(name: str) -> list[tuple[str, ast.Assign]]:
    """Statements of the user's that set it to anything but False, with their files."""
    return [
        (file, node)
        for file in users_files()
        for node in ast.walk(tree_of_file(file))
        if isinstance(node, ast.Assign) and _sets(node, name)
    ]


def _sets(node: ast.Assign, name: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr=attr)], value=value):
            return attr == name and ast.unparse(value) != "False"
        case _:
            return False


def _finding(row: _Set, lines: Sequence[tuple[str, ast.Assign]]) -> Finding:
    file, first = lines[0]
    place = Place(file, first.lineno)
    what = "modules" if row.module else "parameters"
    state = "in eval mode" if row.switch == "training" else "frozen"
    because = (
        f"`{row.name} = True` sets an attribute of {what} that nothing reads; `{row.switch}` is "
        f"still False, and what it was meant for is {state}: {listed(row.kept.values(), 3)}"
    )
    return finding(
        "warning",
        "eval_mode" if row.switch == "training" else "no_gradient",
        because,
        ast.unparse(_right(first, row)),
        place,
        subject=listed(row.owners),
        kind="parameters",
        edit=_edit(file, [node for other, node in lines if other == file], row),
    )


def _right(node: ast.Assign, row: _Set) -> ast.stmt:
    """The statement as it was meant: a module hands its switches on to what it holds."""
    target = node.targets[0]
    assert isinstance(target, ast.Attribute)
    if not row.module:
        held = ast.Attribute(target.value, row.switch, ast.Store())
        return ast.fix_missing_locations(ast.Assign([held], node.value))
    call = "train" if row.switch == "training" else "requires_grad_"
    method = ast.Attribute(target.value, call, ast.Load())
    return ast.fix_missing_locations(ast.Expr(ast.Call(method, [node.value], [])))


def _edit(file: str, nodes: Sequence[ast.Assign], row: _Set) -> Edit | None:
    """All these statements in one correction, if they are near each other."""
    nodes = sorted(nodes, key=lambda n: (n.lineno, n.col_offset))
    start, end = nodes[0].lineno, max([n.end_lineno or n.lineno for n in nodes])
    if end - start >= _SPAN or any(n.lineno != n.end_lineno for n in nodes):
        return None
    before = [source_line(file, i) for i in range(start, end + 1)]
    after = [line.encode() for line in before]
    for n in reversed(nodes):
        line, new = after[n.lineno - start], ast.unparse(_right(n, row))
        after[n.lineno - start] = line[: n.col_offset] + new.encode() + line[n.end_col_offset :]
    text = "\n".join([line.decode() for line in after])
    return Edit("\n".join(before), text, Place(file, start))


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
                found.append(_misset_finding(seen, name or type(root).__name__, frozen))
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
    return finding(
        "warning", "no_gradient", because,
        "freeze what is not to be trained only; if it is thawed later, nothing is to be done",
        row.place, subject=names, kind="parameters",
    )  # fmt: skip


def _misset_finding(seen: Seen, name: str, frozen: list[Any]) -> Finding:
    place, edit = _line(name.rpartition(".")[2])
    because = (
        f"{name}.requires_grad = True sets an attribute of the module, which nothing reads: "
        f"{len(frozen)} of its parameters are in the optimizer and still frozen"
    )
    return finding(
        "warning", "no_gradient", because, f"{name}.requires_grad_(True)", place,
        subject=listed([seen.names.param(p) for p in frozen]), kind="parameters", edit=edit,
    )  # fmt: skip


def _line(own: str) -> tuple[Place | None, Edit | None]:
    """The only line of the user's that sets it so for what has that name, or for anything."""
    rows = [(place, node) for file in users_files() for place, node in _set_on_modules(file)]
    named = [row for row in rows if ast.unparse(row[1].value).rpartition(".")[2] == own]
    some = named or rows
    if len(some) != 1:
        return None, None
    place, node = some[0]
    line = source_line(place.file, place.line)
    indent = line[: len(line) - len(line.lstrip())]
    after = f"{indent}{ast.unparse(node.value)}.requires_grad_(True)"
    return place, Edit(line, after, place)


def _set_on_modules(file: str) -> list[tuple[Place, ast.Attribute]]:
    nodes = ast.walk(tree_of_file(file))
    found = [n.targets[0] for n in nodes if isinstance(n, ast.Assign) and len(n.targets) == 1]
    return [
        (Place(file, t.lineno), t) for t in found
        if isinstance(t, ast.Attribute) and t.attr == "requires_grad"
    ]  # fmt: skip
