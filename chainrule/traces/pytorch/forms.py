"""What calls of PyTorch's compute, in symbols, and which letters their axes have.

| call | its derivative |
|---|---|
| a product of matrices or vectors | `Product`, by its letters; a matrix that is added, `Factor` |
| elementwise, with a row of the op table | `Factor`, by the row's partial derivative |

What a form says is compared with the node's own rule before it is used (see `locals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.errors import ChainruleError
from chainrule.ops import families
from chainrule.ops.families import Elementwise
from chainrule.traces.local_derivatives.formulas import formula_of
from chainrule.traces.local_derivatives.jacobians import local_of
from chainrule.traces.pytorch.calls import TorchCall
from chainrule.traces.trace import NO_FACTOR, Factor, Local, Product

Letters = tuple[tuple[str, str], str]
_PRODUCTS: Mapping[str, Letters] = {
    "mm": (("ab", "bc"), "ac"),
    "bmm": (("dab", "dbc"), "dac"),
    "mv": (("ab", "b"), "a"),
    "dot": (("a", "a"), ""),
}
"""A letter for each axis of the two factors, and of the result."""
_SUMS = {"addmm": "mm", "baddbmm": "bmm", "addmv": "mv"}
"""Products with something added, which is their first operand: c + a @ b."""
_RULES = {
    "mm": ("g @ bᵀ", "aᵀ @ g"),
    "bmm": ("g @ bᵀ", "aᵀ @ g"),
    "mv": ("outer(g, b)", "aᵀ @ g"),
    "dot": ("g * b", "g * a"),
}


def in_order_of_factors(call: TorchCall) -> TorchCall:
    """The call with its operands as a trace has them: factors before what is added."""
    if call.name not in _SUMS:
        return call
    return replace(call, operands=[*call.operands[1:], call.operands[0]])


def row_of(call: TorchCall, count: int) -> Elementwise | None:
    """The row of the op table that has the call's name and takes as many numbers."""
    rows: Mapping[str, Any] = families.rows
    row = rows.get(call.name)
    fits = isinstance(row, Elementwise) and len(row.partials) == count
    return row if fits and not call.settings else None


def formula_of_call(name: str, call: TorchCall | None, count: int) -> str:
    """The value in symbols: `a @ b + c`, say."""
    if call is not None:
        if name in _PRODUCTS:
            return "a @ b"
        if name in _SUMS:
            return "a @ b + c"
        if name == "t":
            return "xᵀ"
        row = row_of(call, count)
        if row is not None:
            return formula_of(row, count)
    names = ("x",) if count == 1 else ("a", "b", "c", "d")[:count]
    return f"{name}({', '.join(names)}{', …' if count > 4 else ''})"


def stated_form(call: TorchCall, place: int, xs: Sequence[Any], y: Any) -> Local | None:
    """The form that letters or the op table state for input `place`; None where neither does."""
    product = _SUMS.get(call.name, call.name)
    if product in _PRODUCTS:
        return None if call.settings else _product(call.name, product, place)
    row = row_of(call, len(xs))
    if row is None or not all(isinstance(x, np.ndarray) for x in (*xs, y)):
        return None
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(row.eval(*xs))
    except (ChainruleError, TypeError, ValueError):
        return None
    same = value.shape == y.shape and np.allclose(value, y, 1e-3, 1e-6, equal_nan=True)
    local = local_of(row, place, xs, y) if same else None
    return local if isinstance(local, Factor) else None


def _product(name: str, product: str, place: int) -> Local:
    factors, out = _PRODUCTS[product]
    if place == 2:
        return Factor(np.ones(()), "1")
    letters = (*factors, NO_FACTOR) if name in _SUMS else factors
    return Product(letters, out, place, _RULES[product][place])
