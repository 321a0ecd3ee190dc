"""A row whose value is a formula says with it what its code is: the formula is run on terms.

A row's value is written in NumPy. Most take their arguments through nothing but arithmetic and
NumPy's functions of elements, each of which is a row, too. Called with a `Formula` in the place of
an array, such a value leaves the terms that it is made of. So a new row of the op table is compiled
as it stands. What branches on elements, or writes into arrays, is no formula: it is called as it
is.
"""

# NumPy's protocols hand over what they have been given: anything.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from chainrule.compile.graph.rules.rewriter import Rewriter
from chainrule.compile.graph.terms import Term
from chainrule.ops import elementwise as ew
from chainrule.ops.families import Elementwise, rows
from chainrule.ops.indexing.selection import Where
from chainrule.ops.values.special_functions import FORMULAS

_SCIPY: Final = {"gammaln": "lgamma", "psi": "digamma"}
"""What SciPy calls rows by another name."""


class NoFormulaError(Exception):
    """What is computed depends on elements in a way that terms do not say."""


@final
class Formula(NDArrayOperatorsMixin):
    """A term that NumPy takes for an array."""

    def __init__(self, r: Rewriter, term: Term, of: Elementwise) -> None:
        """`of` is the row whose value is sought."""
        self._r, self.term, self._of = r, term, of
        self.dtype, self.shape = term.dtype, term.shape
        self.ndim = len(term.shape)

    def __array_ufunc__(self, ufunc: Any, method: str, *xs: Any, **more: Any) -> Any:
        more.pop("out", None)  # it is what is returned
        row = _row_of(ufunc)
        if method != "__call__" or more or row is None or row is self._of:
            raise NoFormulaError(ufunc.__name__)
        return self._op(row, *xs)

    def __array_function__(self, f: Any, types: Any, xs: Sequence[Any], more: Any) -> Any:
        if f not in _FUNCTIONS:
            raise NoFormulaError(f.__name__)
        return _FUNCTIONS[f](self, *xs, **more)

    def __bool__(self) -> bool:
        raise NoFormulaError("a branch")

    def astype(self, dtype: Any, copy: bool = True) -> Formula:
        """As a `dtype`."""
        return Formula(self._r, self._r.cast(self.term, np.dtype(dtype)), self._of)

    def _op(self, op: Any, *xs: Any) -> Formula:
        return Formula(self._r, self._r.op(op, *[self._term(x) for x in xs]), self._of)

    def _term(self, x: Any) -> Term:
        return x.term if isinstance(x, Formula) else self._r.constant(x)

    def constant(self, x: Any) -> Formula:
        """A number, or an array that is known."""
        return Formula(self._r, self._r.constant(x), self._of)

    def where(self, *xs: Any) -> Formula:
        """The second where the first holds, the third elsewhere."""
        return self._op(Where(), *xs)

    def clip(self, low: Any, high: Any) -> Formula:
        """Between two bounds."""
        return self._op(ew.at_least, self._op(ew.at_most, self, high), low)


def _like(x: Any) -> Any:
    """An array of the same dtype."""
    return np.empty((), x.dtype) if isinstance(x, Formula) else x


_FUNCTIONS: Final[dict[Any, Callable[..., Any]]] = {
    np.where: lambda f, *xs: f.where(*xs),
    np.clip: lambda f, x, low, high: x.clip(low, high),
    np.full_like: lambda f, x, value: f.constant(np.asarray(value, x.dtype)),
    np.ones_like: lambda f, x: f.constant(np.ones((), x.dtype)),
    np.zeros_like: lambda f, x: f.constant(np.zeros((), x.dtype)),
    np.iscomplexobj: lambda f, x: x.dtype.kind == "c",
    np.result_type: lambda f, *xs: np.result_type(*map(_like, xs)),
}
"""NumPy's functions that formulas use beside those of elements."""


@cache
def _by_ufunc() -> dict[Any, Elementwise]:
    found = {inspect.unwrap(row.fn): row for row in rows.values()}
    return {f: row for f, row in found.items() if isinstance(f, np.ufunc)}


def _row_of(ufunc: Any) -> Elementwise | None:
    """The row whose value NumPy's or SciPy's function is."""
    name: str = ufunc.__name__
    return _by_ufunc().get(ufunc) or rows.get(_SCIPY.get(name, name))


def formula(r: Rewriter, op: Elementwise, xs: Sequence[Term]) -> Term | None:
    """The value of a row as terms; None where it is no formula of its arguments."""
    f: Any = FORMULAS.get(op.label) or inspect.unwrap(op.fn)
    if isinstance(f, np.ufunc):
        return None
    try:
        y = f(*[Formula(r, x, op) for x in xs])
    except Exception:  # a formula of the user's may do anything: then it is called as it is
        return None
    return y.term if isinstance(y, Formula) else None
