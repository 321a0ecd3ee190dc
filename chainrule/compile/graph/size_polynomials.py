"""What a number is at all sizes, from what it is at some.

A function is traced at several sizes. A number that differs between the traces must be a polynomial
of the symbols. It is fitted to some of them and checked on all.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.compile.graph.array_patterns import Ratio
from chainrule.compile.graph.sizes import Extent, Size

Sample = Mapping[str, int]
Monomial = tuple[str, ...]


def count_needed(symbols: int) -> tuple[int, int]:
    """How many traces it takes, for polynomials of degree 1, which nearly all are, and for any. It
    is one more than there are monomials to tell apart."""
    return symbols + 2, len(_monomials([str(i) for i in range(symbols)])) + 1


def samples_near(now: Sample, taken: frozenset[int], count: int) -> list[Sample]:
    """Where to trace: at the present sizes and near them, at sizes that nothing else has.

    More than `count`, since a function may refuse some: they come in order of preference.
    """
    near: dict[str, list[int]] = {}
    for s, n in now.items():
        below, above = range(n - 1, 1, -1), range(n + 1, n + 64)
        ranked = [x for pair in itertools.zip_longest(below, above) for x in pair if x]
        free = [x for x in ranked if x not in taken]
        near[s] = [n, *free[: 4 * count]]
    out: list[Sample] = [dict(now)]
    for i in range(1, 12 * count):
        # each symbol by a power of its own, so that none is a sum of others
        out.append(
            {s: xs[(int(i ** (k + 1)) + k) % len(xs)] for k, (s, xs) in enumerate(near.items())}
        )
    unique = {tuple(sorted(x.items())): x for x in out}
    return list(unique.values())


def told_apart(samples: Sequence[Sample]) -> bool:
    """Whether these samples tell the symbols apart: none of them is, in all, a constant and
    multiples of others, or a multiple of another monomial."""
    symbols = sorted(samples[0])
    values = {m: [_at(m, s) for s in samples] for m in _monomials(symbols)}
    return _rank([values[m] for m in [(), *[(s,) for s in symbols]]]) == 1 + len(symbols) and all(
        _rank([values[s,], other]) == 2 for s in symbols for m, other in values.items() if m != (s,)
    )


def _rank(rows: Sequence[Sequence[int]]) -> int:
    return int(np.linalg.matrix_rank(np.array(rows, float)))


def _monomials(symbols: Sequence[str]) -> list[Monomial]:
    """1, each symbol, its square, products of two, and products with one square."""
    single: list[Monomial] = [(s,) for s in symbols]
    pairs = [tuple(sorted(p)) for p in itertools.combinations_with_replacement(symbols, 2)]
    return [(), *single, *pairs]


def fit_polynomial(values: Sequence[Any], samples: Sequence[Sample]) -> Extent | None:
    """The integer polynomial that has `values` at `samples`, the simplest one; None if none has."""
    if all(v == values[0] for v in values):
        return int(values[0])
    symbols = sorted(samples[0])
    basis = _monomials(symbols)
    for size in range(1, min(len(basis), len(samples) - 1) + 1):
        for chosen in itertools.combinations(basis, size):
            found = _solve(values, samples, chosen)
            if found is not None:
                return found
    return None


def _solve(
    values: Sequence[Any], samples: Sequence[Sample], chosen: Sequence[Monomial]
) -> Extent | None:
    """The polynomial of exactly these monomials, with coefficients that are whole and not 0."""
    equations = [
        [*[_at(m, s) for m in chosen], int(v)] for s, v in zip(samples, values, strict=True)
    ]
    whole = _whole(equations)
    if whole is None or 0 in whole:
        return None
    total: Extent = 0
    for m, c in zip(chosen, whole, strict=True):
        total = c * _size(m) + total
    return total


def _whole(equations: list[list[int]]) -> list[int] | None:
    """The whole numbers c with sum(a * c) = b for each equation (a.., b); None if there are none,
    or others, too. Elimination that never divides: there is no rounding."""
    n = len(equations[0]) - 1
    for i in range(n):
        at = next((k for k in range(i, len(equations)) if equations[k][i]), None)
        if at is None:
            return None
        equations[i], equations[at] = equations[at], equations[i]
        pivot = equations[i]
        for k, row in enumerate(equations):
            if k != i and row[i]:
                equations[k] = [x * pivot[i] - y * row[i] for x, y in zip(row, pivot, strict=True)]
    found = [divmod(row[n], row[i]) for i, row in enumerate(equations[:n])]
    if any(rest for _, rest in found) or any(row[n] for row in equations[n:]):
        return None
    return [c for c, _ in found]


def _at(m: Monomial, sample: Sample) -> int:
    out = 1
    for s in m:
        out *= sample[s]
    return out


def number_fitted(values: Sequence[Any], samples: Sequence[Sample], dtype: Any) -> Any:
    """A number, `Size` or `Ratio` that has `values` at `samples`; None if none does."""
    if len({repr(v) for v in values}) == 1:
        return values[0]
    if all(float(v).is_integer() for v in values):
        whole = fit_polynomial([int(v) for v in values], samples)
        if whole is not None:
            return whole
    if dtype.kind != "f":
        return None
    near = 4 * np.finfo(dtype).eps
    for m in _monomials(sorted(samples[0]))[1:]:
        sizes = np.array([_at(m, s) for s in samples], np.float64)
        for over in (True, False):
            scales = np.array(values, np.float64) * (sizes if over else 1 / sizes)
            if np.abs(scales - scales[0]).max() <= near * abs(scales[0]):
                scale = sorted(scales.tolist())[len(scales) // 2]
                short = round(scale, 12)
                return Ratio(
                    short if abs(short - scale) <= near * abs(scale) else scale, _size(m), over
                )
    return None


def _size(m: Monomial) -> Extent:
    out: Extent = 1
    for s in m:
        out = Size.symbol(s) * out
    return out
