"""Parameters in an optimizer that never get a gradient, and modules that were to be frozen by
`module.requires_grad = False`, which sets an attribute of the module that nothing reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.rules.finding import of_parameters
from chainrule.verify.training.text import origins
from chainrule.verify.training.text.source import Edit, Source
from chainrule.verify.trees import last_word, users_trees

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Coverage, Seen, Steps


@dataclass(frozen=True)
class _Bare:
    """Parameters of an optimizer without a gradient, as far as nothing more is known of them."""

    steps: Steps
    names: str
    count: int
    groups: str
    """What became of them."""
    is_whole: bool
    """Whether these are all that it has, in more than one step."""


def _bare_of(seen: Seen, row: Steps) -> list[Any]:
    """Parameters without a gradient."""
    got = row.got.keys() | seen.touched
    params = row.params.items() if row.count else ()
    return [p for key, p in params if p.requires_grad and key not in got and seen.names.has(p)]


def _bare(part: Coverage) -> Iterator[_Bare]:
    seen = part.facts
    for row in seen.optimizers.values():
        bare = _bare_of(seen, row)
        used = [p for p in bare if id(seen.names.owner(p)) in seen.ran]
        others = [p for p in bare if id(seen.names.owner(p)) not in seen.ran]
        if bare:
            names = join_names([seen.names.param(p) for p in (*used, *others)])
            whole = len(bare) == len(row.params) and seen.backwards > 0 and row.count > 1
            yield _Bare(row, names, len(bare), _groups(seen, used, others), whole)


def _groups(seen: Seen, used: Sequence[Any], others: Sequence[Any]) -> str:
    frozen = [p for p in others if id(seen.names.owner(p)) in seen.silent]
    idle = [p for p in others if id(seen.names.owner(p)) not in seen.silent]
    rows = (
        (used, "ran, but the loss does not depend on them"),
        (frozen, "ran without a graph (no_grad)"),
        (idle, "did not run"),
    )
    return "; ".join(
        [f"{join_names([seen.names.param(p) for p in ps], 3)} {says}" for ps, says in rows if ps]
    )


@dataclass(frozen=True)
class _Zero:
    """Matrices of a model that is trained, that are nothing but zeros and cannot change."""

    count: int
    names: str
    place: Place | None


def _frozen_at_zero(part: Coverage) -> Iterator[_Zero]:
    """The second factor of a low-rank adapter, frozen together with the model that it was put into.
    A matrix multiplies, rather than is added: along one axis that would have one element."""
    seen = part.facts
    rows = [row for row in seen.optimizers.values() if row.count]
    given = {id(p): p for row in rows for p in row.params.values()}
    given |= {id(p): p for p in seen.names.params() if rows}
    matrices = [p for p in given.values() if len(p.shape) == 2 and min(p.shape) > 1]
    frozen = [
        p for p in matrices if not p.requires_grad and id(seen.names.owner(p)) in seen.ran
    ]  # fmt: skip
    engine = next((engine for engine, _ in seen.names.roots.values()), None)
    norms = engine.norms(frozen) if engine is not None else []
    zero = [p for p, n in zip(frozen, norms, strict=True) if n == 0]
    if zero:
        place = origins.freeze_line(rows[0].place) or rows[0].place
        yield _Zero(len(zero), join_names([seen.names.param(p) for p in zero]), place)


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
    of_parameters(
        "no_gradient",
        _frozen_at_zero,
        "{count} matrices are 0 and frozen (requires_grad is False): what they are multiplied with "
        "stays 0, however long the training",
        "freeze the old parameters before new ones are put in, or requires_grad_(True) for these",
    ),
    of_parameters(
        "no_gradient",
        _bare,
        "{count} of {steps.size} parameters of {steps.kind} got no gradient in {steps.count} "
        "steps: {groups}",
        "if they are meant to be trained, look for what cuts them off: detach(), .data, item(), "
        "numpy(), no_grad(), or an output that the loss does not use",
        lambda c: "warning" if c.is_whole else "note",
        place=lambda c: c.steps.place,
    ),
)
