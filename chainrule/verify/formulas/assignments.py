"""Values of formulas, with a program's values for their arguments: which of these are a formula's?

Values are looked up by some of their elements, at several points. What "up to" says is taken out of
both sides first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, TypeAlias

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Argument, Formula, arguments
from chainrule.verify.formulas.values import is_mask
from chainrule.verify.formulas.words import unlikeness

Key: TypeAlias = tuple[int, str]
_SAMPLES = 24
_TRIED = 3000
"""Assignments of which the likeliest are evaluated."""
_MOST = 60
_UNLIKE = 0.75
"""How little names of arguments may say that they are these, on average."""
_OPTIONS = 8
_TINY = 1e-3
_MARGIN = 0.3
_FOREIGN = 0.8
_MERE = 1e-3
_LEAST = 3
"""Ops of a formula: nearly all is a change away from less."""
REDUCTIONS = ("", "mean", "sum", "mean -1", "sum -1", "mean 0", "sum 0", "sum -1 mean")
"""Of rows that have one variant only; others say themselves what is in use."""
_FEW = 3
"""Elements of a value from which on it tells more than a scale."""


@dataclass(frozen=True, eq=False)
class Item:
    """A value of a program that may be an argument; `is_squared`: or its square, where it is a
    share."""

    key: Key | None
    """None for a number of the text."""
    text: str
    points: tuple[Array, ...]
    elements: str
    is_squared: bool = False

    def at(self, values: Mapping[Key, Array]) -> Array:
        """At a point, if it is there."""
        if self.key is None:
            return self.points[0]
        return values[self.key] ** 2 if self.is_squared else values[self.key]

    @property
    def shape(self) -> tuple[int, ...]:
        """At all points."""
        return self.points[0].shape


@dataclass(frozen=True, eq=False)
class Meaning:
    """A formula of some arguments, in one of its variants, reduced in one way."""

    formula: Formula
    items: tuple[Item, ...]
    variant: int
    reduction: str
    cost: float = 0.0
    """How little the names of its arguments say so, on average."""

    @cached_property
    def is_named(self) -> bool:
        """Whether names say it of nearly all of its arguments."""
        takes = arguments(self.formula)
        unlike = [_unlikeness(a.name, x) for a, x in zip(takes, self.items, strict=True)]
        return sum(u > _FOREIGN for u in unlike) <= len(unlike) // 3

    def needs_all(self, points: Sequence[Mapping[Key, Array]]) -> bool:
        """Whether each argument makes a difference, where others stay as they are."""
        for one in self.places():
            differ = False
            for here, there in pairwise(points):
                a, b = self.value(here), self.value({**here, one: there[one]})
                if a is None or b is None or a.shape != b.shape or not _near(a, b):
                    differ = True
            if not differ:
                return False
        return True

    def places(self) -> list[Key]:
        """Of its arguments."""
        return [item.key for item in self.items if item.key is not None]

    def value(self, at: Mapping[Key, Array]) -> Array | None:
        """At another point."""
        try:
            args = [x.at(at) for x in self.items]
        except KeyError:
            return None
        rows = list(islice(variants(self.formula, args), self.variant + 1))
        return reduced(rows[-1], self.reduction) if len(rows) > self.variant else None


def variants(formula: Formula, args: Sequence[Array]) -> Iterator[Array]:
    """Values of a formula, each of several ones by itself."""
    plain = [float(x) if x.ndim == 0 else x for x in args]
    try:
        with np.errstate(all="ignore"):
            made: Any = formula.value(*plain)
            yield from _flat(made)
    except Exception:  # the shapes do not fit, or a number is none that it takes
        return


def _flat(made: Any) -> Iterator[Array]:
    if isinstance(made, tuple) or hasattr(made, "__next__"):
        for each in made:
            yield from _flat(each)
    else:
        yield np.asarray(made, np.float64)


class _Counted(np.ndarray):
    """An array that counts what is computed with it."""

    count = 0

    def __array_ufunc__(self, f: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        _Counted.count += method == "__call__"
        plain = [np.asarray(x) if isinstance(x, _Counted) else x for x in inputs]
        kwargs.pop("out", None)
        made = getattr(f, method)(*plain, **kwargs)
        return made.view(_Counted) if isinstance(made, np.ndarray) else made


def is_trivial(meaning: Meaning, at: Mapping[Key, Array]) -> bool:
    """Whether a formula takes element by element fewer than three ops."""
    if any(a.axes for a in arguments(meaning.formula)):
        return False
    args = [x.at(at) for x in meaning.items]
    counted = [x.view(_Counted) if x.ndim else x for x in args]
    _Counted.count = 0
    for _ in islice(variants(meaning.formula, counted), 1):
        pass
    return _Counted.count < _LEAST


def reduced(x: Array, how: str) -> Array | None:
    """What losses are made of it."""
    if how == "":
        return x
    name, *rest = how.split()
    if x.ndim == 0 or (rest and x.ndim < 2):
        return None
    if rest == ["-1", "mean"]:
        return np.asarray(x.sum(-1).mean())
    axis = int(rest[0]) if rest else None
    return np.asarray(x.mean(axis) if name == "mean" else x.sum(axis))


def sample(x: Array) -> Array:
    """Some of its elements, always the same ones."""
    flat = x.reshape(-1)
    return flat if flat.size <= _SAMPLES else flat[_places(flat.size)]


_known_places: dict[int, Array] = {}


def _places(size: int) -> Array:
    if size not in _known_places:
        _known_places[size] = np.unique(np.linspace(0, size - 1, _SAMPLES).astype(int))
    return _known_places[size]


def normal(rows: Array, up_to: str) -> Array:
    """Rows, with what makes no difference taken out; NaN where nothing is left."""
    with np.errstate(all="ignore"):
        if up_to == "shift and scale":
            rows = rows - rows.mean(-1, keepdims=True)
        if up_to:
            length = np.sqrt((rows * rows).sum(-1, keepdims=True))
            if up_to == "factor":
                first = np.take_along_axis(rows, np.abs(rows).argmax(-1)[..., None], -1)
                length = length * np.sign(first)
            rows = rows / length
    return rows


def same_up_to(a: Array, b: Array, up_to: str, tolerance: float) -> bool:
    """Whether two rows of numbers are one, up to what makes no difference."""
    x, y = normal(a, up_to), normal(b, up_to)
    if x.shape != y.shape or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return False
    size = float(np.abs(y).max(initial=0))
    return size > 0 and float(np.abs(x - y).max(initial=0)) <= tolerance * size


_Group: TypeAlias = tuple[tuple[int, ...], str]
"""The shape of values, and up to what they are compared."""


@dataclass(eq=False)
class Table:
    """Meanings, by the shape of their values."""

    points: int
    _rows: dict[_Group, list[tuple[Meaning, Array]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _matrices: dict[tuple[_Group, int], tuple[Array, Array]] = field(
        default_factory=dict[tuple[_Group, int], tuple[Array, Array]]
    )

    def add(self, meaning: Meaning, values: Sequence[Array]) -> None:
        """One more, with its values at all points."""
        key = (values[0].shape, meaning.formula.up_to)
        if values[0].size == 0:
            return
        self._rows[key].append((meaning, np.stack(list(map(sample, values)))))

    def near(self, values: Sequence[Array], tolerance: float) -> Iterator[Meaning]:
        """Those that have these values, at the first point or at more; a number at one point tells
        nothing if only a part of it counts."""
        for key, rows in self._rows.items():
            shape, up_to = key
            if any(v.shape != shape for v in values) or (values[0].size < _FEW and up_to and
                                                         len(values) < self.points):  # fmt: skip
                continue
            own = normal(np.concatenate(list(map(sample, values))), up_to)
            matrix, order = self._matrix(key, len(values))
            if not np.isfinite(own).all():
                continue
            off = tolerance * float(np.abs(own).max(initial=0))
            first, last = np.searchsorted(matrix[:, 0], (own[0] - off, own[0] + off))
            fits = np.abs(matrix[first:last] - own).max(-1, initial=0) <= off
            yield from (rows[order[first + i]][0] for i in np.flatnonzero(fits))

    def _matrix(self, key: _Group, count: int) -> tuple[Array, Array]:
        """Values of a group at some points as rows, sorted by their first elements, and the order
        in which they were."""
        if (key, count) not in self._matrices:
            rows = np.stack([samples[:count].reshape(-1) for _, samples in self._rows[key]])
            rows = normal(rows, key[1])
            order = np.argsort(rows[:, 0])
            self._matrices[key, count] = rows[order], order
        return self._matrices[key, count]

    def needs_all(self, value: Array) -> bool:
        """Whether a value tells something only together with those at other points."""
        return value.size < _FEW and any(
            shape == value.shape and up_to for shape, up_to in self._rows
        )

    @cached_property
    def formulas(self) -> set[str]:
        """Names of those that have a value."""
        return {m.formula.name for rows in self._rows.values() for m, _ in rows}


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
        same_up_to(sample(w), sample(v), up_to if v.size >= _FEW else "", _MERE)
        for w, v in zip(whole, values, strict=True)
        if w is not None
    )


def _near(a: Array, b: Array) -> bool:
    size = float(np.abs(b).max(initial=0))
    return float(np.abs(a - b).max(initial=0)) <= _MERE * size


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
    ranked = [(_unlikeness(a.name, x) + 0.002 * i, x) for i, x in enumerate(fine)]
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


def _unlikeness(name: str, x: Item) -> float:
    """0 for a name that says the same, more for others; numbers of the text last."""
    if x.key is None:
        return 0.3 if name.startswith("eps") else 0.7
    own = unlikeness(name, x.text) + (0.0 if x.text.isidentifier() else 0.05)
    is_odd = own > _MARGIN and x.elements == "float" and is_mask(x.points[0])
    return own + 0.5 * is_odd


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
