"""Parameters in an optimizer that never get a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.training.facts.names import listed
from chainrule.verify.training.rules.coverage.unoptimized import of_parameters
from chainrule.verify.training.text import origins
from chainrule.verify.training.text.unread import Unread, Unused, holders, unread, unused

if TYPE_CHECKING:
    from chainrule.verify.training.rules.coverage.observer import Seen, Steps


def no_gradient(seen: Seen) -> list[Finding]:
    """What is never read, and what is read in vain, are findings of their own; the rest may be
    meant."""
    found = _frozen_at_zero(seen)
    for row in seen.optimizers.values():
        bare = [
            p
            for key, p in row.params.items()
            if p.requires_grad and key not in row.got | seen.touched and seen.names.has(p)
        ]
        if not row.count or not bare:
            continue
        parts: dict[Unread | Unused, list[Any]] = {}
        for p in bare:
            part = unread(seen.names, p) or _unused(seen, p)
            if part is not None:
                parts.setdefault(part, []).append(p)
        found += [_of_part(seen, part, ps) for part, ps in parts.items()]
        rest = [p for p in bare if not any(p is q for ps in parts.values() for q in ps)]
        found += [_bare(seen, row, rest)] if rest else []
    return found


def _frozen_at_zero(seen: Seen) -> list[Finding]:
    """Matrices that an optimizer was given, that are nothing but zeros and cannot change: what is
    multiplied by them has no part in anything. The second factor of a low-rank adapter, frozen
    together with the model that it was put into."""
    rows = [row for row in seen.optimizers.values() if row.count]
    given = {key: p for row in rows for key, p in row.params.items()}
    frozen = [
        p
        for p in given.values()
        if not p.requires_grad and _is_matrix(p) and id(seen.names.owner(p)) in seen.ran
    ]
    engine = next((engine for engine, _ in seen.names.roots.values()), None)
    norms = engine.norms(frozen) if engine is not None else []
    zero = [p for p, n in zip(frozen, norms, strict=True) if n == 0]
    if not zero:
        return []
    names = listed([seen.names.param(p) for p in zero])
    because = (
        f"{len(zero)} matrices are 0 and frozen (requires_grad is False), though an optimizer has "
        "them: what they are multiplied with stays 0, however long the training"
    )
    place = origins.freezing(rows[0].place) or rows[0].place
    advice = (
        "freeze the old parameters before new ones are put in, or requires_grad_(True) for these"
    )
    return [of_parameters("warning", "no_gradient", names, because, "", place, advice)]


def _is_matrix(p: Any) -> bool:
    """Whether it multiplies, rather than is added: along one axis that would have one element."""
    return len(p.shape) == 2 and min(p.shape) > 1


def _of_part(seen: Seen, part: Unread | Unused, params: Sequence[Any]) -> Finding:
    names = listed([seen.names.param(p) for p in params])
    edit = part.edit if isinstance(part, Unread) else None
    return of_parameters(
        "warning", "no_gradient", names, part.because, "", part.place, part.advice, edit
    )


def _unused(seen: Seen, p: Any) -> Unused | None:
    """Where what the module of a parameter gives, or one around it, is put in vain."""
    for module, _ in holders(seen.names, p):
        *_, at = seen.ran.get(id(module), (None,))
        found = unused(at)
        if found is not None:
            return found
    return None


def _bare(seen: Seen, row: Steps, bare: Sequence[Any]) -> Finding:
    used = [p for p in bare if id(seen.names.owner(p)) in seen.ran]
    others = [p for p in bare if id(seen.names.owner(p)) not in seen.ran]
    names = listed([seen.names.param(p) for p in (*used, *others)])
    because = (
        f"{len(bare)} of {len(row.params)} parameters of {type(row.optimizer).__name__} got no "
        f"gradient in {row.count} steps: {_groups(seen, used, others)}"
    )
    whole = len(bare) == len(row.params) and bool(seen.touched) and row.count > 1
    if whole and used and seen.loose and (cut := origins.rewrapped(row.place)) is not None:
        return _rewrapped(names, because, cut)
    return of_parameters(
        "warning" if whole else "note",
        "no_gradient",
        names,
        because,
        "",
        row.place,
        "if they are meant to be trained, look for what cuts them off: detach(), .data, "
        "item(), numpy(), no_grad(), or an output that the loss does not use",
    )


def _rewrapped(names: str, because: str, cut: Place) -> Finding:
    return of_parameters(
        "error",
        "detached",
        names,
        f"{because}; the loss begins at a leaf that was made of what they gave",
        "",
        cut,
        "go on with the value itself, which has its graph: no .data, no detach(), no new leaf",
    )


def _groups(seen: Seen, used: Sequence[Any], others: Sequence[Any]) -> str:
    frozen = [p for p in others if id(seen.names.owner(p)) in seen.silent]
    idle = [p for p in others if id(seen.names.owner(p)) not in seen.silent]
    rows = (
        (used, "ran, but the loss does not depend on them"),
        (frozen, "ran without a graph (no_grad)"),
        (idle, "did not run"),
    )
    return "; ".join(
        [f"{listed([seen.names.param(p) for p in ps], 3)} {says}" for ps, says in rows if ps]
    )
