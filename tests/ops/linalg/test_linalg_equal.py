"""Equal eigenvalues and singular values: the gradients that exist are right, others refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import linalg as la
from chainrule.ops.complex import real
from tests.ops import check
from tests.ops.against_torch import generic
from tests.ops.linalg.test_linalg import gradient, hermitian, size
from tests.ops.sample import Array


def rotation(n: int, salt: int = 0) -> Array:
    return np.linalg.qr(generic(n, n, salt=salt))[0]


def with_eigenvalues(values: list[float], salt: int = 0) -> Array:
    q = rotation(len(values), salt)
    return (q * np.array(values)) @ q.T


WEIGHTS = generic(4, 4, salt=2)
SYMMETRIC = WEIGHTS + WEIGHTS.T


@pytest.mark.parametrize("values", [[1, 1, 1, 1], [2, 2, 5, -1], [3, 3, -2, -2], [0, 0, 0, 0]])
def test_functions_of_equal_eigenvalues_alone(values: list[float]) -> None:
    x = with_eigenvalues(values)
    for f, slope in ((lambda w: w, np.ones(4)), (cr.sin, np.cos(values)), (cr.exp, np.exp(values))):
        q = rotation(4)
        want = (q * slope) @ q.T
        check.close(gradient(lambda x, f=f: f(la.eigvalsh(x)), x), want, 1e-11, 1e-12)


def test_projector_on_a_subspace_of_equal_eigenvalues() -> None:
    x = with_eigenvalues([-1, 2, 2, 2])

    def upper_part(x: Any) -> Any:
        v = la.eigh(hermitian(x)).eigenvectors[:, 1:]
        return cr.sum(v @ la.matrix_transpose(v) * SYMMETRIC)

    def whole(x: Any) -> Any:
        v = la.eigh(hermitian(x)).eigenvectors
        return cr.sum(v @ la.matrix_transpose(v) * SYMMETRIC)

    # P = q q^T for the vectors q of the other value: dP = sum over pairs, divided by the gap 3
    q = rotation(4)
    one, rest = q[:, :1], q[:, 1:]
    block = one @ (one.T @ SYMMETRIC @ rest) @ rest.T / -3
    check.close(cr.grad(upper_part)(x).numpy(), -(block + block.T), 1e-10, 1e-12)
    check.close(cr.grad(whole)(x).numpy(), np.zeros((4, 4)), 0, 1e-12)


def test_the_eigenvector_of_a_value_that_stands_alone() -> None:
    x = with_eigenvalues([-1, 2, 2, 2], salt=1)

    def f(x: Any) -> Any:
        v = la.eigh(hermitian(x)).eigenvectors[:, 0]
        return cr.sum(la.outer(v, v) * SYMMETRIC)

    check.differences(f, [x])


@pytest.mark.parametrize("x", [np.eye(3), np.diag([2.0, 2.0, 5.0]), with_eigenvalues([2, 2, -1])])
def test_cotangents_that_equal_eigenvalues_leave_open_are_refused(x: Array) -> None:
    def rebuild(x: Any) -> Any:
        w, v = la.eigh(x)
        return cr.sum((v * w[None, :]) @ la.matrix_transpose(v) * SYMMETRIC[:3, :3])

    with pytest.raises(cr.GradientError, match=r"eigh: values \d and \d are equal.*cannot be told"):
        cr.grad(rebuild)(x)
    with pytest.raises(cr.GradientError, match=r"which of the bases of their subspace"):
        cr.grad(lambda x: cr.sum(la.eigh(x).eigenvectors * WEIGHTS[:3, :3]))(x)


def test_equal_eigenvalues_in_a_batch_are_named() -> None:
    x = np.stack([np.diag([1.0, 2.0, 3.0]), np.eye(3)])
    with pytest.raises(cr.GradientError, match=r"values 0 and 1 of matrix \[1\] are equal"):
        cr.grad(lambda x: cr.sum(la.eigh(x).eigenvectors * WEIGHTS[:3, :3]))(x)


@pytest.mark.parametrize("shape", [(4, 4), (5, 4), (4, 6)])
def test_functions_of_equal_singular_values_alone(shape: tuple[int, int]) -> None:
    m, n = shape
    u, v = rotation(m)[:, :4], rotation(n, 1)[:, :4]
    x = (u * np.array([2.0, 2.0, 2.0, 0.5])) @ v.T
    check.close(gradient(la.svdvals, x), u @ v.T, 1e-10)
    check.close(gradient(lambda x: la.matrix_norm(x, ord="nuc"), x), u @ v.T, 1e-10)
    squares = gradient(lambda x: cr.square(la.svd(x, full_matrices=False).S), x)
    check.close(squares, 2 * x, 1e-10)


@pytest.mark.parametrize("shape", [(4, 4), (5, 4), (4, 6)])
def test_polar_factor_with_equal_singular_values(shape: tuple[int, int]) -> None:
    m, n = shape
    u, v = rotation(m)[:, :4], rotation(n, 1)[:, :4]
    x = (u * np.array([2.0, 2.0, 2.0, 0.5])) @ v.T
    weights = generic(m, n, salt=4)

    def polar(x: Any) -> Any:
        u, _, vh = la.svd(x, full_matrices=False)
        return cr.sum(u @ vh * weights)

    check.differences(polar, [x])


def test_singular_vectors_and_values_that_meet_are_refused() -> None:
    def rebuild(x: Any) -> Any:
        u, s, vh = la.svd(x, full_matrices=False)
        return cr.sum((u * s[None, :]) @ vh * WEIGHTS[: x.shape[0], : x.shape[1]])

    tall = np.zeros((4, 2))
    tall[0, 0] = 3.0
    for x in (np.eye(3), np.diag([3.0, 0.0, 0.0]), tall):
        with pytest.raises(cr.GradientError, match=r"svd: values.*equal \(or zero\)"):
            cr.grad(rebuild)(x)


def test_rebuilding_a_singular_matrix_from_distinct_singular_values() -> None:
    def rebuild(x: Any) -> Any:
        u, s, vh = la.svd(x, full_matrices=False)
        return cr.sum((u * s[None, :]) @ vh * WEIGHTS)

    x = (rotation(4) * np.array([3.0, 2.0, 1.0, 0.0])) @ rotation(4, 1)
    check.close(cr.grad(rebuild)(x).numpy(), WEIGHTS, 1e-10)


def test_full_svd_gives_a_gradient_to_the_values_only() -> None:
    x = generic(5, 3)
    u, s, vh = la.svd(cr.tensor(x))
    assert (u.shape, s.shape, vh.shape) == ((5, 5), (3,), (3, 3))
    check.close((u[:, :3] * s) @ vh, x, 1e-12)
    check.close(gradient(lambda x: la.svd(x).S, x), gradient(la.svdvals, x), 1e-12)
    with pytest.raises(cr.GradientError, match="use full_matrices=False"):
        gradient(lambda x: la.svd(x).U, x)
    square = generic(3, 3)
    check.differences(lambda x: size(la.svd(x).U), [square])


def test_the_phase_of_complex_vectors_is_refused() -> None:
    x = generic(3, 3, complex_=True)
    with pytest.raises(cr.GradientError, match=r"eigh: the loss depends on the phase of vector 0"):
        cr.grad(lambda x: cr.sum(real(la.eigh(hermitian(x)).eigenvectors)))(x)
    with pytest.raises(cr.GradientError, match=r"svd: the loss depends on the phase of vector 0"):
        cr.grad(lambda x: cr.sum(real(la.svd(x, full_matrices=False).U)))(x)


def test_forward_mode_through_equal_values() -> None:
    x, t = with_eigenvalues([2, 2, 5, -1]), SYMMETRIC
    _, along = cr.jvp(lambda x: cr.sum(cr.exp(la.eigvalsh(x))), (x,), (t,))
    q = rotation(4)
    check.close(along.numpy(), np.sum((q * np.exp([2, 2, 5, -1])) @ q.T * t), 1e-10)
