"""Lists of indices: of combinations, of triangles, of flat places along several axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.graph import variable
from chainrule.errors import ConfigError, DtypeError, ShapeError
from chainrule.ops.indexing.selection import take


def combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices of `r` elements of the vector `x`, in its order, one a row.

    Shapes: (n) -> (k, r) if r > 0; (n) -> (0).

    >>> cr.combinations(cr.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]], dtype=int64)
    """
    if x.ndim != 1:
        raise ShapeError(f"combinations: needs a vector, not shape {tuple(x.shape)}")
    if r < 0:
        raise ConfigError(f"combinations: r is at least 0, not {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(x.shape[0]), r)) if r else []
    return take(x, np.array(rows, np.int64).reshape((-1, r) if r else (0,)), axis=0)


def tril_indices(row: int, col: int, offset: int = 0) -> Any:
    """Row and column (int64) of each element on and below diagonal `offset` of a matrix.

    Shapes: -> (2, k).

    >>> cr.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]], dtype=int64)
    """
    return _triangle("tril_indices", row, col, np.tri(max(row, 0), max(col, 0), offset) == 1)


def triu_indices(row: int, col: int, offset: int = 0) -> Any:
    """Row and column (int64) of each element on and above diagonal `offset` of a matrix.

    Shapes: -> (2, k).

    >>> cr.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]], dtype=int64)
    """
    return _triangle("triu_indices", row, col, np.tri(max(row, 0), max(col, 0), offset - 1) == 0)


def _triangle(what: str, row: int, col: int, chosen: Any) -> Any:
    if row < 0 or col < 0:
        raise ShapeError(f"{what}: sizes must not be negative: {(row, col)}")
    return variable(np.stack(np.nonzero(chosen)).astype(np.int64))


def unravel_index(indices: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """For each axis of `shape` the indices of the places `indices` of the flat array.

    Shapes: (*i) -> [(*i)] with len(result) == len(shape).

    >>> cr.unravel_index(cr.tensor([5]), (2, 3))
    (tensor([1], dtype=int64), tensor([2], dtype=int64))
    """
    if indices.dtype.kind not in "iu":
        raise DtypeError(f"unravel_index: indices must be integers, not {indices.dtype}")
    sizes = tuple(shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"unravel_index: sizes must not be negative: {sizes}")
    steps = [math.prod(sizes[a + 1 :]) for a in range(len(sizes))]
    return tuple([indices // step % n for step, n in zip(steps, sizes, strict=True)])
