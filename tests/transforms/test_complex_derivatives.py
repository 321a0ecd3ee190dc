"""Derivatives by and of complex numbers: both modes of jacobian, and grad, say the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr

REAL = np.array([0.7, -1.3, 0.4])
COMPLEX = np.array([0.7 + 0.2j, -1.3 - 0.6j, 0.4 + 1.1j])
MATRIX = np.array([[0.3, -1.2j, 0.5], [1.1 + 0.4j, 0.2, -0.7j]])
HOLOMORPHIC: dict[str, Callable[[Any], Any]] = {
    "square": lambda z: z * z,
    "products": lambda z: cr.exp(z) @ MATRIX.T,
    "quotient": lambda z: z[:2] / (z[1:] + 2),
    "one number": lambda z: cr.sum(z**3),
}
TO_REAL: dict[str, Callable[[Any], Any]] = {
    "size": lambda z: cr.abs(z) ** 2,
    "real part": lambda z: cr.real(cr.exp(z)),
    "imaginary parts": lambda z: cr.imag(z @ MATRIX.T),
}
modes = pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])


def along(f: Any, x: Any, unit: complex) -> Any:
    """The derivative of f along each element of x times `unit`, by central differences."""
    h = 1e-6
    steps = [h * unit * e for e in np.eye(len(x))]
    columns = [(np.asarray(f(x + s)) - np.asarray(f(x - s))) / (2 * h) for s in steps]
    return np.stack(columns, axis=-1)


@modes
@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_holomorphic_functions_have_their_derivative(name: str, mode: str):
    f = HOLOMORPHIC[name]
    got = cr.jacobian(f, mode=mode, holomorphic=True)(COMPLEX)
    np.testing.assert_allclose(got, along(f, COMPLEX, 1.0), rtol=1e-8, atol=1e-8)
    if name == "one number":
        np.testing.assert_allclose(cr.grad(f, holomorphic=True)(COMPLEX), got, rtol=1e-12)
        value, gradient = cr.value_and_grad(f, holomorphic=True)(COMPLEX)
        assert complex(value) == complex(np.sum(COMPLEX**3))
        np.testing.assert_allclose(gradient, got, rtol=1e-12)


@modes
@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_complex_results_of_real_arguments(name: str, mode: str):
    def f(x: Any) -> Any:
        return HOLOMORPHIC[name](x * (1 + 0.5j))

    got = cr.jacobian(f, mode=mode)(REAL)
    np.testing.assert_allclose(got, along(f, REAL, 1.0), rtol=1e-8, atol=1e-8)


@modes
@pytest.mark.parametrize("name", TO_REAL)
def test_real_results_of_complex_arguments_have_gradients(name: str, mode: str):
    f = TO_REAL[name]
    got = np.asarray(cr.jacobian(f, mode=mode)(COMPLEX))
    true = along(f, COMPLEX, 1.0) + 1j * along(f, COMPLEX, 1j)
    np.testing.assert_allclose(got, true, rtol=1e-8, atol=1e-8)

    def element(z: Any, k: int) -> Any:
        return f(z)[k]

    rows = [cr.grad(element)(COMPLEX, k) for k in range(len(got))]
    np.testing.assert_allclose(got, np.stack(rows), rtol=1e-12)


def rotated(x: Any) -> Any:
    return x * 1j


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: cr.jacobian(cr.exp)(COMPLEX), "of a holomorphic function write holomorphic=True"),
    (lambda: cr.grad(cr.exp)(1j), "of a holomorphic function write holomorphic=True"),
    (lambda: cr.hessian(TO_REAL["size"])(1j), "real and imaginary parts"),
    (lambda: cr.jacobian(cr.exp, holomorphic=True)(REAL), "needs complex arguments"),
    (lambda: cr.jacobian(cr.abs, holomorphic=True)(COMPLEX), "needs complex results"),
    (lambda: cr.grad(cr.abs, holomorphic=True)(1j), "needs a complex result, not float32"),
    (lambda: cr.grad(rotated, holomorphic=True)(1.0), "needs complex arguments"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_is_not_one_number_is_refused(call: Any, message: str):
    with pytest.raises(cr.DtypeError, match=message):
        call()
