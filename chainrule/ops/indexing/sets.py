"""Sets of elements: which are unique, which occur in another array.

How many elements are unique depends on values, which must be known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.engine.graph import Variable, value_of
from chainrule.engine.op import Spec
from chainrule.engine.provenance import location, source_quote, user_line
from chainrule.errors import TraceError
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.selection import take
from chainrule.ops.indexing.sorting import searchsorted, sort
from chainrule.ops.shapes.shaping import astype, flatten, normalize_axis, reshape


class UniqueAll(NamedTuple):
    """Unique values, their first places, which of them each element is, how often each occurs."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Unique values and how often each occurs."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Unique values and which of them each element is."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any) -> UniqueAll:
    """The unique elements of the flat `x`, sorted; where each stands first; inverse; counts.

    Shapes: (*s) -> (k), (k), (*s), (k).
    values, indices and counts have one axis, inverse_indices the shape of `x`. Each NaN is unique.
    The gradient of a value goes to its first element. Values must be known: not inside `jit`.

    >>> cr.unique_all(cr.tensor([3, 1, 3])).counts
    tensor([1, 2], dtype=int64)
    """
    _, *found = np.unique_all(_known("unique", x))
    indices, inverse, counts = _alike(x, found)
    return UniqueAll(take(flatten(x), indices, axis=0), indices, inverse, counts)


def _known(what: str, x: Any) -> Any:
    """The values of `x`, which must not be traced."""
    value = value_of(x)
    if isinstance(value, Spec):
        line = user_line()
        raise TraceError(
            f"{what} at {location(*line)}: how many values {value} has is not known while "
            f"it is traced; call it outside{source_quote(*line)}"
        )
    return value


def _alike(x: Any, arrays: Sequence[Any]) -> list[Any]:
    """The arrays, as variables if x is one."""
    return [type(x)(a) for a in arrays] if isinstance(x, Variable) else list(arrays)  # type: ignore[call-arg]


def unique_values(x: Any) -> Any:
    """The unique elements of the flat `x`, sorted. The gradient goes to the first of equals.

    Shapes: (*s) -> (k).

    >>> cr.unique_values(cr.tensor([3, 1, 3]))
    tensor([1, 3], dtype=int64)
    """
    return unique_all(x).values


def unique_counts(x: Any) -> UniqueCounts:
    """The unique elements of the flat `x`, sorted, and how often each occurs (int64).

    Shapes: (*s) -> (k), (k).

    >>> cr.unique_counts(cr.tensor([3, 1, 3])).values
    tensor([1, 3], dtype=int64)
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any) -> UniqueInverse:
    """The unique elements of the flat `x`, sorted, and which each element is (shape of `x`).

    Shapes: (*s) -> (k), (*s).

    >>> cr.unique_inverse(cr.tensor([3, 1, 3])).inverse_indices
    tensor([1, 0, 1], dtype=int64)
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_consecutive(
    x: Any,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """`x` without the elements (along `axis`, the slices) that equal the one before them.

    Shapes: (*s) -> (k) if axis is None; (*s, axis: n) -> (*s, axis: k).
    Without `axis`, of the flat array. With `return_inverse` also which run each element is in (of
    the shape of x, or along `axis`), with `return_counts` the length of each run: then a tuple. The
    gradient goes to the first of each run. Values must be known: not inside `jit`.

    >>> cr.unique_consecutive(cr.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1], dtype=int64)
    """
    value = _known("unique_consecutive", x)
    place = 0 if axis is None else normalize_axis(axis, x.ndim)
    rows = value.reshape(-1) if axis is None else np.moveaxis(value, place, 0)
    n = rows.shape[0]
    rows = rows.reshape(n, math.prod(rows.shape[1:]))
    new = np.ones(n, bool)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    inverse = np.cumsum(new) - 1
    counts = np.diff([*starts, n]).astype(np.int64)
    starts, inverse, counts = _alike(x, [starts, inverse, counts])
    found = [take(flatten(x) if axis is None else x, starts, axis=place)]
    if return_inverse:
        found.append(reshape(inverse, tuple(x.shape)) if axis is None else inverse)
    if return_counts:
        found.append(counts)
    return found[0] if len(found) == 1 else tuple(found)


def isin(x1: Any, x2: Any, *, invert: bool = False) -> Any:
    """Which elements of `x1` are elements of `x2` (with `invert`, which are not): bools.

    Shapes: (*s), (*t) -> (*s).
    Either may be a number. NaN is an element of nothing.

    >>> cr.isin(cr.tensor([1, 2, 3]), cr.tensor([2, 3]))
    tensor([False,  True,  True], dtype=bool)
    """
    x1, x2 = [x if hasattr(x, "dtype") else np.asarray(x) for x in (x1, x2)]
    dtype = np.result_type(x1.dtype, x2.dtype)
    x1, every = astype(x1, dtype), sort(flatten(astype(x2, dtype)))
    n = int(every.shape[0])
    if n == 0:
        found = ew.logical_and(x1 != x1, x1 == x1)  # nothing is
    else:
        at = ew.at_most(searchsorted(every, x1), n - 1)
        found = ew.equal(take(every, flatten(at), axis=0).reshape(x1.shape), x1)
    return ew.logical_not(found) if invert else found
