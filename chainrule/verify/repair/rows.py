"""Rows of the tables of terms and factors, as functions of arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

from chainrule.verify.repair.scene import Shape


@cache
def row_of(row: str, axes: str = "") -> Callable[..., Any]:
    """A row as a function of an expression `e` and a named array `a`; `axes` are the arguments of
    its reduction. Only rows of the tables come here."""
    return eval(f"lambda e, a: {row.format(e='e', a='a', ax=axes)}")


def axes_of(shape: Shape) -> list[int | tuple[int, ...]]:
    """Axes, and sets of axes, along which one sums."""
    ndim = len(shape)
    one: list[int | tuple[int, ...]] = [-1, *range(ndim - 1)] if ndim else []
    most = list(itertools.combinations(range(ndim), ndim - 1)) if ndim > 2 else []
    return [*one, *most, *([tuple(range(ndim))] if ndim > 1 else [])]
