"""Switches that switch nothing: `p.require_grad = True`, `module.requires_grad = True`.

Python lets anyone put anything on a parameter or a module. So a name that is written wrongly
counts only if the program reads no such attribute, and if the switch that it is named after stands
the other way. A group that was picked for an optimizer and is frozen, where what else is frozen was
left out of it, was frozen by names that fit more than was meant.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.record.op_names import MODAL
from chainrule.verify.training.rules.finding import Row, of_parameters
from chainrule.verify.training.text.source import Edit, Source
from chainrule.verify.trees import tree_of_file, users_trees

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Coverage, Seen, Steps


_NEAR = 0.9
"""Share of letters in common from which on a name is meant to be another one."""
_METHODS = ("requires_grad_",)
"""Methods that may be taken for switches."""


@dataclass(eq=False)
class _Set:
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
        named = [row for row in rows if _target(row[1]).rpartition(".")[2] == last]
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
        return _edit(file, [node for other, node in self.settings if other == file], self)


def _misspelt(part: Coverage, switch: str) -> list[_Set]:
    """Of a switch under a wrong name."""
    rows = [row for row in [*_of_params(part.facts), *_of_modules(part.facts)] if row.settings]
    return [row for row in rows if row.switch == switch and not row.is_exact and not row.is_read]


def _misset(part: Coverage) -> list[_Set]:
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
                row = _Set("requires_grad", "requires_grad", module=True)
                last = path.rpartition(".")[2]
                found = [
                    (file, n)
                    for file, tree in users_trees("requires_grad")
                    for n in ast.walk(tree)
                    if isinstance(n, ast.Assign) and ast.unparse(n.value) == "False"
                    and _target(n).rpartition(".")[2] == last
                ]  # fmt: skip
                place = Place(found[0][0], found[0][1].lineno) if found else None
                edit = _edit(found[0][0], [found[0][1]], row) if found else None
                yield _Kept(path or type(root).__name__, len(moved), place, edit)


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
    """Modules that hold frozen parameters, and such as were trained in eval mode; each by itself
    that has the switch's own name and is in an optimizer."""
    rows: dict[tuple[str, ...], _Set] = {}

    def note(name: str, switch: str, owner: str, kept: dict[int, str], *apart: str) -> None:
        row = rows.setdefault((name, switch, *apart), _Set(name, switch, module=True))
        row.owners += [owner] if kept else []
        row.kept.update(kept)

    for engine, root in seen.names.roots.values():
        for path, module in engine.modules(root):
            inside = [m for _, m in engine.modules(module)]
            owner, kind = seen.names.module(module), "requires_grad"
            own = [p for m in inside for _, p in engine.own(m) if not p.requires_grad]
            frozen = {id(p): seen.names.param(p) for p in own}
            for name in _near(module, kind):
                note(name, kind, owner, frozen)
            if module.__dict__.get(kind) is True:
                mine = {key: name for key, name in frozen.items() if key in seen.optimized}
                note(kind, kind, path or type(root).__name__, mine, path)
            for name in _near(module, "training"):
                still = [m for m in inside if _is_modal(m) and not m.training and id(m) in seen.ran]
                note(name, "training", owner, {id(m): seen.names.module(m) for m in still})
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


def _sets(node: ast.Assign, name: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr=attr)], value=value):
            return attr == name and ast.unparse(value) != "False"
        case _:
            return False


def _target(node: ast.Assign) -> str:
    """What an attribute is set of."""
    target = node.targets[0]
    return ast.unparse(target.value) if isinstance(target, ast.Attribute) else ""


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
    source = Source.at(Place(file, nodes[0].lineno)) if nodes else None
    pieces = [(n, ast.unparse(_right(n, row))) for n in nodes]
    return None if source is None else source.with_pieces(pieces)


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
