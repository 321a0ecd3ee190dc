"""Parameters that get gradients and are in no optimizer, by the reason that is seen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

from chainrule.source_text import source_line
from chainrule.verify.finding import Finding, Level
from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import listed
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text.edits import Edit, given_all
from chainrule.verify.where import placed

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Seen, Steps


def not_optimized(seen: Seen) -> list[Finding]:
    """Parameters that get gradients and are in no optimizer, by the reason that is seen."""
    optimized = seen.optimized
    left = [
        p
        for p in seen.names.params()
        if p.requires_grad and id(p) in seen.touched and id(p) not in optimized
    ]
    found = [*_strangers(seen, optimized), *_tensors(seen, optimized)]
    if not left:
        return found
    stale = [row for row in seen.optimizers.values() if row.count and _strays(seen, row)]
    if stale:
        return [*found, _replaced(seen, left, stale[0])]
    return [*found, *_forgotten(seen, left, optimized)]


def _strays(seen: Seen, row: Steps) -> list[Any]:
    """Parameters of an optimizer that no model has, and that never had a gradient."""
    return [p for key, p in row.params.items() if not seen.names.has(p) and key not in row.got]


def _replaced(seen: Seen, left: Sequence[Any], row: Steps) -> Finding:
    strays = _strays(seen, row)
    shapes = {tuple(p.shape) for p in strays}
    fits = all(tuple(p.shape) in shapes for p in left)
    lines = [seen.written.get(id(p)) for p in left]
    if fits and len(left) > len(strays) and None not in lines:
        return _copied(seen, left, row, placed(lines[-1]))
    names = listed([seen.names.param(p) for p in left])
    because = (
        f"{type(row.optimizer).__name__} holds {len(strays)} parameters that no model that ran has "
        f"(and that get no gradient); {len(left)} parameters that get gradients are in no optimizer"
    )
    return of_parameters(
        "error" if fits else "warning",
        "not_optimized",
        names,
        because,
        f"never updated: {names}",
        row.place,
        "build the optimizer after the last change of the model: optimizer = "
        f"{type(row.optimizer).__name__}(model.parameters(), ...); or give it what is new: "
        "optimizer.add_param_group({'params': ...})",
    )


def _copied(seen: Seen, left: Sequence[Any], row: Steps, place: Place | None) -> Finding:
    """Copies of a model, made again and again, each changed through `.data`."""
    names = listed([seen.names.param(p) for p in left])
    because = (
        f"{len(left)} parameters of copies get gradients and were changed through `.data`, which "
        f"leaves no graph back to those that {type(row.optimizer).__name__} holds: these get no "
        "gradient at all"
    )
    return of_parameters(
        "error",
        "detached",
        names,
        because,
        "",
        place,
        "update the copies with a graph: torch.func.functional_call(model, {name: p - rate * g}, "
        "x) with g of create_graph=True; or hand the copies' gradients on to the model (first "
        "order)",
    )


def _strangers(seen: Seen, optimized: set[int]) -> list[Finding]:
    """Modules that run within a model that does not know them: kept in a plain list or dict."""
    rows = [
        (module, root, at)
        for key, (module, root, at) in seen.strangers.items()
        if key in seen.reached
        and not seen.names.has_module(module)
        and not any(id(p) in optimized for p in module.parameters())
        and any(p.requires_grad for p in module.parameters())
    ]
    if not rows:
        return []
    module, root, at = rows[0]
    owner, kept_at = type(root).__name__, _kept_at(seen, module)
    because = (
        f"{len(rows)} modules run within {owner} and get gradients, but {owner} does not have them "
        f"among its parts, so that {owner}.parameters() leaves them out"
    )
    return [
        of_parameters(
            "warning",
            "not_optimized",
            listed([type(m).__name__ for m, _, _ in rows]),
            because,
            f"the first of them is a {type(module).__name__}",
            kept_at or placed(at),
            "keep modules in nn.ModuleList or nn.ModuleDict, not in a list or dict",
        )
    ]


def _kept_at(seen: Seen, module: Any) -> Place | None:
    """The line that makes the list, or the dict, in which a model keeps a module, or one around
    it."""
    for engine, root in seen.names.roots.values():
        for _, owner in engine.modules(root):
            kind = cast("type[Any]", type(owner))
            held: dict[str, Any] = dict(owner.__dict__)
            for own, kept in held.items():
                around = [p for p in _listed(kept) if callable(getattr(p, "named_modules", None))]
                if any(m is module for p in around for _, m in engine.modules(p)):
                    return _made_at(kind, own)
    return None


def _listed(kept: Any) -> list[Any]:
    """What a list or a dict holds; nothing for anything else."""
    if isinstance(kept, dict):
        return list(cast("dict[Any, Any]", kept).values())
    return list(cast("list[Any]", kept)) if isinstance(kept, list | tuple) else []


def _tensors(seen: Seen, optimized: set[int]) -> list[Finding]:
    """Tensors that a module keeps as an attribute and that get gradients, but are no parameters."""
    found: list[Finding] = []
    for owner, called, value in _attributes(seen):
        if value.grad is None or id(value) in optimized:
            continue
        because = (
            f"{called}, shape {tuple(value.shape)}, is an attribute of {owner.__name__} that gets "
            "gradients, but no nn.Parameter: parameters() leaves it out, and no optimizer "
            "changes it"
        )
        own = called.rsplit(".", 1)[-1]
        after, at = f"self.{own} = nn.Parameter(...)", _made_at(owner, own)
        found.append(of_parameters("warning", "not_optimized", called, because, "", at, after))
    return found


def _made_at(owner: type[Any], own: str) -> Place | None:
    """The line of the class's `__init__` that makes an attribute."""
    code = getattr(getattr(owner, "__init__", None), "__code__", None)
    if not isinstance(code, CodeType):
        return None
    for line in range(code.co_firstlineno, max([n for *_, n in code.co_lines() if n] or [0]) + 1):
        if re.match(rf"self\.{own}\s*[:=]", source_line(code.co_filename, line).strip()):
            return Place(code.co_filename, line, code.co_qualname)
    return None


def _attributes(seen: Seen) -> Iterator[tuple[type[Any], str, Any]]:
    """Leaves that modules have as plain attributes: class of the module, name, tensor."""
    for engine, root in seen.names.roots.values():
        for name, module in engine.modules(root):
            own_ids = {id(p) for _, p in engine.own(module)}
            held: dict[str, Any] = dict(module.__dict__)
            for own, value in held.items():
                if _is_leaf(value) and id(value) not in own_ids:
                    called = ".".join([part for part in (name, own) if part])
                    yield type(module), called, value


def _is_leaf(value: Any) -> bool:
    return (
        hasattr(value, "requires_grad")
        and hasattr(value, "is_leaf")
        and bool(value.requires_grad)
        and bool(value.is_leaf)
    )


def _forgotten(seen: Seen, left: Sequence[Any], optimized: set[int]) -> list[Finding]:
    """Parameters beside optimized ones of the same model: a warning where that is no freezing."""
    found: list[Finding] = []
    for _, root in seen.names.roots.values():
        own = [p for p in seen.names.within(root) if p.requires_grad]
        out = [p for p in own if any(p is q for q in left)]
        within = [p for p in own if id(p) in optimized]
        if not out or not within:
            continue
        names = listed([seen.names.param(p) for p in out])
        because = (
            f"{len(out)} of {len(own)} parameters of {type(root).__name__} get gradients and are "
            "in no optimizer; they stay as they are"
        )
        place = next((row.place for row in seen.optimizers.values() if row.count), None)
        level: Level = "warning" if _is_odd(seen, out, within) else "note"
        detail = "it may be on purpose" if level == "note" else ""
        found.append(
            of_parameters(
                level,
                "not_optimized",
                names,
                because,
                detail,
                place,
                "give the optimizer all that is to be trained; for what is not, requires_grad_"
                "(False), which saves its gradients",
                _given_all(seen, root, place),
            )
        )
    return found


def _given_all(seen: Seen, root: Any, place: Place | None) -> Edit | None:
    """The line of the optimizer with all parameters, where the model has the same name there."""
    known = seen.called.get(id(root))
    return given_all(place, known.name) if known is not None and known.holds(place) else None


def _is_odd(seen: Seen, out: Sequence[Any], within: Sequence[Any]) -> bool:
    """Whether it does not look like freezing.

    What is frozen runs first and was trained before, or is in eval mode. Adapters, prompts and
    biases are few among many.
    """
    ranks, others = [_rank(seen, p) for p in within], [_rank(seen, p) for p in out]
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


def of_parameters(
    level: Level,
    code: str,
    names: str,
    because: str,
    detail: str,
    place: Place | None,
    correction: str,
    edit: Edit | None = None,
) -> Finding:
    """A finding about parameters."""
    return finding(
        level, code, because, correction, place, detail=detail, subject=names, kind="parameters",
        edit=edit,
    )  # fmt: skip
