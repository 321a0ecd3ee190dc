"""Shards: which rows of a batch belong to which micro-batch, and to which worker.

Notation: B rows, M micro-batches, W workers. Micro-batch i has the rows from i * B // M to
(i + 1) * B // M, whoever computes it: so it has the same rows whatever W is. Worker r has the
micro-batches from r * M // W to (r + 1) * M // W.
"""

from __future__ import annotations

from typing import Any

from chainrule.errors import ShapeError
from chainrule.tree import flatten, tree_map


def cut(size: int, count: int, i: int) -> slice:
    """The i-th of `count` nearly equal parts of `size` things.

    >>> [cut(7, 3, i) for i in range(3)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 7, None)]
    """
    return slice(i * size // count, (i + 1) * size // count)


def rows(batch: Any) -> int:
    """How many rows the arrays of a tree have, along their first axes; the same for all."""
    leaves = flatten(batch)[0]
    shapes: list[tuple[int, ...]] = [tuple(getattr(x, "shape", ())) for x in leaves]
    if not shapes or not all(shapes):
        raise ShapeError(
            f"shard: a batch is a tree of arrays with rows along their first axes, not {shapes}"
        )
    if len({shape[0] for shape in shapes}) > 1:
        raise ShapeError(f"shard: the arrays of a batch have as many rows each, not {shapes}")
    return shapes[0][0]


def pick(batch: Any, part: slice) -> Any:
    """These rows of every array of a tree."""

    def rows_of(x: Any) -> Any:
        return x[part]

    return tree_map(rows_of, batch)
