"""Formulas of the op table as expressions of the loop language."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from chainrule.compile.loops.expressions import Expr, Exprs
from chainrule.compile.loops.functions import is_function
from chainrule.compile.scalars.formulas import Number
from chainrule.compile.scalars.machine import library_value

F64, INT, BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(bool)
_COMPARISONS = {
    "==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater",
    ">=": "greater_equal",
}  # fmt: skip


@final
class Written(Number):
    """A number as an expression."""

    __slots__ = ("e", "make")

    def __init__(self, make: Exprs, e: Expr) -> None:
        self.make = make
        self.e = e

    def plain(self, x: float) -> Written:
        """A literal."""
        return Written(self.make, self._of(x))

    def _of(self, x: Any) -> Expr:
        return x.e if isinstance(x, Written) else self.make.lit(float(x), F64)

    def _fn(self, name: str, *xs: Any) -> Written:
        return Written(self.make, self.make.fn(name, *map(self._of, xs)))

    def arithmetic(self, name: str, a: Any, b: Any) -> Written:
        """One operation."""
        return self._fn(name, a, b)

    def negative(self) -> Written:
        """This, with the other sign."""
        return self._fn("neg", self)

    def is_(self, sign: str, x: Any) -> Expr:
        """A comparison."""
        return self.make.fn(_COMPARISONS[sign], self.e, self._of(x))

    def either(self, bit: Any, other: Any) -> Expr:
        """Whether one of two holds."""
        return self.make.fn("logical_or", bit, other)

    def select(self, bit: Any, a: Any, b: Any) -> Written:
        """a where the bit is set, else b."""
        e = self.make.fn("where", bit, self._of(a), self._of(b))
        return Written(self.make, e)

    def call(self, name: str, *xs: Any) -> Written:
        """A function that the loop language has, too."""
        label = "abs" if name == "fabs" else name
        if not is_function(label, F64):
            raise TypeError(f"{name} is no function of the loop language")
        es = list(map(self._of, xs))
        if all(e.kind == "lit" for e in es):  # as it would be computed in each run
            return self.plain(library_value(name, [e.of for e in es]))
        return self._fn(label, *xs)
