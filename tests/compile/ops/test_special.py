"""Special functions in compiled code: values and derivatives as eager ones, without calls of SciPy.

How exact each function is by itself, test_mathlib.py says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.ops.special import bessel
from chainrule.ops.special import table as sp
from tests.sampling import sampled

NATIVE: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "lgamma": (sp.lgamma, -3.4, 5.0),
    "digamma": (sp.digamma, -3.4, 5.0),
    "erfinv": (sp.erfinv, -0.97, 0.96),
    "ndtri": (sp.ndtri, 0.01, 0.98),
    "erfcx": (sp.erfcx, -4.0, 40.0),
    "log_ndtr": (sp.log_ndtr, -40.0, 6.0),
    "i0": (bessel.i0, -11.0, 11.5),
    "i0e": (bessel.i0e, -11.0, 11.5),
    "i1": (bessel.i1, -11.0, 11.5),
    "i1e": (bessel.i1e, -11.0, 11.5),
    "iv of order 0": (lambda x: bessel.iv(0, x), -11.0, 11.5),
    "ive of order 1": (lambda x: bessel.ive(1, x), -11.0, 11.5),
    "polygamma of order 0": (lambda x: sp.polygamma(0, x), 0.2, 9.0),
    "polygamma of order 2": (lambda x: sp.polygamma(2, x), 0.2, 9.0),
    "polygamma of an array of one order": (
        lambda x: sp.polygamma(np.full(3, 3.0, x.dtype), x),
        0.2,
        9.0,
    ),
    "sinc": (sp.sinc, -7.3, 7.2),
    "the third derivative of sinc": (lambda x: _derivative(sp.sinc, 3)(x), -7.3, 7.2),
    "spherical_jn of order 2": (lambda x: bessel.spherical_jn(2, x), -9.0, 9.0),
    "multigammaln": (lambda x: sp.multigammaln(x, 3), 1.2, 9.0),
}


def _derivative(f: Callable[[Any], Any], times: int) -> Callable[[Any], Any]:
    for _ in range(times):
        f = cr.grad(partial(_summed, f))
    return f


def _summed(f: Callable[[Any], Any], x: Any) -> Any:
    return cr.sum(f(x))


def points(low: float, high: float, dtype: Any) -> Any:
    """Numbers of the range, none of which is near a pole."""
    x = np.random.default_rng(5).uniform(low, high, (16, 3)).astype(dtype)
    return np.where(np.abs(x - np.rint(x)) < 0.05, x + dtype(0.1), x)


@sampled(one_in=3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NATIVE)
def test_value_and_derivative_are_native_and_those_of_the_eager_form(name: str, dtype: Any) -> None:
    f, low, high = NATIVE[name]
    x = cr.tensor(points(low, high, dtype))

    def both(x: Any) -> Any:
        y, pull = cr.vjp(f, x)
        return y, pull(cr.ones_like(y))[0]

    compiled = cr.jit(both)
    for got, want in zip(compiled(x), both(x), strict=True):
        assert got.dtype == want.dtype == dtype
        np.testing.assert_allclose(
            got.numpy(), want.numpy(), rtol=64 * np.finfo(dtype).eps, atol=64 * np.finfo(dtype).eps
        )
    assert " = eager " not in compiled.loops()


def test_derivatives_of_lgamma_are_native_up_to_the_fifth() -> None:
    f = _derivative(sp.lgamma, 5)
    x = cr.tensor(np.array([0.7, 1.9, 6.5]))
    compiled = cr.jit(f)
    np.testing.assert_allclose(compiled(x).numpy(), f(x).numpy(), rtol=1e-13)
    assert " = eager " not in compiled.loops()


@pytest.mark.parametrize("kind", [sp.polygamma, bessel.iv, bessel.ive, bessel.spherical_jn])
def test_other_orders_run_in_their_eager_form(kind: Callable[[Any, Any], Any]) -> None:
    x = cr.tensor(np.array([0.7, 1.9, 6.5]))
    n = cr.tensor(np.array([1.0, 2.0, 3.0]))
    for compiled, xs in ((cr.jit(kind), (n, x)), (cr.jit(lambda x: kind(7, x)), (x,))):
        got = compiled(*xs)
        np.testing.assert_array_equal(got.numpy(), kind(*(xs if len(xs) == 2 else (7, x))).numpy())
        assert " = eager " in compiled.loops()


def test_an_order_that_is_no_number_is_nan() -> None:
    x = cr.tensor(np.array([0.7, 1.9]))
    n = np.full(2, np.nan)
    np.testing.assert_array_equal(
        cr.jit(lambda x: bessel.iv(n, x))(x).numpy(), bessel.iv(n, x).numpy()
    )
