"""Sizes: numbers of elements, known now or when the program is called.

A size is an int, or a `Size`: a polynomial with integer coefficients in symbols such as T.
Arithmetic with a `Size` gives an int wherever the symbols cancel, so that code need not tell them
apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

Monomial = tuple[str, ...]
"""Symbols, sorted, each as often as its power; () is 1."""


@final
@dataclass(frozen=True, eq=False, slots=True)
class Size:
    """A polynomial: `terms` are (monomial, coefficient), sorted, without zeros."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def symbol(name: str) -> Size:
        """The symbol itself."""
        return Size((((name,), 1),))

    @property
    def symbols(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(s for m, _ in self.terms for s in m)

    def bind(self, values: Mapping[str, int]) -> int:
        """Its value where the symbols have `values`."""
        return sum([c * math.prod([values[s] for s in m]) for m, c in self.terms])

    def __add__(self, other: Extent) -> Extent:
        total = dict(self.terms)
        for m, c in _terms(other):
            total[m] = total.get(m, 0) + c
        return _size(total)

    def __mul__(self, other: Extent) -> Extent:
        total: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in _terms(other):
                mn = tuple(sorted(m + n))
                total[mn] = total.get(mn, 0) + c * d
        return _size(total)

    def __neg__(self) -> Extent:
        return self * -1

    def __sub__(self, other: Extent) -> Extent:
        return self + -other

    def __rsub__(self, other: int) -> Extent:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __str__(self) -> str:
        words: list[str] = []
        for m, c in self.terms:
            factors = [*([str(c)] if c != 1 or not m else []), *m]
            words.append("*".join(factors))
        return " + ".join(words)

    __repr__ = __str__


Extent = int | Size


def _terms(x: Any) -> Iterable[tuple[Monomial, int]]:
    return x.terms if isinstance(x, Size) else (((), int(x)),)


def _size(total: Mapping[Monomial, int]) -> Extent:
    left = {m: c for m, c in total.items() if c}
    if not left:
        return 0
    if list(left) == [()]:
        return left[()]
    return Size(tuple(sorted(left.items(), key=lambda mc: (-len(mc[0]), mc[0]))))


def product(sizes: Iterable[Extent]) -> Extent:
    """All of `sizes` multiplied."""
    out: Extent = 1
    for s in sizes:
        out = s * out
    return out


def divide(a: Extent, b: Extent) -> Extent | None:
    """a / b if that is a size, None if b does not divide a for every value of the symbols."""
    if a == b:
        return 1
    if isinstance(b, int):
        if b == 0 or any(c % b for _, c in _terms(a)):
            return None
        return _size({m: c // b for m, c in _terms(a)})
    if len(b.terms) != 1:
        return None
    (by, factor), total = b.terms[0], dict[Monomial, int]()
    for m, c in _terms(a):
        rest = list(m)
        for s in by:
            if s not in rest:
                return None
            rest.remove(s)
        if c % factor:
            return None
        total[tuple(rest)] = c // factor
    return _size(total)


def size_at(size: Extent, values: Mapping[str, int]) -> int:
    """The number that `size` is where the symbols have `values`."""
    return size if isinstance(size, int) else size.bind(values)


_ABOUT = "_about_"


def about(name: str, n: int) -> str:
    """A symbol's name that says what its size mostly is like: code is planned for that."""
    return f"{name}{_ABOUT}{n}"


def typical(size: Extent) -> int:
    """A number to plan with: the size where every symbol is as it mostly is, 64 if it does not
    say."""
    if isinstance(size, int):
        return size
    said = {s: s.rpartition(_ABOUT) for s in size.symbols}
    return size.bind(
        {s: int(n) if name and n.isdigit() else 64 for s, (name, _, n) in said.items()}
    )
