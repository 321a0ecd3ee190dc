"""Values in one line: written out if they are small, otherwise mean, deviation and range."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from chainrule.page.graph.picture import number
from chainrule.traces.kept_values import is_array, summary
from chainrule.traces.trace import Kept, Summary

SMALL = 6
"""Up to this many elements an array is written out; above, it is summarised."""


def value_text(x: Kept) -> str:
    """A value in one line; empty where there is none.

    >>> value_text(np.array([[1.0, 2.5]]))
    '[[1, 2.5]]'
    """
    if x is None:
        return ""
    if isinstance(x, Summary):
        return _statistics(x)
    array: Any = x if is_array(x) else np.asarray(x)
    if array.ndim == 0:
        return number(array.item())
    if array.size == 0:
        return "empty"
    if array.size <= SMALL:
        return _list_text(array.tolist())
    if array.dtype.kind in "bc":
        return f"{array.size:,} elements"
    return _statistics(summary(array))


def _list_text(x: Any) -> str:
    if not isinstance(x, list):
        return number(x)
    return f"[{', '.join([_list_text(e) for e in cast(list[Any], x)])}]"


def _statistics(s: Summary) -> str:
    """`0.1 ± 1, −3 … 3`, of the finite elements, and how many are not."""
    size = math.prod(s.shape)
    count = size - s.not_finite
    bad = f"{s.not_finite:,} not finite"
    if not count:
        return bad
    square = (
        1 / count - (s.mean / s.norm) ** 2 if s.norm else 0.0
    )  # of the norm's, which may be huge
    deviation = s.norm * math.sqrt(max(square, 0.0))
    spread = f"{s.mean:.3g} ± {deviation:.2g}, {s.low:.3g} … {s.high:.3g}"
    text = (spread if s.low < s.high else f"all {s.low:.5g}").replace("-", "−")
    return text if count == size else f"{text}, {bad}"
