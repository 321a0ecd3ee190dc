"""Where PyTorch 2.13 gives a wrong number or NaN: proved by exact arithmetic, one test each.

Each test shows three things: the true number (from a formula in mpmath, or by hand), that ours is
it, and that PyTorch's is not; so that this page ends when PyTorch changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.ops.networks import activations, normalization
from chainrule.ops.reductions import scan
from chainrule.ops.special import table as special

torch: Any = pytest.importorskip("torch", reason="it is PyTorch that is tested")

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def _grads(f: Callable[..., Any], x: Any, order: int) -> float:
    """Derivative number `order` of a function of one number, by PyTorch."""
    t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    y = f(t)
    for _ in range(order):
        if not y.requires_grad:
            return 0.0
        (y,) = torch.autograd.grad(y, t, create_graph=True)
    return float(y.detach())


def _ours(f: Callable[..., Any], x: float, order: int) -> float:
    for _ in range(order):
        f = cr.grad(f)
    return float(f(cr.tensor(np.float64(x))))


def test_hardsigmoid_has_slope_one_sixth_to_seven_digits():
    mine, other = (
        _ours(activations.hardsigmoid, 0.3, 1),
        _grads(torch.nn.functional.hardsigmoid, 0.3, 1),
    )
    assert mine == 1 / 6
    assert 1e-9 < abs(other - 1 / 6) < 1e-7


def test_digamma_has_a_derivative_of_nine_digits():
    exact = float(mpmath.polygamma(1, 2.5))
    assert _ours(special.digamma, 2.5, 1) == pytest.approx(exact, rel=1e-14)
    assert 1e-12 < abs(_grads(torch.digamma, 2.5, 1) / exact - 1) < 1e-8


def test_sinc_is_not_flat_at_0():
    exact = float(mpmath.diff(lambda x: mpmath.sincpi(x), 0, 2))
    assert exact == pytest.approx(-(np.pi**2) / 3)
    assert _ours(special.sinc, 0.0, 2) == pytest.approx(exact, rel=1e-14)
    assert np.isnan(_grads(torch.sinc, 0.0, 2))


def test_the_jvp_of_logcumsumexp_loses_half_its_digits():
    x, u = np.array([-4.8, -7.5, 8.8, -1.5, 3.3]), np.array([0.3, -1.2, 0.7, 0.4, -0.9])
    weights = [mpmath.exp(v) for v in x]
    pairs = list(zip(weights, u, strict=True))
    exact = np.array(
        [float(sum(w * t for w, t in pairs[: i + 1]) / sum(weights[: i + 1])) for i in range(5)]
    )
    mine = cr.jvp(lambda z: scan.logcumsumexp(z, axis=0), [cr.tensor(x)], [cr.tensor(u)])[1]
    f = lambda z: torch.logcumsumexp(z, 0)
    other = torch.func.jvp(f, (torch.tensor(x),), (torch.tensor(u),))[1].numpy()
    assert np.abs(mine.numpy() - exact).max() < 1e-14
    assert np.abs(other - exact).max() > 1e-10


def test_the_second_derivative_of_logsumexp_loses_half_its_digits():
    """Of large numbers: exp(x - logsumexp(x)) has no more digits than stand behind the point."""
    x, u = np.array([483.2, 500.0, 100.0]), np.array([1.3, -0.7, 0.2])
    weights = [mpmath.exp(v) for v in x]
    shares = [w / sum(weights) for w in weights]
    mean = sum(p * t for p, t in zip(shares, u, strict=True))
    exact = np.array([float(p * (t - mean)) for p, t in zip(shares, u, strict=True)])
    (mine,) = cr.hvp(lambda z: cr.logsumexp(z, axis=0), (cr.tensor(x),), (cr.tensor(u),))
    t = torch.tensor(x, requires_grad=True)
    (bar,) = torch.autograd.grad(torch.logsumexp(t, 0), t, create_graph=True)
    other = torch.autograd.grad((bar * torch.tensor(u)).sum(), t)[0].numpy()
    assert np.abs(mine.numpy() / exact - 1).max() < 1e-9
    assert np.abs(other / exact - 1).max() > 1e-8


ZEROS = {
    "where(x > 0, sqrt(x), 0)": (
        lambda m: lambda x: m.where(x > 0, m.sqrt(x), 0 * x), 0.0, 0.0
    ),
    "where(x > 0, log(x), 0)": (lambda m: lambda x: m.where(x > 0, m.log(x), 0 * x), 0.0, 0.0),
    "where(x != 0, sin(x) / x, 1)": (
        lambda m: lambda x: m.where(x != 0, m.sin(x) / x, 0 * x + 1), 0.0, 0.0
    ),
    "sqrt(x * x) * 0": (lambda m: lambda x: m.sqrt(x * x) * 0, 0.0, 0.0),
}  # fmt: skip
"""Functions that are constant or even at the point: name, function of a library, point, slope."""


@pytest.mark.parametrize("name", ZEROS)
def test_what_was_not_chosen_sends_nothing_back(name: str):
    make, at, slope = ZEROS[name]
    assert _ours(make(cr), at, 1) == slope
    assert np.isnan(_grads(make(torch), at, 1))


NESTED = {
    "forward over forward": lambda m, f: m.jacfwd(m.jacfwd(f)),
    "reverse over forward": lambda m, f: m.jacrev(m.jacfwd(f)),
}


@pytest.mark.parametrize("name", NESTED)
def test_second_derivatives_of_cumprod_at_a_zero(name: str):
    """The product a b c at (0, 2, 3): its second derivatives are the third factor, or 0."""
    x = np.array([0.0, 2.0, 3.0])
    exact = np.array([[0.0, 3, 2], [3, 0, 0], [2, 0, 0]])

    def slopes(mode: str) -> Any:
        def f(z: Any) -> Any:
            return cr.jacobian(lambda w: scan.cumprod(w)[2], mode="forward")(z)

        return cr.jacobian(f, mode=mode)(cr.tensor(x)).numpy()

    assert np.array_equal(slopes("forward"), exact)
    assert np.array_equal(slopes("reverse"), exact)
    other = NESTED[name](torch.func, lambda z: torch.cumprod(z, 0)[2])(torch.tensor(x))
    assert not np.array_equal(other.numpy(), exact)


def test_the_third_order_of_layer_norm():
    a = np.array([0.4, -1.1, 0.9])

    def true(t: Any) -> Any:
        xs = [mpmath.mpf(v) + k * t for v, k in zip(a, (1, 2, -1), strict=True)]
        mean = mpmath.fsum(xs) / 3
        var = mpmath.fsum([(x - mean) ** 2 for x in xs]) / 3
        return (xs[0] - mean) / mpmath.sqrt(var + mpmath.mpf("1e-5"))

    exact = float(mpmath.diff(true, 0, 3))
    k = np.array([1.0, 2.0, -1.0])
    ours = lambda t: cr.layer_norm(cr.tensor(a) + cr.tensor(k) * t)[0]
    assert _ours(ours, 0.0, 3) == pytest.approx(exact, rel=1e-9)
    theirs = lambda t: torch.nn.functional.layer_norm(torch.tensor(a) + torch.tensor(k) * t, (3,))[
        0
    ]
    assert abs(_grads(theirs, 0.0, 3) / exact - 1) > 1e-6


def test_the_third_order_of_batch_norm():
    a, k = np.array([[0.4], [-1.1], [0.9]]), np.array([[1.0], [2.0], [-1.0]])

    def true(t: Any) -> Any:
        xs = [mpmath.mpf(v) + c * t for v, c in zip(a[:, 0], (1, 2, -1), strict=True)]
        mean = mpmath.fsum(xs) / 3
        var = mpmath.fsum([(x - mean) ** 2 for x in xs]) / 3
        return (xs[0] - mean) / mpmath.sqrt(var + mpmath.mpf("1e-5"))

    exact = float(mpmath.diff(true, 0, 3))
    ours = lambda t: normalization.batch_norm(cr.tensor(a) + cr.tensor(k) * t, training=True).y[
        0, 0
    ]
    assert _ours(ours, 0.0, 3) == pytest.approx(exact, rel=1e-9)
    norm = torch.nn.functional.batch_norm
    theirs = lambda t: norm(torch.tensor(a) + torch.tensor(k) * t, None, None, training=True)[0, 0]
    assert abs(_grads(theirs, 0.0, 3) / exact - 1) > 1e-6


def test_the_gradient_of_a_loss_of_paths():
    """One step, one label: -x[1], whatever the numbers are."""
    x, args = np.array([[[-0.2, -0.7]]]), (np.array([[1]]), np.array([1]), np.array([1]))
    (mine,) = cr.vjp(lambda z: nn.functional.ctc_loss(z, *args), cr.tensor(x))[1](cr.tensor(1.0))
    assert mine.tolist() == [[[0.0, -1.0]]]
    z = torch.tensor(x, requires_grad=True)
    torch.nn.functional.ctc_loss(z, *map(torch.tensor, args)).backward()
    assert z.grad is not None and z.grad[0, 0, 0] > 0.5


def test_the_gradient_of_a_condition_by_a_norm():
    """Of diag(a, b) it is a / b + b / a."""
    x = np.diag([2.0, 4.0])
    mine = cr.grad(lambda z: cr.linalg.cond(z, "fro"))(cr.tensor(x))
    np.testing.assert_allclose(np.diag(mine.numpy()), [1 / 4 - 4 / 4, 1 / 2 - 2 / 16], rtol=1e-14)
    z = torch.tensor(x, requires_grad=True)
    with pytest.raises(RuntimeError, match="inplace"):
        torch.linalg.cond(z, "fro").backward()
