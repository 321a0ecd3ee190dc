"""Models between trained ones and the loss that no optimizer has.

Most models that get gradients and are in no optimizer are meant to: a loaded network that compares
images, a critic of whose turn it is not, a random target. What tells the forgotten one is all of
this together: trained parameters are behind what it is given, always; its values are those that it
was made with; its gradients are added up over backward passes; and the text gives its parameters to
nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from chainrule.engine.source_text import file_lines
from chainrule.verify.place import Place
from chainrule.verify.training.facts.holders import tensors
from chainrule.verify.training.facts.names import Names, join_names
from chainrule.verify.training.facts.values import are_fresh
from chainrule.verify.training.record import events
from chainrule.verify.training.record.torch_engine import graph_of
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text import edits

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Coverage, Seen, Steps


_APART = re.compile(r"numel|clip_grad")
"""Lines that read parameters and train none."""


@dataclass(eq=False)
class _Row:
    """A parameter that got a gradient, and what its value was then."""

    param: Any
    norm: float
    count: int = 0
    """Steps of others, with a backward pass before each that brought it a gradient."""
    is_new: bool = False
    """Whether one came since the last step."""
    token: tuple[int, ...] | None = None
    """How the gradient looked after the last backward pass."""
    was_reset: bool = False


@final
@dataclass(eq=False)
class Unheld:
    """What is noted of models and parameters that may be forgotten."""

    behind: dict[int, Sequence[Any]] = field(default_factory=dict[int, Sequence[Any]])
    """By id of a model: parameters behind what it was given first."""
    raw: set[int] = field(default_factory=set[int])
    """Ids of models that were given data as well."""
    rows: dict[int, _Row] = field(default_factory=dict[int, _Row])

    def entered(self, e: events.Entered, names: Names) -> None:
        """A model is called while a graph is recorded."""
        given = [t for t in tensors(e.inputs) if getattr(t, "requires_grad", False)]
        key = id(e.module)
        if not given:
            self.raw.add(key)
        elif key not in self.behind:
            self.behind[key] = [x for x in graph_of(given).leaves if names.has(x)]

    def begins(self, e: events.BackwardBegins) -> None:
        """Gradients that are no more what they were have been reset, or used in some way."""
        for row in self.rows.values():
            grad = row.param.grad
            if row.token is not None and (grad is None or e.engine.token(grad) != row.token):
                row.was_reset = True

    def ended(self, e: events.BackwardEnds, names: Names, optimized: set[int]) -> None:
        """Note the gradients that have come."""
        engine, leaves = e.begin.engine, e.begin.graph.leaves
        own = [x for x in leaves if id(x) in e.touched - optimized and names.has(x)]
        new = list({id(x): x for x in own if id(x) not in self.rows}.values())
        norms = engine.norms([x.detach() for x in new])
        self.rows.update({id(x): _Row(x, n) for x, n in zip(new, norms, strict=True)})
        for key in {id(x) for x in own}:
            self.rows[key].is_new = True
        for row in self.rows.values():
            row.token = e.tokens.get(id(row.param))

    def stepped(self) -> None:
        """An optimizer has taken a step: what came before was for that."""
        for row in self.rows.values():
            row.count += row.is_new
            row.is_new = False


def _trainer(seen: Seen, root: Any) -> Steps | None:
    """The optimizer of a model that is always behind what this one is given."""
    if id(root) in seen.unheld.raw | seen.silent:
        return None
    leaves = {id(x) for x in seen.unheld.behind.get(id(root), ())}
    rows = [row for row in seen.optimizers.values() if row.count]
    return next((row for row in rows if leaves & row.params.keys()), None)


def _is_forgotten(seen: Seen, root: Any, optimized: set[int]) -> bool:
    own = [p for p in seen.names.within(root) if p.requires_grad]
    rows = [row for p in own if (row := seen.unheld.rows.get(id(p))) is not None]
    if not own or len(rows) < len(own) or any(r.count < 2 for r in rows):
        return False
    if any(r.was_reset for r in rows) or any(id(p) in optimized for p in own):
        return False
    engine = seen.names.roots[id(root)][0]
    modules = [m for _, m in engine.modules(root)]
    if any(id(m) in seen.loaded or not m.training for m in modules):
        return False
    norms = engine.norms([p.detach() for p in own])
    still = all(n == row.norm for n, row in zip(norms, rows, strict=True))
    return (
        still and not _is_copy(seen, own, optimized) and not _is_read(seen, root) and are_fresh(own)
    )


def _is_copy(seen: Seen, own: Sequence[Any], optimized: set[int]) -> bool:
    """Whether a trained model has parameters of the same shapes: a target network, an average."""
    shapes = [tuple(p.shape) for p in own]
    for _, other in seen.names.roots.values():
        params = seen.names.within(other)
        if [tuple(p.shape) for p in params] == shapes and any(id(p) in optimized for p in params):
            return True
    return False


def _is_read(seen: Seen, root: Any) -> bool:
    """Whether the text gives its parameters to somebody; or is not known to give them to nobody."""
    known = seen.called.get(id(root))
    if known is None or not known.name:
        return True
    own = re.escape(known.name.rsplit(".", 1)[-1])
    given = re.compile(rf"\b{own}\.(named_)?parameters\(")
    lines = file_lines(known.file)
    return not lines or any(given.search(line) and not _APART.search(line) for line in lines)


@dataclass(frozen=True)
class _Between:
    """Models between what an optimizer trains and the loss, that nobody trains."""

    steps: Steps
    called: str
    params: Sequence[Any]
    names: str
    count: int
    place: Place | None
    edit: edits.Edit | None


def _between(part: Coverage) -> Iterator[_Between]:
    seen, optimized = part.facts, part.facts.optimized
    found: dict[int, tuple[Steps, list[Any]]] = {}
    for _, root in seen.names.roots.values():
        row = _trainer(seen, root)
        if row is not None and _is_forgotten(seen, root, optimized):
            found.setdefault(id(row), (row, []))[1].append(root)
    for row, roots in found.values():
        own = [p for root in roots for p in seen.names.within(root) if p.requires_grad]
        calls = [seen.called[id(root)] for root in roots]
        yield _Between(
            row, join_names([k.name for k in calls]), own,
            join_names([seen.names.param(p) for p in own]),
            max([seen.unheld.rows[id(p)].count for p in own]), row.place,
            _edit(row.place, [k.name for k in calls if k.reaches(row.place)]),
        )  # fmt: skip


def _edit(place: Place | None, models: Sequence[str]) -> edits.Edit | None:
    """The optimizer with the parameters of these models, too; of one that is made later, then."""
    return edits.add_group(place, models) or edits.give_more(place, models)


ROWS = (
    Row(
        "not_optimized",
        _between,
        lambda c: (
            f"{c.called} stands between what {c.steps.kind} trains and the loss: its "
            f"{len(c.params)} parameters got gradients in {c.count} steps, which train nothing: no "
            "optimizer has them, and their values are those that they were made with"
        ),
        "give the optimizer both; if {called} is meant to stay, {called}.requires_grad_(False)",
        subject="{names}",
        kind="parameters",
        edit=lambda c: c.edit,
    ),
)
