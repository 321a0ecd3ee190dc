"""Complex numbers against PyTorch; conventions at 0; the holomorphic rules that say nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.graph import placeholder
from chainrule.ops import complex as cx
from tests.ops import check
from tests.ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp

Z = generic(2, 3, complex_=True)
W = generic(2, 3, salt=2, complex_=True)
X, Y = generic(2, 3, salt=3), generic(3, salt=4)


def modulus(z: Any) -> Any:
    return z * cx.conj(z)


PAIRS = [
    Pair("conj", cx.conj, torch.conj, (Z,)),
    Pair("conj times", lambda z: cx.conj(z) * z * z, lambda z: torch.conj(z) * z * z, (Z,)),
    Pair("real", cx.real, torch.real, (Z,)),
    Pair("imag", cx.imag, torch.imag, (Z,)),
    Pair("angle", cx.angle, torch.angle, (Z,)),
    Pair("abs", cx.complex_abs, torch.abs, (Z,)),
    Pair("abs of real", cx.complex_abs, torch.abs, (X,)),
    Pair("sign", cx.complex_sign, torch.sgn, (Z,)),
    Pair("complex", cx.complex,
         lambda a, b: torch.complex(*torch.broadcast_tensors(a, b)), (X, Y)),
    Pair("polar", cx.polar, lambda a, b: torch.polar(*torch.broadcast_tensors(a, b)), (abs(X), Y)),
    Pair("mul", lambda a, b: a * b, lambda a, b: a * b, (Z, W)),
    Pair("real times complex", lambda a, b: a * b, lambda a, b: a * b, (X, W)),
    Pair("div", lambda a, b: a / b, lambda a, b: a / b, (Z, W)),
    Pair("complex by real", lambda a, b: a / b, lambda a, b: a / b, (Z, Y)),
    Pair("exp", cr.exp, torch.exp, (Z,)),
    Pair("log", cr.log, torch.log, (Z,)),
    Pair("sin", cr.sin, torch.sin, (Z,)),
    Pair("tanh", cr.tanh, torch.tanh, (Z,)),
    Pair("sqrt", cr.sqrt, torch.sqrt, (Z,)),
    Pair("power", lambda a, b: cr.pow(a, b), torch.pow, (Z, W), 1e-9),
    Pair("sum", lambda z: cr.sum(z, axis=0), lambda z: torch.sum(z, 0), (Z,)),
    Pair("modulus", modulus, lambda z: z * z.conj(), (Z,)),
    Pair("power of modulus", lambda z: cx.real(modulus(z)) ** 1.5,
         lambda z: (z * z.conj()).real ** 1.5, (Z,)),
    Pair("chain", lambda z: cx.angle(cr.exp(cx.complex(cx.imag(z), cx.complex_abs(z)))),
         lambda z: torch.angle(torch.exp(torch.complex(z.imag, z.abs()))), (Z,)),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_value_and_gradient_are_those_of_torch(pair: Pair) -> None:
    value_and_vjp(pair)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_jvp_is_that_of_torch(pair: Pair) -> None:
    forward(pair)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_second_derivative_is_that_of_torch(pair: Pair) -> None:
    second_order(pair)


def test_the_gradient_of_a_real_loss_points_uphill_in_both_parts() -> None:
    """dL/dRe + i dL/dIm, by differences of a loss that is neither holomorphic nor symmetric."""

    def loss(z: Any) -> Any:
        return cr.sum(cx.real(z) ** 3 + 2 * cx.imag(z) * cx.real(cr.exp(z)) + cx.complex_abs(z))

    def of_parts(re: Any, im: Any) -> Any:
        return loss(cx.complex(re, im))

    check.differences(of_parts, [Z.real, Z.imag])
    re, im = cr.grad(of_parts, argnums=(0, 1))(Z.real, Z.imag)
    check.close(cr.grad(loss)(Z).numpy(), re.numpy() + 1j * im.numpy(), 1e-12)


@pytest.mark.parametrize("f", [cx.complex_abs, cx.angle, lambda z: cx.real(cx.complex_sign(z))])
def test_gradients_at_zero_are_zero(f: Any) -> None:
    z = np.array([0j, 3 + 4j])
    bar = cr.grad(lambda z: cr.sum(f(z)))(z).numpy()
    assert bar[0] == 0
    assert np.isfinite(bar).all()


def test_angle_of_real_numbers() -> None:
    x = np.array([2.0, -3.0, np.inf, 0.0])
    assert cx.angle(cr.tensor(x)).tolist() == [0, math.pi, 0, 0]
    assert cr.grad(lambda x: cr.sum(cx.angle(x)))(x).tolist() == [0, 0, 0, 0]


def test_polar_of_a_negative_size() -> None:
    """PyTorch 2.13 has the sign of this gradient wrong: it divides the result by its modulus."""
    parts = lambda r, a: cr.stack([cx.real(cx.polar(r, a)), cx.imag(cx.polar(r, a))])
    check.differences(parts, [X, Y])


def test_known_gradients() -> None:
    z = np.array([3 + 4j])
    grad = lambda f: cr.grad(lambda z: cr.sum(f(z)))(z).numpy()
    check.close(grad(cx.complex_abs), z / 5, 1e-14)
    check.close(grad(lambda z: cx.real(modulus(z))), 2 * z, 1e-14)
    check.close(grad(cx.angle), 1j * z / 25, 1e-14)


@pytest.mark.parametrize(("kind", "part"), [("complex64", "float32"), ("complex128", "float64")])
def test_dtypes(kind: str, part: str) -> None:
    z = cr.tensor(Z.astype(kind))
    for f in (cx.real, cx.imag, cx.angle, cx.complex_abs):
        y, pull = cr.vjp(f, z)
        assert y.dtype == part
        assert pull(cr.ones(y.shape, part))[0].dtype == kind
    assert cx.complex(cx.real(z), cx.imag(z)).dtype == kind
    assert cx.polar(cx.real(z), cx.imag(z)).dtype == kind


def test_infinite_parts_and_signs_of_zero_survive() -> None:
    z = cx.complex(cr.tensor([0.0, -0.0]), cr.tensor([math.inf, -0.0])).numpy()
    assert z[0] == complex(0, math.inf)
    assert np.signbit(z[1].real)
    assert np.signbit(z[1].imag)


def test_numbers_without_axes() -> None:
    for f in (cx.real, cx.imag, cx.angle, cx.complex_abs):
        bar = cr.grad(lambda z, f=f: f(z) * f(z))(np.array(1 + 2j))
        assert bar.shape == ()
        assert bar.dtype == np.complex128


@pytest.mark.parametrize("f", [cx.real, cx.imag, cx.angle, cx.complex_abs, cx.conj])
def test_specs(f: Any) -> None:
    hole = placeholder((2, 3), np.complex64, needs=True)
    want = f(cr.tensor(Z.astype(np.complex64)))
    y = f(hole)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    y.backward(np.ones(y.shape, y.dtype))
    assert (hole.grad.shape, hole.grad.dtype) == ((2, 3), np.complex64)


def test_errors() -> None:
    with pytest.raises(cr.DtypeError, match="imag needs complex numbers, not float64"):
        cx.imag(cr.tensor(X))
    with pytest.raises(cr.DtypeError, match="two real floating-point parts, one is complex128"):
        cx.complex(cr.tensor(X), cr.tensor(Z))


def test_logaddexp_and_its_running_form_are_the_logarithms_of_sums() -> None:
    a, b = generic(4, complex_=True) * 3, generic(4, salt=3, complex_=True) * 3
    apart_ = np.array([700 + 1j, -700 + 2j, -np.inf, 1 + 3j])
    y = cr.logaddexp(cr.tensor(a), cr.tensor(b)).numpy()
    np.testing.assert_allclose(np.exp(y), np.exp(a) + np.exp(b), rtol=1e-13)
    far = cr.logaddexp(cr.tensor(apart_), cr.tensor(np.array([1j, 1j, -np.inf, -np.inf]))).numpy()
    np.testing.assert_allclose(far, [700 + 1j, 1j, -np.inf, 1 + 3j], rtol=1e-13)
    whole = cr.logcumsumexp(cr.tensor(a), axis=0).numpy()
    np.testing.assert_allclose(np.exp(whole), np.cumsum(np.exp(a)), rtol=1e-13)


@pytest.mark.parametrize("compiled", [False, True])
def test_their_derivatives_are_differences(compiled: bool) -> None:
    a, b = generic(4, complex_=True), generic(4, salt=3, complex_=True)
    for f, xs in ((cr.logaddexp, (a, b)), (lambda x: cr.logcumsumexp(x, axis=0), (a,))):
        given = [cr.tensor(x) for x in xs]
        w = generic(4, salt=6, complex_=True)
        back = lambda *xs, f=f, w=w: cr.vjp(f, *xs)[1](cr.tensor(w))
        bars = (cr.jit(back) if compiled else back)(*given)
        for i, (x, bar) in enumerate(zip(xs, bars, strict=True)):
            t = generic(4, salt=8 + i, complex_=True)
            at = lambda s, i=i, x=x, t=t, g=given, f=f: f(
                *g[:i], cr.tensor(x + s * t), *g[i + 1 :]
            ).numpy()
            difference = np.vdot(w, (at(1e-6) - at(-1e-6)) / 2e-6).real
            np.testing.assert_allclose(np.vdot(bar.numpy(), t).real, difference, rtol=1e-6)
