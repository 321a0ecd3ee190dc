"""Models, and parameters in no model, between trained ones and the loss that no optimizer has.

Most models that get gradients and are in no optimizer are meant to: a loaded network that compares
images, a critic of whose turn it is not, a random target. Four things together tell the
forgotten one. Trained parameters are behind what it is given, always. Its values are those that it
was made with. Its gradients are added up over backward passes, or reset together with those of
trained ones. The text gives its parameters to nobody.
Parameters in no model are looked for in `forgotten_parameters`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from chainrule.engine.source_text import file_lines
from chainrule.verify.place import Place
from chainrule.verify.training.facts.holders import tensors
from chainrule.verify.training.facts.names import Names, join_names
from chainrule.verify.training.facts.values import are_fresh
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.record.torch_engine import graph_of
from chainrule.verify.training.rules.coverage.forgotten_parameters import unowned_parameters
from chainrule.verify.training.rules.finding import of_parameters
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
    value: Any = None
    """What it was at first, if it is in no model."""
    name: str = ""
    """What the program calls it, if it is in no model."""
    engine: Engine | None = None

    @property
    def is_unchanged(self) -> bool:
        """Whether it has its first value still."""
        return self.engine is None or not any(self.engine.moved([self.param], [self.value]))


@final
@dataclass(eq=False)
class Unheld:
    """What is noted of models and parameters that may be forgotten."""

    behind: dict[int, Sequence[Any]] = field(default_factory=dict[int, Sequence[Any]])
    """By id of a model: parameters behind what it was given first."""
    raw: set[int] = field(default_factory=set[int])
    """Ids of models that were given data as well."""
    rows: dict[int, _Row] = field(default_factory=dict[int, _Row])
    alone: dict[int, _Row] = field(default_factory=dict[int, _Row])
    """Parameters in no model."""
    asked: set[int] = field(default_factory=set[int])
    """Ids of leaves by which derivatives were asked for: what was made for that is not trained."""
    resets: dict[Place | None, set[frozenset[int]]] = field(
        default_factory=dict[Place | None, set[frozenset[int]]]
    )
    """By line: ids of the parameters whose gradients it resets, call by call."""

    def zeroed(self, e: events.Zeroed) -> None:
        """Note what is reset together."""
        self.resets.setdefault(e.place, set()).add(e.ids)

    def differentiated(self, e: events.Asked) -> None:
        """Note what is differentiated by, for the derivative's sake."""
        self.asked |= {id(x) for x in e.inputs}

    def is_dropped(self, row: _Row, optimized: set[int]) -> bool:
        """Whether somebody resets its gradient, or uses it, but for lines that reset models one by
        one, trained ones among them: they take this one for one of those."""
        own = [
            at
            for at, calls in self.resets.items()
            if any(id(row.param) in ids and not ids & optimized for ids in calls)
        ]
        others = [at for at, calls in self.resets.items() if any(ids & optimized for ids in calls)]
        return row.was_reset and not any(_is_beside(a, b) for a in own for b in others)

    def entered(self, e: op_events.Entered, names: Names) -> None:
        """A model is called while a graph is recorded."""
        given = [t for t in tensors(e.inputs) if getattr(t, "requires_grad", False)]
        key = id(e.module)
        if not given:
            self.raw.add(key)
        elif key not in self.behind:
            self.behind[key] = [x for x in graph_of(given).leaves if names.has(x)]

    def begins(self, e: events.BackwardBegins) -> None:
        """Gradients that are no more what they were have been reset, or used in some way."""
        for row in self._all():
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
        for x in leaves:
            if (
                id(x) in e.touched - optimized
                and not names.has(x)
                and (may_be_trained(x) or id(x) in self.alone or id(x) in buffers(names))
            ):
                if id(x) not in self.alone:
                    (value,) = engine.copies([x])
                    name = edits.name_of(x)
                    self.alone[id(x)] = _Row(x, 0.0, engine=engine, value=value, name=name)
                self.alone[id(x)].is_new = True
        for row in self._all():
            row.token = e.tokens.get(id(row.param))

    def is_kept(self, x: Any, names: Names) -> bool:
        """Whether a model keeps it as a buffer."""
        return id(x) in buffers(names)

    def is_idle(self, x: Any) -> bool:
        """Whether a leaf in no model got gradients in several steps, of which nothing came."""
        row = self.alone.get(id(x))
        return (
            row is not None
            and row.param is x
            and row.count > 1
            and not row.was_reset
            and id(x) not in self.asked
            and row.is_unchanged
        )

    def _all(self) -> list[_Row]:
        return [*self.rows.values(), *self.alone.values()]

    def stepped(self) -> None:
        """An optimizer has taken a step: what came before was for that."""
        for row in self._all():
            row.count += row.is_new
            row.is_new = False


def _is_beside(a: Place | None, b: Place | None) -> bool:
    """Whether two lines follow each other, or are one."""
    if a is None or b is None:
        return a is b
    return (a.file, a.function) == (b.file, b.function) and abs(a.line - b.line) <= 1


def _trainer(seen: Seen, root: Any) -> Steps | None:
    """The optimizer of a model that is always behind what this one is given."""
    if id(root) in seen.unheld.raw | seen.silent:
        return None
    leaves = {id(x) for x in seen.unheld.behind.get(id(root), ())}
    rows = [row for row in seen.optimizers.values() if row.count]
    return next((row for row in rows if leaves & row.params.keys()), None)


def _is_forgotten(seen: Seen, root: Any, optimized: set[int]) -> bool:
    """Whether all signs agree that the model was to be trained, and is not."""
    own = [p for p in seen.names.within(root) if p.requires_grad]
    rows = [row for p in own if (row := seen.unheld.rows.get(id(p))) is not None]
    if not own or len(rows) < len(own) or any(r.count < 2 for r in rows):
        return False
    if any(seen.unheld.is_dropped(r, optimized) for r in rows):
        return False
    if any(id(p) in optimized for p in own):
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
    """Models that stand between what is trained and the loss, by the optimizer that trains."""
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


def buffers(names: Names) -> set[int]:
    """Ids of what the models keep as buffers."""
    modules = [m for engine, root in names.roots.values() for _, m in engine.modules(root)]
    return {id(x) for m in modules for x in getattr(m, "_buffers", {}).values()}


def may_be_trained(x: Any) -> bool:
    """Whether a leaf was made to be trained, as far as it tells."""
    return type(x).__name__ == "Parameter" or math.prod(x.shape) == 1


ROWS = (
    of_parameters(
        "not_optimized",
        _between,
        lambda c: (
            f"{c.called} stands between what {c.steps.kind} trains and the loss: its "
            f"{len(c.params)} parameters got gradients in {c.count} steps, which train nothing: no "
            "optimizer has them, and their values are those that they were made with"
        ),
        "give the optimizer both; if {called} is meant to stay, {called}.requires_grad_(False)",
        edit=lambda c: c.edit,
    ),
    of_parameters(
        "not_optimized",
        unowned_parameters,
        "{names} got gradients in steps of {steps.kind}, of which nothing comes: no optimizer has "
        "them, nothing reads them, and their values are those that they were made with",
        "give the optimizer {names}, too; if it is meant to stay, requires_grad_(False)",
        place=lambda c: c.steps.place,
        edit=lambda c: edits.give_tensors(c.steps.place, c.named),
    ),
)
