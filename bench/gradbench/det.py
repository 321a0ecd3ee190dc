"""det: the determinant by expansion by minors, and its gradient.

Expanded along its first row, a minor of the last m rows is a signed sum over minors of the last
m - 1. There are only C(l, m) of those of m rows, so all of them are computed at once, one level
after the other: the expansion, with each minor computed once.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.problem import Function, Input, Jit, Problem, array

Table = np.ndarray[Any, Any]


@cache
def level(size: int, m: int) -> tuple[Table, Table, Table]:
    """Of each minor of m columns: its columns, the smaller minors without each, and the signs.

    Shapes (C(size, m), m), the same, (m).
    """
    place = {c: i for i, c in enumerate(combinations(range(size), m - 1))}
    columns = list(combinations(range(size), m))
    rest = [[place[c[:j] + c[j + 1 :]] for j in range(m)] for c in columns]
    return np.array(columns), np.array(rest), (-1.0) ** np.arange(m)


def determinant(a: Any) -> Any:
    """(l, l) -> ()."""
    size = a.shape[0]
    minors = a[size - 1]
    for m in range(2, size + 1):
        columns, rest, signs = level(size, m)
        minors = cr.sum(signs * cr.take(a[size - m], columns) * cr.take(minors, rest), axis=1)
    return minors[0]


def functions(jit: Jit) -> dict[str, Function]:
    return {"primal": jit(determinant), "gradient": jit(cr.grad(determinant))}


def read(message: Input) -> tuple[Any, ...]:
    return (array(message["A"]).reshape(message["ell"], message["ell"]),)


def make(rng: np.random.Generator, ell: int) -> Input:
    return {"A": rng.random(ell * ell), "ell": ell}


def write(args: tuple[Any, ...], name: str, result: Any) -> Any:
    return np.ravel(np.asarray(result)).tolist() if name == "gradient" else float(result)


PROBLEM = Problem("det", functions, read, make, ({"ell": 5}, {"ell": 11}), ("gradient",), write)
