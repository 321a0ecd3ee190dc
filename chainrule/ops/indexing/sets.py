"""Sets of elements: which are unique, which occur in another array.

How many elements are unique depends on values, which must be known.
"""

from __future__ import annotations

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
from chainrule.ops.shapes.shaping import astype, flatten


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
    """
    value = value_of(x)
    if isinstance(value, Spec):
        line = user_line()
        raise TraceError(
            f"unique at {location(*line)}: how many values {value} has is not known while "
            f"it is traced; call it outside{source_quote(*line)}"
        )
    _, *found = np.unique_all(value)
    indices, inverse, counts = _alike(x, found)
    return UniqueAll(take(flatten(x), indices, axis=0), indices, inverse, counts)


def _alike(x: Any, arrays: Sequence[Any]) -> list[Any]:
    """The arrays, as variables if x is one."""
    return [type(x)(a) for a in arrays] if isinstance(x, Variable) else list(arrays)  # type: ignore[call-arg]


def unique_values(x: Any) -> Any:
    """The unique elements of the flat `x`, sorted. The gradient goes to the first of equals.

    Shapes: (*s) -> (k).
    """
    return unique_all(x).values


def unique_counts(x: Any) -> UniqueCounts:
    """The unique elements of the flat `x`, sorted, and how often each occurs (int64).

    Shapes: (*s) -> (k), (k).
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any) -> UniqueInverse:
    """The unique elements of the flat `x`, sorted, and which each element is (shape of `x`).

    Shapes: (*s) -> (k), (*s).
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def isin(x1: Any, x2: Any, *, invert: bool = False) -> Any:
    """Which elements of `x1` are elements of `x2` (with `invert`, which are not): bools.

    Shapes: (*s), (*t) -> (*s).
    Either may be a number. NaN is an element of nothing.
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
