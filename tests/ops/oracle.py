"""Reverse mode written a second time, as plainly as possible: nested lists of numbers, recursion.

Knows nothing of the library. A number is a value and its (parent, slope) pairs; its derivative with
respect to a leaf is the sum over all paths of the product of slopes.
"""

from __future__ import annotations

import math
from collections.abc import Callable


class Number:
    """A value and what it was computed from."""

    def __init__(self, value: float, *parents: tuple[Number, float]) -> None:
        self.value = value
        self.parents = parents

    def slope(self, leaf: Number, known: dict[int, float]) -> float:
        """Derivative of this number with respect to `leaf`; `known` remembers what was found."""
        if self is leaf:
            return 1.0
        if id(self) not in known:
            known[id(self)] = sum(p.slope(leaf, known) * d for p, d in self.parents)
        return known[id(self)]


Grid = list[list[Number]]


def unary(f: Callable[[float], float], d: Callable[[float], float], x: Grid) -> Grid:
    return [[Number(f(n.value), (n, d(n.value))) for n in row] for row in x]


def binary(op: str, a: Grid, b: Grid) -> Grid:
    """Element by element; sizes of 1 are repeated."""
    rows, columns = max(len(a), len(b)), max(len(a[0]), len(b[0]))

    def at(x: Grid, i: int, j: int) -> Number:
        return x[i % len(x)][j % len(x[0])]

    def one(x: Number, y: Number) -> Number:
        if op == "add":
            return Number(x.value + y.value, (x, 1.0), (y, 1.0))
        if op == "sub":
            return Number(x.value - y.value, (x, 1.0), (y, -1.0))
        return Number(x.value * y.value, (x, y.value), (y, x.value))

    return [[one(at(a, i, j), at(b, i, j)) for j in range(columns)] for i in range(rows)]


def sin(x: Grid) -> Grid:
    return unary(math.sin, math.cos, x)


def tanh(x: Grid) -> Grid:
    return unary(math.tanh, lambda v: 1 - math.tanh(v) ** 2, x)


def transpose(x: Grid) -> Grid:
    return [list(column) for column in zip(*x, strict=True)]


def total(numbers: list[Number]) -> Number:
    return Number(sum(n.value for n in numbers), *[(n, 1.0) for n in numbers])


def sum_rows(x: Grid) -> Grid:
    return [[total(column) for column in transpose(x)]]


def largest(x: Grid) -> Grid:
    """The largest of each row, as a column; equal ones share."""
    out: Grid = []
    for row in x:
        top = max(n.value for n in row)
        tied = [n for n in row if n.value == top]
        out.append([Number(top, *[(n, 1 / len(tied)) for n in tied])])
    return out


def matmul(a: Grid, b: Grid) -> Grid:
    return [[total([binary("mul", [[x]], [[y]])[0][0] for x, y in zip(row, column, strict=True)])
             for column in transpose(b)] for row in a]  # fmt: skip


def flip(x: Grid) -> Grid:
    return [row[::-1] for row in x]


def pick(x: Grid, places: list[int]) -> Grid:
    return [x[i % len(x)] for i in places]
