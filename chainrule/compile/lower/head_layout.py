"""Attention's heads of few features: heads and positions in the lanes of one vector.

The scores of H heads over T positions, (.., H, T, S), where heads and features, H D, fill a vector
at most. One head after the other, a vector of T neighbours is not full, and each product has loops
of a few iterations. Here the heads are the innermost axis: a column of all heads' scores, H T
numbers, lies side by side, so that a vector is full but for the last one of a column. A fold of
rows stays what it was, one instruction for many rows.

The loops over such arrays go along rows and heads (`row_kernels.py`). The products that make and
read them are in `head_products.py`.

Notation: h a head, t a row, s a column, d a feature; H T S D their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import ROOM, Buffer, strides_of
from chainrule.compile.loops.views import View, is_view, source
from chainrule.compile.lower.materialize import is_computed, is_product
from chainrule.compile.lower.matmul_choice import sizes
from chainrule.compile.lower.op_rules import is_map, reduction

# --- which --------------------------------------------------------------------------------------


def fit(
    terms: Collection[Term],
    uses: Mapping[Term, Sequence[Term]],
    patterns: Collection[Term],
    lanes: Callable[[int], int],
) -> bool:
    """Whether all of these `terms`, products and maps of one shape, can be laid out so. `lanes` is
    how many numbers of so many bytes a vector has."""
    shape, dtype = next((t.shape, t.dtype) for t in terms if is_product(t))
    heads = shape[-3] if len(shape) > 2 else 1
    if not isinstance(heads, int) or heads < 2 or not _is_power(heads):
        return False
    most = lanes(dtype.itemsize) // heads  # features
    folded = row_values(terms, uses)
    return all(
        t.dtype == dtype or t.dtype.kind == "b" for t in terms
    ) and all(
        _is_product_of_few(t, shape, most)
        if is_product(t)
        else _reads_rows(t, terms, folded, patterns)
        for t in terms
    ) and all(
        _is_product_with_few(u, terms, shape, most)
        for t in terms
        for u in uses.get(t, ())
        if is_product(u) and u not in terms
    )  # fmt: skip


def _is_power(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _is_few(n: Extent, most: int) -> bool:
    return isinstance(n, int) and 1 < n <= most and _is_power(n)


def _is_product_of_few(t: Term, shape: Sequence[Extent], most: int) -> bool:
    """Whether the sums of a product have few terms, and each matrix has a pair."""
    alike = all(x.shape[:-2] == (*shape[:-2],) and x.dtype == t.dtype for x in t.args)
    return alike and _is_few(sizes(t)[2], most)


def _is_product_with_few(
    u: Term, terms: Collection[Term], shape: Sequence[Extent], most: int
) -> bool:
    """Whether `u` is the product of one of the terms and a matrix of few columns, a pair each."""
    a, b = u.args
    alike = a in terms and b not in terms and all(x.shape[:-2] == (*shape[:-2],) for x in (b, u))
    return alike and _is_few(u.shape[-1], most) and a.dtype == b.dtype == u.dtype


def _reads_rows(
    t: Term, terms: Collection[Term], folded: Collection[Term], patterns: Collection[Term]
) -> bool:
    """Whether what a map reads beside the terms is alike in all rows and heads, a formula, or a
    value of each row."""
    for a in t.args:
        x = a
        while is_view(x) and x.shape == t.shape:  # broadcast
            x = x.args[0]
        if x in terms or x in folded or source(x) in patterns:
            continue
        if any(n != 1 for n in x.shape[-3:-1]):
            return False
    return True


def row_values(terms: Collection[Term], uses: Mapping[Term, Sequence[Term]]) -> set[Term]:
    """The folds of the terms' rows, and what is computed of these, value by value."""
    found: set[Term] = set()
    waiting = [u for t in terms for u in uses.get(t, ()) if reduction(u) is not None]
    while waiting:
        t = waiting.pop()
        if t not in found:
            found.add(t)
            more = uses.get(t, ())
            waiting += [u for u in more if is_map(u) and is_computed(u) and u.shape == t.shape]
    return found


# --- where ----------------------------------------------------------------------------------------


def column_memory(shape: Sequence[Extent]) -> tuple[tuple[Extent, ...], Extent]:
    """The shape of memory for a stack of matrices, (.., H, T, S), and how long a column is."""
    *stack, heads, rows, columns = shape
    return (*stack, columns, heads * rows + ROOM), heads * rows


def by_head(b: Buffer, shape: Sequence[Extent]) -> View:
    """The stack that lies in such memory."""
    *strides, step, _ = strides_of(b.shape)
    return View(b, 0, (*strides, 1, shape[-3], step))


def row_strides(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """The strides of one value for each row of such a stack, (.., H, T, 1)."""
    *stack, heads, rows, _ = shape
    return (*[n * (heads * rows) for n in strides_of(stack)], 1, heads, 1)
