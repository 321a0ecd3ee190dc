"""Values of formulas, with a program's values for their arguments: which of these are a formula's?

Names tell what a value is for. Of values in one another's places the better named ones count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Argument, Formula, arguments
from chainrule.verify.formulas.lookup import FEW, Table, same_up_to, sample
from chainrule.verify.formulas.meanings import Item, Meaning, item_unlikeness, reduced, variants
from chainrule.verify.formulas.values import is_mask

_TRIED = 3000
"""Assignments of which the likeliest are evaluated."""
_MOST = 60
_UNLIKE = 0.75
"""How little names of arguments may say that they are these, on average."""
_OPTIONS = 8
_TINY = 1e-3
_MARGIN = 0.3
_MERE = 1e-3
REDUCTIONS = ("", "mean", "sum", "mean -1", "sum -1", "mean 0", "sum 0", "sum -1 mean")
"""Of rows that have one variant only; others say themselves what is in use."""


def fill(table: Table, formulas: Iterable[Formula], items: Sequence[Item]) -> Iterator[None]:
    """Put the values of formulas into a table; gives way after each one."""
    for formula in formulas:
        for cost, choice in _choices(list(arguments(formula)), items):
            _evaluate(table, formula, choice, cost / len(choice))
            yield


def _evaluate(table: Table, formula: Formula, choice: tuple[Item, ...], cost: float) -> None:
    points = [[x.points[i if x.key else 0] for x in choice] for i in range(table.points)]
    rows = [list(variants(formula, args)) for args in points]
    if not rows[0] or any(len(r) != len(rows[0]) for r in rows):
        return
    for variant in range(len(rows[0])):
        for how in REDUCTIONS if len(rows[0]) == 1 else ("",):
            values = [reduced(r[variant], how) for r in rows]
            fine = [v for v in values if v is not None and np.isfinite(v).all()]
            if len(fine) < len(values) or len({v.shape for v in fine}) != 1:
                continue
            moves = not np.array_equal(fine[0], fine[1])
            if moves and not any(_is_one_of(x, fine, how, formula.up_to) for x in choice):
                table.add(Meaning(formula, choice, variant, how, cost), fine)


def _is_one_of(x: Item, values: Sequence[Array], how: str, up_to: str) -> bool:
    """Whether values are nothing but those of an argument."""
    if x.key is None:
        return False
    whole = [reduced(p, how) for p in x.points]
    if any(w is None or w.shape != v.shape for w, v in zip(whole, values, strict=True)):
        return False
    return all(
        same_up_to(sample(w), sample(v), up_to if v.size >= FEW else "", _MERE)
        for w, v in zip(whole, values, strict=True)
        if w is not None
    )


def _choices(
    takes: Sequence[Argument], items: Sequence[Item]
) -> list[tuple[float, tuple[Item, ...]]]:
    """Assignments of items to arguments, the likeliest first."""
    elementwise = all(a.axes is None or a.axes == () for a in takes)
    options = [_options(a, items, elementwise=elementwise) for a in takes]
    if not all(options):
        return []
    found = list[tuple[float, int, tuple[Item, ...]]]()

    def choose(at: int, chosen: tuple[Item, ...], cost: float, sizes: dict[str, int]) -> None:
        if len(found) >= _TRIED:
            return
        if at == len(takes):
            found.append((cost, len(found), chosen))
            return
        for rank, item in options[at]:
            if any(item is c for c in chosen):
                continue
            fits = _fits(takes[at], item, chosen, takes, sizes, elementwise=elementwise)
            if fits is not None:
                choose(at + 1, (*chosen, item), cost + rank, fits)

    choose(0, (), 0.0, {})
    found = _roles(found)
    likely = [row for row in found if row[0] <= _UNLIKE * len(takes)]
    rows = sorted(likely, key=lambda row: row[:2])[:_MOST]
    return [(cost, chosen) for cost, _, chosen in rows]


_Rows: TypeAlias = list[tuple[float, int, tuple[Item, ...]]]


def _roles(rows: _Rows) -> _Rows:
    """Assignments of which none of the same items in other places is better by their names."""
    best = dict[frozenset[int], float]()
    for cost, _, chosen in rows:
        some = frozenset(map(id, chosen))
        best[some] = min(cost, best.get(some, cost))
    return [r for r in rows if r[0] <= best[frozenset(map(id, r[2]))] + _MARGIN]


def _options(
    a: Argument, items: Sequence[Item], *, elementwise: bool
) -> list[tuple[float, Item]]:  # fmt: skip
    """Items of the kind of an argument, those first whose name is like its own."""
    fine = [x for x in items if _is_of(a, x, elementwise=elementwise)]
    if a.axes == () and a.name.startswith("eps"):
        fine = [x for x in fine if 0 <= float(x.points[0].max()) <= _TINY]
        fine.append(Item(None, "0", (np.zeros(()),), "float"))
    elif a.axes == ():
        fine = [x for x in fine if x.shape or abs(float(x.points[0])) > _TINY]
    ranked = [(item_unlikeness(a.name, x) + 0.002 * i, x) for i, x in enumerate(fine)]
    return sorted(ranked, key=lambda row: row[0])[: _OPTIONS if a.axes != () else 6]


def _is_of(a: Argument, x: Item, *, elementwise: bool) -> bool:
    if a.axes == ():
        fits = x.shape == () or (elementwise and x.key is not None)
    else:
        fits = x.key is not None and (a.axes is None or len(a.axes) == len(x.shape))
    if a.kind == "bool":
        return fits and (x.elements == "bool" or is_mask(x.points[0]) or is_mask(1 - x.points[0]))
    if a.kind == "int":
        return fits and x.elements in ("int", "bool")
    return fits and (x.elements == "float" or x.shape == () or is_mask(x.points[0]))


def _fits(
    a: Argument, x: Item, chosen: Sequence[Item], takes: Sequence[Argument],
    sizes: dict[str, int], *, elementwise: bool,
) -> dict[str, int] | None:  # fmt: skip
    """Lengths of axes with one more argument; None if they contradict."""
    if a.axes is None:
        others = [c for c, t in zip(chosen, takes, strict=False) if t.axes is None]
        if elementwise:
            try:
                np.broadcast_shapes(x.shape, *[c.shape for c in chosen])
            except ValueError:
                return None
            return sizes
        return sizes if all(c.shape == x.shape for c in others) else None
    if a.axes == ():
        if elementwise and x.shape != ():
            try:
                np.broadcast_shapes(x.shape, *[c.shape for c in chosen])
            except ValueError:
                return None
        return sizes
    found = dict(sizes)
    for axis, length in zip(a.axes, x.shape, strict=True):
        letter, _, more = axis.partition("+")
        size = length - int(more or 0)
        if letter.isdigit() and int(letter) != length:
            return None
        if found.setdefault(letter, size) != size:
            return None
    return found
