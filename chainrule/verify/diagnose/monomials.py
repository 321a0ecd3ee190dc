"""Formulas for numbers: which product of powers of the values at hand is this array?

`fit` finds v = c * x**p * y**q ... or a sum of two such terms, if there is one. A correct answer
fits to rounding at every element, so that chance has no part in it as long as there are more
elements than numbers to choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from chainrule.verify.subject import Array

_POWERS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1.5, -1.5)
_FEWER = (0.0, 1.0, -1.0, 2.0, -2.0)
_WHOLE = (0.0, 1.0, 2.0)
_LEAST = 5
"""Elements that a formula must explain at least."""
_MOST_VALUES = 4


@dataclass(frozen=True)
class Term:
    """c times a product of powers."""

    c: float
    powers: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        factors = [_power(name, p) for name, p in self.powers]
        if not factors:
            return f"{self.c:.6g}"
        text = " * ".join(factors)
        sign = {1.0: "", -1.0: "-"}.get(self.c)
        return f"{self.c:.6g} * {text}" if sign is None else sign + text

    @property
    def names(self) -> frozenset[str]:
        """Values that it reads."""
        return frozenset([name for name, _ in self.powers])

    def at(self, values: Mapping[str, Array]) -> Array:
        """Its numbers."""
        result = np.asarray(self.c)
        for name, p in self.powers:
            result = result * values[name] ** p
        return result


@dataclass(frozen=True)
class Formula:
    """A sum of one or two terms."""

    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return " + ".join([str(t) for t in self.terms]).replace("+ -", "- ")

    @property
    def names(self) -> frozenset[str]:
        """Values that it reads."""
        return frozenset[str]().union(*[t.names for t in self.terms])

    def at(self, values: Mapping[str, Array]) -> Array:
        """Its numbers."""
        return np.asarray(sum([t.at(values) for t in self.terms]))


def fit(v: Array, values: Mapping[str, Array], close: float, sums: bool = True) -> Formula | None:
    """The plainest formula for v among `values` of its shape, to a relative `close`."""
    if v.size < _LEAST or not np.any(v):
        return None
    named = dict(list(values.items())[:_MOST_VALUES])
    one = _one(v.ravel(), named, close)
    if one is not None:
        return Formula((one,))
    two = _two(v.ravel(), named, close) if sums else None
    return Formula(two) if two is not None else None


def _one(v: Array, values: Mapping[str, Array], close: float) -> Term | None:
    for powers, column in _columns(values, _POWERS if len(values) < 3 else _FEWER):
        square = float(column @ column)
        if not np.isfinite(square) or square == 0:
            continue
        c = float(column @ v) / square
        if np.linalg.norm(v - c * column) <= close * np.linalg.norm(v):
            return Term(_round(c, close), powers)
    return None


def _two(v: Array, values: Mapping[str, Array], close: float) -> tuple[Term, ...] | None:
    if v.size < _LEAST + 1:
        return None
    found = list(_columns(values, _WHOLE if len(values) > 1 else _FEWER))
    columns = [(p, c) for p, c in found if np.isfinite(c).all()]
    for (p, a), (q, b) in combinations(columns, 2):
        solution = _solved(v, a, b)
        if solution is None:
            continue
        c, d = solution
        if np.linalg.norm(v - c * a - d * b) <= close * np.linalg.norm(v):
            return Term(_round(c, close), p), Term(_round(d, close), q)
    return None


def _solved(v: Array, a: Array, b: Array) -> tuple[float, float] | None:
    """Least squares with two columns; None if they are too much alike to tell apart."""
    aa, bb, ab = float(a @ a), float(b @ b), float(a @ b)
    det = aa * bb - ab * ab
    if det <= 1e-6 * aa * bb:
        return None
    av, bv = float(a @ v), float(b @ v)
    return (bb * av - ab * bv) / det, (aa * bv - ab * av) / det


def _columns(
    values: Mapping[str, Array], powers: Sequence[float]
) -> Iterator[tuple[tuple[tuple[str, float], ...], Array]]:
    """Products of powers, those that read the fewest values first."""
    names = list(values)
    choices = sorted(product(powers, repeat=len(names)), key=_complexity)
    flat = {n: values[n].ravel() for n in names}
    usable = {
        (n, p): f**p
        for n, f in flat.items()
        for p in powers
        if p and (p > 0 or np.all(f != 0)) and (p == int(p) or np.all(f > 0))
    }
    size = next(iter(flat.values())).size if flat else 0
    for choice in choices:
        used = tuple([(n, p) for n, p in zip(names, choice, strict=True) if p])
        if all(u in usable for u in used):
            column = np.ones(size)
            for u in used:
                column = column * usable[u]
            yield used, column


def _complexity(powers: Sequence[float]) -> tuple[int, float]:
    return sum([p != 0 for p in powers]), sum(
        [abs(p) + (p != int(p)) + (p < 0) / 2 for p in powers]
    )


def _round(c: float, close: float) -> float:
    """c, or the plain number that it is to within what was measured."""
    near = round(c * 12) / 12
    return near if near and abs(c - near) <= 4 * close * abs(c) else c


def _power(name: str, p: float) -> str:
    if p == 1:
        return name
    return f"sqrt({name})" if p == 0.5 else f"{name}**{p:g}"
