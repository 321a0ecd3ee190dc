"""Programs as they are written for HIPS autograd, on NumPy itself in place of its wrapper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr

RNG = np.random.default_rng(5)


def numeric(f: Any, x: Any) -> Any:
    """Central differences, element by element."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = 1e-6
        out[i] = (f(x + step) - f(x - step)) / 2e-6
    return out


def test_tanh_by_hand_and_its_derivatives():
    def tanh(x: Any) -> Any:
        return (1.0 - np.exp(-2 * x)) / (1.0 + np.exp(-2 * x))

    x = np.linspace(-1.3, 2.1, 7)
    t = np.tanh(x)
    first = lambda x: cr.grad(lambda v: np.sum(tanh(v)))(x)
    second = lambda x: cr.grad(lambda v: np.sum(first(v)))(x)
    third = lambda x: cr.grad(lambda v: np.sum(second(v)))(x)
    np.testing.assert_allclose(first(x).numpy(), 1 - t**2, rtol=1e-12)
    np.testing.assert_allclose(second(x).numpy(), -2 * t * (1 - t**2), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(third(x).numpy(), (1 - t**2) * (6 * t**2 - 2), rtol=1e-9)


def test_logistic_regression():
    inputs = np.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30]])
    targets = np.array([True, True, False])

    def loss(w: Any) -> Any:
        p = 0.5 * (np.tanh(np.dot(inputs, w) / 2) + 1)
        return -np.sum(np.log(p * targets + (1 - p) * (1 - targets)))

    w = np.array([0.3, -0.2, 0.1])
    np.testing.assert_allclose(cr.grad(loss)(w).numpy(), numeric(loss, w), rtol=1e-7)
    for _ in range(50):
        w = w - 0.5 * cr.grad(loss)(w).numpy()
    assert loss(w) < 0.2


def test_a_network_of_tuples_of_arrays():
    sizes = [(4, 3), (3, 2)]
    params = [(RNG.normal(size=s), RNG.normal(size=s[1])) for s in sizes]
    x, y = RNG.normal(size=(5, 4)), np.eye(2)[[0, 1, 1, 0, 1]]

    def log_posterior(params: Any) -> Any:
        out = x
        for w, b in params:
            out = np.dot(out, w) + b
            inner = out
            out = np.tanh(out)
        logits = inner - np.log(np.sum(np.exp(inner), axis=1, keepdims=True))
        prior = sum(np.sum(w**2) + np.sum(b**2) for w, b in params)
        return np.sum(logits * y) - 0.1 * prior

    grads = cr.grad(log_posterior)(params)
    for layer, (w, b) in enumerate(params):
        for k, part in enumerate((w, b)):

            def f(v: Any, layer: int = layer, k: int = k) -> Any:
                new = [list(p) for p in params]
                new[layer][k] = v
                return log_posterior(new)

            np.testing.assert_allclose(grads[layer][k].numpy(), numeric(f, part), rtol=1e-6)


def test_gaussian_process_likelihood():
    x, y = np.linspace(-1, 1, 6), RNG.normal(size=6)

    def objective(params: Any) -> Any:
        scale, noise = np.exp(params[0]), np.exp(params[1]) + 1e-3
        apart = np.expand_dims(x, 1) / scale - np.expand_dims(x, 0) / scale
        cov = np.exp(-0.5 * apart**2) + noise * np.eye(6)
        _, logdet = np.linalg.slogdet(cov)
        return 0.5 * np.dot(y, np.linalg.solve(cov, y)) + 0.5 * logdet

    p = np.array([-0.3, -1.2])
    np.testing.assert_allclose(cr.grad(objective)(p).numpy(), numeric(objective, p), rtol=1e-6)


def test_fluid_like_rolls_and_where():
    def step(f: Any) -> Any:
        for _ in range(3):
            around = np.roll(f, 1, axis=0) + np.roll(f, -1, axis=1)
            f = np.where(around > f, 0.25 * around, np.maximum(f, 0.1 * around))
        return np.sum(f**2)

    f = RNG.permutation(np.linspace(-1.1, 1.4, 12)).reshape(3, 4)
    np.testing.assert_allclose(cr.grad(step)(f).numpy(), numeric(step, f), rtol=1e-6, atol=1e-9)


def test_jacobian_and_hessian_of_rosenbrock():
    def rosenbrock(x: Any) -> Any:
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    x = np.array([-0.7, 1.3])
    expected = [[1200 * 0.49 - 400 * 1.3 + 2, 280.0], [280.0, 200.0]]
    np.testing.assert_allclose(cr.hessian(rosenbrock)(x).numpy(), expected, rtol=1e-12)
    rows = lambda x: np.concatenate([x**2, np.array([3.0])])
    np.testing.assert_allclose(cr.jacobian(rows)(x).numpy()[:2], np.diag(2 * x))


def test_scan_with_stacked_states():
    def f(x: Any) -> Any:
        states = [x]
        for _ in range(4):
            states.append(np.sin(states[-1]) * 1.3)
        return np.sum(np.stack(states) * np.arange(5.0)[:, None])

    x = np.array([0.3, -0.8])
    np.testing.assert_allclose(cr.grad(f)(x).numpy(), numeric(f, x), rtol=1e-7)


def test_minimize_of_scipy_takes_our_gradients():
    optimize = pytest.importorskip("scipy.optimize")
    f = lambda x: np.sum((x - np.array([1.0, -2.0])) ** 4 + x**2)
    found = optimize.minimize(
        lambda x: float(f(x)), np.zeros(2), jac=lambda x: cr.grad(f)(x).numpy()
    )
    np.testing.assert_allclose(cr.grad(f)(found.x).numpy(), 0, atol=1e-4)
