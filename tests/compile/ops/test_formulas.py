"""A row whose value is a formula is compiled by it: nothing else says what its code is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.graph.rules.elementwise_decompositions import ROWS
from chainrule.compile.graph.rules.formulas import formula
from chainrule.compile.graph.rules.rewriter import Rewriter
from chainrule.compile.graph.terms import Terms
from chainrule.compile.llvm import functions as llvm_functions
from chainrule.compile.loops.functions import BASIC, MATHEMATICS, is_function
from chainrule.compile.mathlib.table import TABLE
from chainrule.ops import elementwise as ew
from chainrule.ops.families import elementwise, rows
from chainrule.ops.values import special_functions
from chainrule.ops.values.floating import floating
from tests.compile.ops.test_ops import EAGER

F64 = np.dtype(np.float64)


def _late(x: Any) -> Any:
    y = np.exp(-x)
    y += 1
    y *= y
    return np.where(x < 0, 1 / y, np.clip(x, 0, 2) + 1 / y)


FORMULAS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "bell": (lambda x: 1 / (1 + x * x), lambda y, x: -2 * x * y * y),
    "decay": (lambda x: np.exp(-np.abs(x)), lambda y, x: -ew.sign(x) * y),
    "steps and branches": (_late, lambda x: x),
    "in floats": (floating(lambda x: np.sqrt(x * x + np.ones_like(x))), lambda y, x: x / y),
    "one's own minimum": (lambda x: np.minimum(x, np.full_like(x, 0.5)), lambda x: x < 0.5),
}
OTHERS: dict[str, Callable[..., Any]] = {
    "a branch": lambda x: x if x.sum() > 0 else -x,
    "elements": lambda x: np.asarray(x) * x.reshape(-1)[:1],
    "a table": lambda x: np.interp(x, [0.0, 1.0], [0.0, 2.0]),
    "a reduction": lambda x: x - np.add.reduce(x),
}


@pytest.fixture
def row() -> Iterator[Callable[..., Any]]:
    """Makes rows of the op table, which go when the test ends."""
    before = dict(rows)
    yield elementwise
    rows.clear()
    rows.update(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_new_row_is_compiled_by_itself(name: str, dtype: type, row: Callable[..., Any]):
    value, slope = FORMULAS[name]
    op = row(value, slope, name="new_row")
    x = cr.tensor(np.linspace(-3, 3, 41).astype(dtype))
    f = cr.jit(lambda x: (op(x), cr.grad(lambda x: cr.sum(op(x)))(x)))
    eps = 16 * np.finfo(dtype).eps
    want = op(x), cr.grad(lambda x: cr.sum(op(x)))(x)
    for got, y in zip(f(x), want, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.numpy(), y.numpy(), rtol=eps, atol=eps)
    assert "eager" not in str(f.explain(repeats=1))


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_formula_is_called(name: str, row: Callable[..., Any]):
    op = row(OTHERS[name], lambda x: 1, name="new_row")
    x = cr.tensor(np.linspace(-1, 1, 5))
    f = cr.jit(lambda x: op(x) * 2.0)
    np.testing.assert_array_equal(f(x).numpy(), op(x).numpy() * 2.0)
    assert "eager" in str(f.explain(repeats=1))


def test_every_target_has_code_for_the_language():
    assert set(llvm_functions.ROWS) == BASIC
    assert set(TABLE) == MATHEMATICS


def test_every_row_has_code_a_formula_or_a_reason():
    for label, op in rows.items():
        if is_function(label, F64) or label in ROWS or label in EAGER:
            continue
        terms = Terms()
        value = special_functions.FORMULAS.get(label, op.fn)
        count = len(inspect.signature(value).parameters)
        xs = [terms.input(i, (3,), F64) for i in range(count)]
        assert formula(Rewriter(terms, {}), op, xs) is not None, label
    for label in ROWS:
        assert not is_function(label, F64), f"{label} has code: the row is superfluous"
