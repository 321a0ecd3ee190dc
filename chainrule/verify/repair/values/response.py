"""What the elements of a value do to the gradients, and values that are moved in some turns."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from chainrule.verify.repair.values.watch import Visit, is_torch
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import LOOSE

Effect: TypeAlias = dict[int, Array]
"""What is added to each wrong gradient."""


@dataclass(frozen=True, eq=False)
class Response:
    """What the elements of a node's value do to the wrong gradients."""

    node: ast.expr
    values: tuple[Array, ...]
    """Those of all turns of a loop; a single one elsewhere."""
    columns: dict[int, Array]
    """For each wrong input: one column for each element, those of one turn after another."""
    visits: tuple[Visit, ...]
    """The values with the local names beside them."""
    needed: tuple[int, Array] | None = None
    """A turn of a loop in which it is known what has to be added to the value, and that."""

    @cached_property
    def flat(self) -> Array:
        """All values, one after the other."""
        return np.concatenate([v.reshape(-1) for v in self.values])

    def split(self, flat: Array) -> list[Array]:
        """Values that lie one after the other, each in its shape."""
        ends = np.cumsum([v.size for v in self.values])[:-1]
        pairs = zip(np.split(flat, ends), self.values, strict=True)
        return [p.reshape(v.shape) for p, v in pairs]

    def effect(self, step: Array) -> Effect:
        """What a change of the values adds to each wrong gradient."""
        return {i: c @ step.reshape(-1) for i, c in self.columns.items()}


def solve(columns: Sequence[Array], residuals: Sequence[Array]) -> tuple[Array, Array]:
    """The least step that brings about what is missing, and how far each of its elements is the
    only one that does: 1 if it is, 0 if it does not matter."""
    left, sizes, right = np.linalg.svd(np.concatenate(columns), full_matrices=False)
    kept = sizes > 1e-9 * sizes[0]
    turned = left[:, kept].T @ np.concatenate(residuals)
    return right[kept].T @ (turned / sizes[kept]), np.sum(right[kept] ** 2, axis=0)


def solvable(columns: list[Array], residuals: list[Array]) -> bool:
    """Whether one combination of columns gives all residuals."""
    if not columns:
        return False
    matrix, wanted = np.concatenate(columns), np.concatenate(residuals)
    found = np.linalg.lstsq(matrix, wanted, rcond=1e-9)[0]
    rest = float(np.linalg.norm(wanted - matrix @ found))
    return rest <= LOOSE * float(np.linalg.norm(wanted))


def is_in_span(columns: Array, residual: Array) -> bool:
    """Whether a combination of columns gives a residual."""
    return solvable([columns], [residual])


def in_iteration(turn: int, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What changes a value in one turn of a loop."""
    turns = itertools.count()
    return lambda value: change(value) if next(turns) == turn else value


def in_iterations(steps: Sequence[Array]) -> Callable[[Any], Any]:
    """What adds a step to a value in every turn, one after the other."""
    changes = itertools.cycle([adding(s, s.shape) for s in steps])
    return lambda value: next(changes)(value)


def unit(values: Sequence[Array], k: int) -> Callable[[Any], Any]:
    """What adds 1 to the k-th of all elements of the values of all turns."""
    for turn, value in enumerate(values):
        if k < value.size:
            step = np.zeros(value.size)
            step[k] = 1.0
            change = adding(step, value.shape)
            return change if len(values) == 1 else in_iteration(turn, change)
        k -= value.size
    raise IndexError(k)


def adding(step: Array, shape: tuple[int, ...]) -> Callable[[Any], Any]:
    """What adds a step to a value, be it an array or a tensor."""
    more = step.reshape(shape)

    def change(value: Any) -> Any:
        return value + (value.new_tensor(more) if is_torch(value) else more)

    return change
