"""Lines and ranges in words: what every explanation is made of."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any, Self, TypeGuard, cast

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.engine.node import Node
from chainrule.engine.op import Array, Spec
from chainrule.engine.source_text import display_line, source_line


def quote(where: str) -> str:
    """A place `file:line`, followed by the line itself where that is known."""
    file, _, line = where.rpartition(":")
    text = source_line(file, int(line)).strip()
    where = display_line(where)
    return f"{where}:  {text}" if text else where


def every_node() -> list[Node]:
    """All nodes that are alive, of any graph."""
    # by type(): isinstance would ask objects of other packages for their class, which can warn
    return [n for n in gc.get_objects() if type(n) is Node]


def plural(count: int, what: str) -> str:
    """`1 node`, `2 nodes`.

    >>> plural(2, "node")
    '2 nodes'
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def is_array(x: Any) -> TypeGuard[Array]:
    """Whether `x` is an array, rather than a number, a `Spec`, a tuple of arrays."""
    return isinstance(x, np.ndarray)


def outputs_of(x: Any) -> tuple[Any, ...]:
    """The outputs of an op that has several, or the only one, in a tuple."""
    return cast(tuple[Any, ...], x) if isinstance(x, tuple) else (x,)


def bad(x: Any, *, inf: bool) -> Any:
    """Where an array or number is NaN or, with `inf`, infinite: bools of its shape."""
    array = np.asarray(x)
    if array.dtype.kind not in INEXACT:
        return np.zeros(array.shape, bool)
    return ~np.isfinite(array) if inf else np.isnan(array)


@dataclass(frozen=True)
class Range:
    """What the numbers of an array are like: its finite ones lie in low..high."""

    what: str
    """Dtype and shape."""
    size: int
    low: Any
    high: Any
    nans: int
    infs: int

    @classmethod
    def of(cls, x: Any) -> Self:
        """The range of an array or a number; of a `Spec`, whose numbers were not kept, none."""
        if isinstance(x, Spec):
            return cls(f"{x.dtype} {x.shape}, not kept", 0, None, None, 0, 0)
        array: Any = np.asarray(x)
        numbers = array.real if array.dtype.kind == "c" else array
        numbers = numbers.astype(int) if array.dtype.kind == "b" else numbers
        what = f"{array.dtype} {array.shape}" if is_array(x) else "the number"
        nans = int(bad(numbers, inf=False).sum())
        infs = int(bad(numbers, inf=True).sum()) - nans
        finite = numbers[~bad(numbers, inf=True)]
        low, high = (finite.min(), finite.max()) if finite.size else (None, None)
        return cls(what, array.size, low, high, nans, infs)

    def __str__(self) -> str:
        parts: list[str] = []
        if self.low is not None:
            same = self.low == self.high
            numbers = f"{self.low:g}" if same else f"{self.low:g} to {self.high:g}"
            everywhere = " everywhere" if same and self.size > 1 else ""
            parts.append(numbers + (" where finite" if self.nans + self.infs else everywhere))
        for count, word in ((self.nans, "NaN"), (self.infs, "infinite")):
            if count:
                parts.append(word if self.size == 1 else f"{count:,} of {self.size:,} {word}")
        return f"{self.what}: {', '.join(parts)}" if parts else self.what
