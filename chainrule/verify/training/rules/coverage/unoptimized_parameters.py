"""Parameters that get gradients and are in no optimizer, by the reason that is seen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from chainrule.engine.source_text import source_line
from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.record.torch_engine import graph_of
from chainrule.verify.training.rules.finding import of_parameters
from chainrule.verify.training.text.edits import Edit, give_all
from chainrule.verify.user_frames import placed

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Coverage, Seen, Steps


def left_over(seen: Seen) -> list[Any]:
    """Parameters of models that get gradients, and that no optimizer has."""
    optimized = seen.optimized
    return [
        p
        for p in seen.names.params()
        if p.requires_grad and id(p) in seen.touched and id(p) not in optimized
    ]


class _Replaced(NamedTuple):
    """An optimizer of parameters that no model has any more, beside ones that it lacks."""

    steps: Steps
    strays: Sequence[Any]
    left: Sequence[Any]
    names: str
    written_at: Place | None
    """Where the program has last changed one of the others through `.data`, if it does that with
    all of them: copies of a model, made again and again."""

    loaded_at: Place | None = None
    """Where the program has given a model values."""

    @property
    def fits(self) -> bool:
        """Whether the ones could stand for the others."""
        shapes = {tuple(p.shape) for p in self.strays}
        return all(tuple(p.shape) in shapes for p in self.left)

    @property
    def is_copied(self) -> bool:
        """Whether the others are copies."""
        more = len(self.left) > len(self.strays)
        return self.fits and more and self.written_at is not None

    @property
    def counts(self) -> tuple[int, int]:
        """Of both."""
        return len(self.strays), len(self.left)


def _replaced(part: Coverage) -> Iterator[_Replaced]:
    seen, left = part.facts, left_over(part.facts)
    for row in [row for row in seen.optimizers.values() if row.count and left]:
        strays = [p for key, p in row.params.items()
                  if not seen.names.has(p) and row.got.get(key, 0) < row.count]  # fmt: skip
        if strays:
            lines = [seen.written.get(id(p)) for p in left]
            at = placed(lines[-1]) if None not in lines else None
            names = join_names([seen.names.param(p) for p in left])
            yield _Replaced(row, strays, left, names, at, seen.loaded_at)
            return


@dataclass(frozen=True)
class _Strangers:
    """Modules that run within a model that does not know them: kept in a plain list or dict."""

    count: int
    owner: str
    first: str
    kinds: str
    place: Place | None


def _strangers(part: Coverage) -> Iterator[_Strangers]:
    seen, optimized = part.facts, part.facts.optimized
    rows = [
        (module, root, at)
        for key, (module, root, at) in seen.strangers.items()
        if key in seen.reached
        and not seen.names.has_module(module)
        and optimized.isdisjoint(map(id, module.parameters()))
        and any(p.requires_grad for p in module.parameters())
    ]
    for module, root, at in rows[:1]:
        kinds = join_names([type(m).__name__ for m, _, _ in rows])
        place = _kept_at(seen, module) or placed(at)
        yield _Strangers(len(rows), type(root).__name__, type(module).__name__, kinds, place)


def _kept_at(seen: Seen, module: Any) -> Place | None:
    """The line that makes the list, or the dict, in which a model keeps a module, or one around
    it."""
    for engine, root in seen.names.roots.values():
        for _, owner in engine.modules(root):
            held: dict[str, Any] = dict(owner.__dict__)
            for own, kept in held.items():
                around = [p for p in _listed(kept) if callable(getattr(p, "named_modules", None))]
                if any(m is module for p in around for _, m in engine.modules(p)):
                    return _made_at(cast("type[Any]", type(owner)), own)
    return None


def _listed(kept: Any) -> list[Any]:
    """What a list or a dict holds; nothing for anything else."""
    if isinstance(kept, dict):
        return list(cast("dict[Any, Any]", kept).values())
    return list(cast("list[Any]", kept)) if isinstance(kept, list | tuple) else []


class _Plain(NamedTuple):
    """A tensor that a module keeps and that gets gradients, or of which a leaf does that no module
    has; but it is no parameter."""

    owner: type[Any]
    name: str
    shape: tuple[int, ...]
    kind: str

    @property
    def own(self) -> str:
        """The last part of its name."""
        return self.name.rsplit(".", 1)[-1]


def _plain(part: Coverage) -> Iterator[_Plain]:
    seen = part.facts
    for engine, root in seen.names.roots.values():
        for name, module in engine.modules(root):
            own_ids = {id(p) for _, p in engine.own(module)} | seen.optimized
            for own, x, kind in _kept(seen, module):
                if id(x) not in own_ids and x.grad is not None:
                    called = ".".join([part for part in (name, own) if part])
                    yield _Plain(type(module), called, tuple(x.shape), kind)


def _kept(seen: Seen, module: Any) -> Iterator[tuple[str, Any, str]]:
    """Leaves that a module keeps and would train, if they were parameters: their names, and how it
    keeps them."""
    held: dict[str, Any] = dict(module.__dict__)
    for own, x in held.items():
        if getattr(x, "requires_grad", False) is not True:
            continue
        if getattr(x, "is_leaf", False):
            yield own, x, "an attribute"
        elif getattr(x, "grad_fn", None) is not None:
            graph = graph_of([x])
            if len(graph.serials) <= _FEW and all(map(seen.unheld.is_idle, graph.leaves)):
                yield from [(own, leaf, "made of a leaf") for leaf in graph.leaves]
    buffers: dict[str, Any] = getattr(module, "_buffers", {})
    yield from [(own, x, "a buffer") for own, x in buffers.items() if seen.unheld.is_idle(x)]


_FEW = 8
"""Calls by which an attribute was made of a leaf, at most: what a forward made has more."""


def _made_at(owner: type[Any], own: str) -> Place | None:
    """The line of the class's `__init__` that makes an attribute."""
    code = getattr(getattr(owner, "__init__", None), "__code__", None)
    if not isinstance(code, CodeType):
        return None
    made = rf"self\.({own}\s*[:=]|register_buffer\(\s*['\"]{own}['\"])"
    for line in range(code.co_firstlineno, max([n for *_, n in code.co_lines() if n] or [0]) + 1):
        if re.match(made, source_line(code.co_filename, line).strip()):
            return Place(code.co_filename, line, code.co_qualname)
    return None


class _Beside(NamedTuple):
    """Parameters beside optimized ones of the same model."""

    out: Sequence[Any]
    total: int
    model: str
    names: str
    is_odd: bool
    place: Place | None
    edit: Edit | None


def _beside(part: Coverage) -> Iterator[_Beside]:
    seen, left, optimized = part.facts, left_over(part.facts), part.facts.optimized
    place = next((row.place for row in seen.optimizers.values() if row.count), None)
    for _, root in seen.names.roots.values() if left and not any(_replaced(part)) else ():
        own = [p for p in seen.names.within(root) if p.requires_grad]
        out = [p for p in own if any(p is q for q in left)]
        within = [p for p in own if id(p) in optimized]
        if out and within:
            names = join_names([seen.names.param(p) for p in out])
            known = seen.called.get(id(root))
            edit = give_all(place, known.name) if known is not None and known.holds(place) else None
            odd = _is_odd(seen, out, within)
            yield _Beside(out, len(own), type(root).__name__, names, odd, place, edit)


def _is_odd(seen: Seen, out: Sequence[Any], within: Sequence[Any]) -> bool:
    """Whether it does not look like freezing.

    What is frozen runs first and was trained before, or is in eval mode. Adapters, prompts and
    biases are few among many.
    """
    ranks, others = [_rank(seen, p) for p in within], [_rank(seen, p) for p in out]
    if any(id(p) in seen.frozen for p in out):
        return True  # it was thawed to be trained
    if max(others) < min(ranks):
        owners = [seen.names.owner(p) for p in out]
        known = any(id(m) in seen.loaded or not m.training for m in owners)
        return not known and not any(seen.before.get(id(p)) is p for p in out)
    behind = min(others) > max(ranks) and min(ranks) >= 0
    return behind or 2 * len(within) >= len(out) + len(within)


def _rank(seen: Seen, p: Any) -> int:
    """When the module that has a parameter ran first; -1 for parameters of the model itself."""
    owner = seen.names.owner(p)
    if owner is None or id(owner) in seen.names.roots:
        return -1
    return seen.ran.get(id(owner), (owner, -1, None))[1]


ROWS = (
    of_parameters(
        "not_optimized",
        _strangers,
        "{count} modules run within {owner} and get gradients, but {owner} does not have them "
        "among its parts, so that {owner}.parameters() leaves them out",
        "keep modules in nn.ModuleList or nn.ModuleDict, not in a list or dict",
        detail="the first of them is a {first}",
        subject="{kinds}",
    ),
    of_parameters(
        "not_optimized",
        _plain,
        "{name}, shape {shape}, is {kind} of {owner.__name__} that gets gradients, but no "
        "nn.Parameter: parameters() leaves it out, and no optimizer changes it",
        "self.{own} = nn.Parameter(...), and what is made of it in forward",
        place=lambda c: _made_at(c.owner, c.own),
        subject="{name}",
    ),
    of_parameters(
        "not_optimized",
        lambda part: (c for c in _replaced(part) if not c.is_copied),
        "{steps.kind} holds {counts[0]} parameters that no model that ran has (and that get no "
        "gradient); {counts[1]} parameters that get gradients are in no optimizer",
        "build the optimizer after the last change of the model: optimizer = "
        "{steps.kind}(model.parameters(), ...); or give it what is new: "
        "optimizer.add_param_group({{'params': ...}})",
        lambda c: "error" if c.fits else "warning",
        place=lambda c: c.steps.place or c.loaded_at,
        detail="never updated: {names}",
    ),
    of_parameters(
        "detached",
        lambda part: (c for c in _replaced(part) if c.is_copied),
        "{counts[1]} parameters of copies get gradients and were changed through `.data`, which "
        "leaves no graph back to those that {steps.kind} holds: these get no gradient at all",
        "update the copies with a graph: torch.func.functional_call(model, {{name: p - rate * g}}, "
        "x) with g of create_graph=True; or hand the copies' gradients on to the model (first "
        "order)",
        "error",
        place=lambda c: c.written_at,
    ),
    of_parameters(
        "not_optimized",
        _beside,
        lambda c: (
            f"{len(c.out)} of {c.total} parameters of {c.model} get gradients and are in no "
            "optimizer; they stay as they are"
        ),
        "give the optimizer all that is to be trained; for what is not, requires_grad_(False), "
        "which saves its gradients",
        lambda c: "warning" if c.is_odd else "note",
        detail=lambda c: "" if c.is_odd else "it may be on purpose",
        edit=lambda c: c.edit,
    ),
)
