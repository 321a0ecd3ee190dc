"""eig of general matrices: values, vectors, derivatives, against PyTorch and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import GradientError, ShapeError
from chainrule.linalg import MatrixError, eig, eigvals

RNG = np.random.default_rng(3)
REAL = RNG.normal(size=(2, 4, 4))
COMPLEX = RNG.normal(size=(2, 4, 4)) + 1j * RNG.normal(size=(2, 4, 4))
MIX = RNG.normal(size=(4, 4))


def loss(x: Any) -> Any:
    """Depends on values and vectors, not on phases or the values' order."""
    w, v = eig(x)
    size = cr.real(w) ** 2 + 3 * cr.imag(w) ** 2
    parts = cr.real(v) ** 2 + cr.imag(v) ** 2
    return cr.sum(cr.sin(size)) + cr.sum(cr.exp(cr.matmul(MIX, parts)) * cr.expand_dims(size, -2))


@pytest.mark.parametrize("x", [REAL, COMPLEX], ids=["real", "complex"])
def test_is_a_decomposition(x: Any) -> None:
    w, v = eig(cr.tensor(x))
    assert w.dtype == v.dtype == np.complex128
    np.testing.assert_allclose(x @ v.numpy(), v.numpy() * w.numpy()[..., None, :], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(v.numpy(), axis=-2), np.ones((2, 4)), rtol=1e-12)
    np.testing.assert_array_equal(eigvals(cr.tensor(x)).numpy(), w.numpy())


def slope(f: Any, x: Any, t: Any, h: float = 1e-5) -> Any:
    """The derivative of f along t by central differences of fourth order."""
    at = {k: np.asarray(f(cr.tensor(x + k * h * t))) for k in (-2, -1, 1, 2)}
    return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h)


@pytest.mark.parametrize("x", [REAL, COMPLEX], ids=["real", "complex"])
def test_first_and_second_derivative_are_those_of_differences(x: Any) -> None:
    t = RNG.normal(size=x.shape) + (1j * RNG.normal(size=x.shape) if x.dtype.kind == "c" else 0)
    gradient = cr.grad(loss)
    got = np.sum(np.conj(gradient(cr.tensor(x)).numpy()) * t).real
    np.testing.assert_allclose(got, slope(loss, x, t), rtol=1e-6)
    forward = cr.jvp(loss, (cr.tensor(x),), (cr.tensor(t),))[1]
    np.testing.assert_allclose(forward.numpy(), got, rtol=1e-9)

    def along(x: Any) -> Any:
        return cr.sum(cr.real(cr.conj(gradient(x)) * t))

    second = np.sum(np.conj(cr.grad(along)(cr.tensor(x)).numpy()) * t).real
    np.testing.assert_allclose(second, slope(along, x, t), rtol=1e-5)


@pytest.mark.parametrize("x", [REAL, COMPLEX], ids=["real", "complex"])
def test_gradient_is_that_of_pytorch(x: Any) -> None:
    torch = pytest.importorskip("torch")
    p = torch.tensor(x, requires_grad=True)
    w, v = torch.linalg.eig(p)
    size = w.real**2 + 3 * w.imag**2
    parts = v.real**2 + v.imag**2
    (size.sin().sum() + ((torch.tensor(MIX) @ parts).exp() * size[..., None, :]).sum()).backward()
    np.testing.assert_allclose(cr.grad(loss)(cr.tensor(x)).numpy(), p.grad.numpy(), rtol=1e-8)


def test_what_has_no_derivative_is_refused() -> None:
    with pytest.raises(GradientError, match="phase of an eigenvector"):
        cr.grad(lambda x: cr.sum(cr.imag(eig(x).eigenvectors * (1 + 2j))))(cr.tensor(COMPLEX))
    same = cr.tensor(np.diag([2.0, 2.0, 3.0]))
    with pytest.raises(GradientError, match="values 0 and 1 are equal"):
        cr.grad(lambda x: cr.real(eigvals(x))[0])(same)
    with pytest.raises(GradientError, match="values 0 and 1 are equal"):
        cr.grad(loss)(cr.tensor(np.diag([2.0, 2.0, 3.0, 4.0])))
    with pytest.raises(ShapeError, match="eig needs square matrices"):
        eig(cr.tensor(np.ones((2, 3))))
    with pytest.raises(MatrixError, match="NaN or infinity"):
        eig(cr.tensor([[np.nan, 1.0], [0.0, 1.0]]))


def test_equal_values_that_are_treated_alike() -> None:
    x = np.array([[2.0, 0.0, 1.0], [0.0, 2.0, 5.0], [0.0, 0.0, 3.0]])
    got = cr.grad(lambda x: cr.sum(cr.real(eigvals(x) ** 2)))(cr.tensor(x))
    np.testing.assert_allclose(got.numpy(), 2 * x.T, atol=1e-12)


def test_numpy_programs_have_it() -> None:
    def f(x: Any) -> Any:
        w, v = np.linalg.eig(x)
        return np.sum(np.abs(v) ** 2 * np.real(w)) + np.sum(np.imag(np.linalg.eigvals(x)) ** 2)

    t = RNG.normal(size=REAL[0].shape)
    got = np.sum(cr.grad(f)(cr.tensor(REAL[0])).numpy() * t)
    np.testing.assert_allclose(got, slope(f, REAL[0], t), rtol=1e-6)


def test_examples_of_a_batch_are_done_by_vmap_too() -> None:
    got = cr.vmap(cr.grad(loss))(cr.tensor(REAL))
    np.testing.assert_allclose(got.numpy(), cr.grad(loss)(cr.tensor(REAL)).numpy(), rtol=1e-9)
