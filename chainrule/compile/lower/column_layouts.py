"""Stacks of small matrices whose rows are reduced, laid out column by column.

The scores of attention over a few positions, (.., m, n), have rows that do not fill a vector, and
each row is folded several times: its maximum, its sum. Stored row by row, a kernel has one row at a
time in a vector, folds its lanes into one number, and waits for that. Stored column by column,
neighbouring rows lie side by side: a vector has a number of each of many rows, and a fold is one
instruction for all of them.

So all such arrays that one product and what follows it read and write are laid out by columns
together, or none. The products that make them are computed transposed (`matmul.py`); the loops
over them have lanes along their rows (`row_kernels.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import final

from chainrule.compile.graph.sizes import Extent, typical
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import ROOM, Buffer, strides_of
from chainrule.compile.loops.views import View, is_view, source
from chainrule.compile.lower import head_layout
from chainrule.compile.lower.materialize import is_computed, is_product
from chainrule.compile.lower.op_rules import is_map, reduction
from chainrule.compile.target import Target

VECTORS = 8
"""Such a matrix has, typically, fewer vectors in a row than that."""


def by_columns(
    free: Collection[Term],
    placed: Collection[Term],
    uses: Mapping[Term, Sequence[Term]],
    patterns: Collection[Term],
    is_suited: Callable[[Term], bool],
    lanes: Callable[[int], int],
) -> tuple[set[Term], set[Term]]:
    """Those of the terms `free` that are to be laid out by columns, and those of them in which
    heads are innermost. They get memory, and have no place yet; `placed` have one. `uses` are the
    readers of each term, `patterns` the constants that have a formula; `is_suited` says of a
    product whether it may be computed transposed, `lanes` how many numbers of so many bytes a
    vector has."""
    found: set[Term] = set()
    heads: set[Term] = set()
    others = set(placed)
    for t in free:
        if is_product(t) and is_suited(t) and t not in found and t not in others:
            region = _Region(t, uses, patterns)
            rows = region.is_read_by_rows(others)
            rows = rows and all(map(is_suited, filter(is_product, region.terms)))
            (found if rows else others).update(region.terms)
            if rows and head_layout.fit(region.terms, uses, patterns, lanes):
                heads |= region.terms
    return found & set(free), heads & set(free)


def is_small(t: Term, target: Target) -> bool:
    """Whether `t` has rows and columns of unknown length that are typically short. A row of known
    length is in registers as it is (see `llvm/short_rows.py`)."""
    most = VECTORS * target.lanes(t.dtype.itemsize)
    return len(t.shape) > 1 and all(
        not isinstance(n, int) and typical(n) < most for n in t.shape[-2:]
    )


def column_memory(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """The shape of memory for a stack of matrices, column by column. There is room after each:
    where the size is a power of two, neighbours in a row would be in the same part of a cache."""
    *stack, rows, columns = shape
    return (*stack, columns, rows + ROOM)


def by_column(b: Buffer) -> View:
    """The stack that lies in such memory."""
    *strides, step, _ = strides_of(b.shape)
    return View(b, 0, (*strides, 1, step))


@final
class _Region:
    """A product, and all arrays of its shape that are computed from it, or with those, element by
    element."""

    def __init__(
        self, product: Term, uses: Mapping[Term, Sequence[Term]], patterns: Collection[Term]
    ) -> None:
        self.shape, self.terms = product.shape, {product}
        self._uses, self._patterns = uses, patterns
        self._folded = False

    def is_read_by_rows(self, others: Collection[Term]) -> bool:
        """Whether rows are folded, and all that is read and written goes along rows or columns. Of
        `others` it is known that they are in no such region."""
        waiting = [*self.terms]
        while waiting:
            t = waiting.pop()
            if t in others or not (is_product(t) or is_map(t)):
                return False
            near: list[Term | None] = [*self._readers(t)]
            if not is_product(t):
                near += self._arguments(t)
            for x in near:
                if x is None:
                    return False
                if x not in self.terms:
                    self.terms.add(x)
                    waiting.append(x)
        return self._folded

    def _readers(self, t: Term) -> Iterator[Term | None]:
        """The readers of `t` in the region; None for one that reads it in another way."""
        for u in self._uses.get(t, ()):
            red = reduction(u)
            by_rows = red is not None and red.axes == (len(self.shape) - 1,) and red.keepdims
            self._folded |= by_rows
            if t in u.args and is_map(u) and u.shape == self.shape:
                yield u
            elif t not in u.args or not (by_rows or is_product(u)):
                yield None

    def _arguments(self, t: Term) -> Iterator[Term | None]:
        """The arguments of the map `t` in the region; None for one that is a matrix of its own.
        What is alike in all rows or all columns, or a formula, may lie anywhere."""
        for a in t.args:
            x = a
            while is_view(x) and x.shape == self.shape:  # broadcast
                x = x.args[0]
            if x is a and is_computed(x) and x.shape == self.shape:
                yield x
            elif len(x.shape) > 1 and 1 not in x.shape[-2:] and source(x) not in self._patterns:
                yield None
