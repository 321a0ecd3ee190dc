"""Running sums, products and extrema: PyTorch's opinion, zeros, ties, infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ShapeError
from chainrule.ops.reductions import scan
from tests.ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp
from tests.ops.check import adjoint

X = generic(3, 4, 2)
ZEROS = X.copy()
ZEROS[:, 1], ZEROS[0, 3], ZEROS[2, 2, 0] = 0, 0, 0  # one, two or three zeros in a line

SMOOTH = [
    Pair(f"{ours.__name__}_{axis}", lambda x, f=ours, a=axis: f(x, axis=a), theirs, (x,))
    for axis in (0, 1, -1)
    for x in (X, ZEROS)
    for ours, theirs in (
        (scan.cumulative_sum, lambda x, a=axis: torch.cumsum(x, a)),
        (scan.cumulative_prod, lambda x, a=axis: torch.cumprod(x, a)),
        (scan.logcumsumexp, lambda x, a=axis: torch.logcumsumexp(x, a)),
        (lambda x, *, axis: scan.cummax(x, axis=axis)[0], lambda x, a=axis: torch.cummax(x, a)[0]),
        (lambda x, *, axis: scan.cummin(x, axis=axis)[0], lambda x, a=axis: torch.cummin(x, a)[0]),
    )
    if not (x is ZEROS and ours.__name__ == "<lambda>")  # ties: our own convention, below
]


@pytest.mark.parametrize("pair", SMOOTH, ids=str)
def test_agrees_with_torch(pair: Pair) -> None:
    value_and_vjp(pair)
    adjoint(pair.ours, pair.args)
    if "logcumsumexp" not in pair.name:  # PyTorch takes the logarithm of a cotangent of 0 there
        forward(pair)


@pytest.mark.parametrize("pair", [p for p in SMOOTH if p.args[0] is X], ids=str)
def test_second_order_agrees_with_torch(pair: Pair) -> None:
    second_order(pair)


def _product(x: Any, i: int) -> Any:
    """The first i + 1 elements multiplied by the definition."""
    y: Any = x[0]
    for j in range(1, i + 1):
        y = y * x[j]
    return y


@pytest.mark.parametrize("zeros", [(), (0,), (2,), (1, 3), (0, 2, 4)])
def test_cumprod_of_zeros_has_the_derivatives_of_its_definition(zeros: tuple[int, ...]) -> None:
    x = generic(5)
    x[list(zeros)] = 0
    w = generic(5, salt=9)
    f = lambda x: (scan.cumulative_prod(x, axis=0) * w).sum()
    plain = lambda x: sum((_product(x, i) * w[i] for i in range(1, 5)), _product(x, 0) * w[0])
    for derive in (cr.grad, cr.hessian, lambda f: cr.jacobian(cr.hessian(f))):
        got, want = derive(f)(cr.tensor(x)), derive(plain)(cr.tensor(x))
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-11, atol=1e-12)


def test_an_overflow_beside_a_zero_is_not_nan() -> None:
    x = cr.tensor(np.array([0.0, 1e200, 1e200, 1e200]))
    assert scan.cumulative_prod(x).tolist() == [0, 0, 0, 0]
    bar = cr.grad(lambda x: scan.cumulative_prod(x)[1])(x)
    assert bar.tolist() == [1e200, 0, 0, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_and_initial(dtype: Any) -> None:
    x = cr.tensor(X.astype(dtype))
    for f, first in ((scan.cumulative_sum, 0), (scan.cumulative_prod, 1)):
        y = f(x, axis=1, include_initial=True)
        assert y.dtype == dtype and y.shape == (3, 5, 2)
        assert (y.numpy()[:, 0] == first).all()
        np.testing.assert_array_equal(y.numpy()[:, 1:], f(x, axis=1).numpy())
        bar = cr.grad(lambda x, f=f: f(x, axis=1, include_initial=True).sum())(x)
        assert bar.dtype == dtype
    assert scan.cumulative_sum(np.array([True, True])).dtype == np.int64
    assert scan.cumulative_prod(np.array([2, 3], np.uint8)).tolist() == [2, 6]
    assert scan.cumulative_prod(np.array([2, 3], np.uint8)).dtype == np.uint64
    assert scan.cumsum(X, None).shape == (24,) and scan.cumprod(X, 0).shape == X.shape


def test_equal_elements_first_counts() -> None:
    x = cr.tensor(np.array([1.0, 3.0, 3.0, 2.0, 3.0, 4.0]))
    values, index = scan.cummax(x, axis=0)
    assert values.tolist() == [1, 3, 3, 3, 3, 4] and index.tolist() == [0, 1, 1, 1, 1, 5]
    assert cr.grad(lambda x: scan.cummax(x, axis=0)[0].sum())(x).tolist() == [1, 4, 0, 0, 0, 1]
    assert scan.cummin(-x, axis=0)[1].tolist() == index.tolist()


def test_nan_stays() -> None:
    x = np.array([1.0, np.nan, 5.0, np.nan])
    values, index = scan.cummax(x, axis=0)
    assert index.tolist() == [0, 1, 1, 1] and np.isnan(values[1:]).all()


def test_logcumsumexp_of_minus_infinity() -> None:
    x = cr.tensor(np.array([-np.inf, -np.inf, 1.0, -np.inf, 800.0]))
    assert scan.logcumsumexp(x, axis=0).tolist() == [-np.inf, -np.inf, 1.0, 1.0, 800.0]
    bar = cr.grad(lambda x: scan.logcumsumexp(x, axis=0)[2:].sum())(x)
    assert bar.tolist() == [0, 0, 2, 0, 1]


@pytest.mark.parametrize("shape", [(0,), (1,), (2, 0, 3)])
def test_few_elements(shape: tuple[int, ...]) -> None:
    x = cr.tensor(np.ones(shape))
    for f in (scan.cumulative_sum, scan.cumulative_prod):
        assert f(x, axis=0).shape == shape
        assert cr.grad(lambda x, f=f: f(x, axis=0).sum())(x).shape == shape


def test_vmap_is_the_op_on_each_example() -> None:
    x = cr.tensor(ZEROS)
    each = cr.vmap(cr.grad(lambda x: (scan.cumulative_prod(x, axis=0) ** 2).sum()))(x)
    for row, bar in zip(ZEROS, each.numpy(), strict=True):
        one = cr.grad(lambda x: (scan.cumulative_prod(x, axis=0) ** 2).sum())(cr.tensor(row))
        np.testing.assert_allclose(bar, one.numpy(), rtol=1e-13)


def test_the_axis_is_asked_for() -> None:
    with pytest.raises(ShapeError, match=r"cumulative_sum: x \(3, 4, 2\) has 3 axes"):
        scan.cumulative_sum(X)
