"""Linear algebra against PyTorch and central differences; equal values, singular matrices, errors.

Decompositions are compared through functions that do not depend on signs and phases of vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import linalg as la
from chainrule.graph import placeholder
from chainrule.op import Spec
from chainrule.ops.complex import conj
from ops import check
from ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp
from ops.sample import Array

tl: Any = torch.linalg


def mh(x: Any) -> Any:
    return conj(la.matrix_transpose(x))


def hermitian(x: Any) -> Any:
    return (x + mh(x)) / 2


def positive(x: Any) -> Any:
    return x @ mh(x) + np.eye(x.shape[-1], dtype=x.dtype)


def t_hermitian(x: Any) -> Any:
    return (x + x.mH) / 2


def t_positive(x: Any) -> Any:
    return x @ x.mH + torch.eye(x.shape[-1], dtype=x.dtype)


def size(x: Any) -> Any:
    return x * conj(x)


def t_size(x: Any) -> Any:
    return x * x.conj()


def columns(x: Any) -> Any:
    """The tall part Q of a QR decomposition, up to signs."""
    return size(la.qr(x).Q)


def upper_factor(x: Any) -> Any:
    return size(la.qr(x).R)


def t_upper_factor(x: Any) -> Any:
    return t_size(tl.qr(x).R)


def spectral(x: Any) -> Any:
    """Values and vectors together: V diag(sin w) VH, and the sizes of the elements of V."""
    w, v = la.eigh(hermitian(x))
    return (v * cr.sin(w)[..., None, :]) @ mh(v) + size(v)


def t_spectral(x: Any) -> Any:
    w, v = tl.eigh(t_hermitian(x))
    return (v * torch.sin(w)[..., None, :]) @ v.mH + t_size(v)


def rebuilt(x: Any) -> Any:
    """U diag(sin s) VH."""
    u, s, vh = la.svd(x, full_matrices=False)
    return (u * cr.sin(s)[..., None, :]) @ vh


def t_rebuilt(x: Any) -> Any:
    u, s, vh = tl.svd(x, full_matrices=False)
    return (u * torch.sin(s)[..., None, :]) @ vh


def left_vectors(x: Any) -> Any:
    return size(la.svd(x, full_matrices=False).U)


def right_vectors(x: Any) -> Any:
    return size(la.svd(x, full_matrices=False).Vh)


def triangular(**how: bool) -> Callable[..., Any]:
    def solve(a: Any, b: Any) -> Any:
        return la.solve_triangular(a + 3 * np.eye(a.shape[-1]), b, **how)

    return solve


def t_triangular(**how: bool) -> Callable[..., Any]:
    def solve(a: Any, b: Any) -> Any:
        a = a + 3 * torch.eye(a.shape[-1], dtype=a.dtype)
        return tl.solve_triangular(_triangle(a, **how), b, **{"upper": False, **how})

    return solve


def _triangle(a: Any, upper: bool = False, unitriangular: bool = False, **_: bool) -> Any:
    offset = 1 if unitriangular else 0
    return torch.triu(a, offset) if upper else torch.tril(a, -offset)


def norms(shape: tuple[int, ...], is_complex: bool) -> list[Pair]:
    x = generic(*shape, complex_=is_complex)
    out: list[Pair] = []
    for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        out.append(
            Pair(
                f"matrix_norm {ord}",
                lambda x, o=ord: la.matrix_norm(x, ord=o, keepdims=o == 1),
                lambda x, o=ord: tl.matrix_norm(x, ord=o, keepdim=o == 1),
                (x,),
            )
        )
    for ord in (2, 1, 3, 2.5, -1, math.inf, -math.inf):
        out.append(
            Pair(
                f"vector_norm {ord}",
                lambda x, o=ord: la.vector_norm(x, axis=-1, ord=o),
                lambda x, o=ord: tl.vector_norm(x, dim=-1, ord=o),
                (x,),
            )
        )
    return out


def pairs_of(c: bool) -> list[Pair]:
    """The functions on real (or complex) arguments, batched and not."""

    def g(*shape: int, salt: int = 0) -> Array:
        return generic(*shape, salt=salt, complex_=c)

    square, batch, tall = g(4, 4), g(2, 3, 3), g(2, 5, 3)
    wide = np.ascontiguousarray(np.swapaxes(g(2, 5, 3, salt=1), -1, -2))
    return [
        Pair("inv", la.inv, tl.inv, (square,)),
        Pair("inv", la.inv, tl.inv, (batch,)),
        Pair("solve", la.solve, tl.solve, (square, g(4, 2))),
        Pair("solve", la.solve, tl.solve, (batch, g(3, 2))),
        Pair("solve", la.solve, tl.solve, (g(3, 3), g(2, 3, 4))),
        Pair("solve vector", la.solve, tl.solve, (square, g(4))),
        Pair("det", la.det, tl.det, (square,), 1e-9),
        Pair("det", la.det, tl.det, (batch,), 1e-9),
        Pair("logdet", lambda x: la.slogdet(x)[1], lambda x: tl.slogdet(x)[1], (batch,)),
        Pair(
            "slogdet",
            lambda x: la.slogdet(x)[0] * la.slogdet(x)[1],
            lambda x: tl.slogdet(x)[0] * tl.slogdet(x)[1],
            (g(3, 3),),
        ),
        Pair(
            "cholesky",
            lambda x: la.cholesky(positive(x)),
            lambda x: tl.cholesky(t_positive(x)),
            (batch,),
        ),
        Pair(
            "cholesky upper",
            lambda x: la.cholesky(positive(x), upper=True),
            lambda x: tl.cholesky(t_positive(x), upper=True),
            (square,),
        ),
        Pair("qr Q", columns, lambda x: t_size(tl.qr(x).Q), (tall,)),
        Pair("qr R", upper_factor, t_upper_factor, (tall,)),
        Pair("qr square", upper_factor, t_upper_factor, (square,)),
        Pair("qr wide Q", columns, lambda x: t_size(tl.qr(x).Q), (wide,)),
        Pair("qr wide R", upper_factor, t_upper_factor, (wide,)),
        Pair("eigh", spectral, t_spectral, (square,), 1e-9),
        Pair("eigh", spectral, t_spectral, (batch,), 1e-9),
        Pair(
            "eigvalsh",
            lambda x: la.eigvalsh(hermitian(x)),
            lambda x: tl.eigvalsh(t_hermitian(x)),
            (batch,),
        ),
        Pair("svd", rebuilt, t_rebuilt, (square,), 1e-8),
        Pair("svd tall", rebuilt, t_rebuilt, (tall,), 1e-8),
        Pair("svd wide", rebuilt, t_rebuilt, (wide,), 1e-8),
        Pair("svd U", left_vectors, lambda x: t_size(tl.svd(x, False).U), (tall,), 1e-8),
        Pair("svd Vh", right_vectors, lambda x: t_size(tl.svd(x, False).Vh), (wide,), 1e-8),
        Pair("svdvals", la.svdvals, tl.svdvals, (wide,)),
        Pair("pinv", la.pinv, tl.pinv, (tall,), 1e-9),
        Pair("pinv", la.pinv, tl.pinv, (wide,), 1e-9),
        *[
            Pair(
                f"matrix_power {n}",
                lambda x, n=n: la.matrix_power(x, n),
                lambda x, n=n: tl.matrix_power(x, n),
                (batch,),
                1e-9,
            )
            for n in (1, 2, 5, -1, -3)
        ],
        Pair("trace", la.trace, torch.trace, (square,)),
        *[
            Pair(
                f"diagonal {k}",
                lambda x, k=k: la.diagonal(x, offset=k),
                lambda x, k=k: torch.diagonal(x, k, -2, -1),
                (tall,),
            )
            for k in (0, 1, -2)
        ],
        Pair("cross", la.cross, lambda a, b: tl.cross(a, b), (g(1, 2, 3), g(4, 2, 3, salt=1))),
        Pair(
            "cross axis",
            lambda a, b: la.cross(a, b, axis=-2),
            lambda a, b: tl.cross(a, b, dim=-2),
            (g(3, 4), g(3, 4, salt=1)),
        ),
        Pair("kron", la.kron, torch.kron, (g(2, 3), g(3, 2, salt=1))),
        Pair("kron", la.kron, torch.kron, (g(2, 2, 3), g(3, salt=1))),
        Pair("outer", la.outer, torch.outer, (g(3), g(4, salt=1))),
        Pair("matmul", la.matmul, torch.matmul, (g(2, 3, 4), g(4, 5))),
        Pair(
            "tensordot",
            lambda a, b: la.tensordot(a, b, axes=1),
            lambda a, b: torch.tensordot(a, b, 1),
            (g(2, 3, 4), g(4, 5)),
        ),
        *[
            Pair(f"solve_triangular {how}", triangular(**how), t_triangular(**how), args)
            for how, args in (
                ({}, (batch, g(2, 3, 4))),
                ({"upper": True}, (g(3, 3), g(2, 3, 4))),
                ({"left": False}, (g(3, 3), g(2, 4, 3))),
                ({"upper": True, "unitriangular": True}, (batch, g(3, 2))),
            )
        ],
        *norms((2, 4, 3), c),
    ]


PAIRS = pairs_of(False) + pairs_of(True)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_value_and_gradient_are_those_of_torch(pair: Pair) -> None:
    value_and_vjp(pair)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_jvp_is_that_of_torch(pair: Pair) -> None:
    forward(pair)


@pytest.mark.parametrize("pair", [p for p in PAIRS if p.second], ids=str)
def test_second_derivative_is_that_of_torch(pair: Pair) -> None:
    second_order(pair)


# --- What PyTorch has no answer for, or another one ------------------------------------------------


def gradient(f: Callable[..., Any], x: Array) -> Array:
    return cr.grad(lambda x: cr.sum(f(x)))(cr.tensor(x)).numpy()


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


def rank(r: int, n: int = 4) -> Array:
    return generic(n, r) @ generic(r, n, salt=1)


@pytest.mark.parametrize("x", [rank(3), rank(2), rank(1), np.zeros((4, 4)), np.ones((3, 3))])
def test_det_of_a_singular_matrix(x: Array) -> None:
    check.differences(la.det, [x])
    check.adjoint(la.det, [x])


@pytest.mark.parametrize("x", [generic(3, 3), rank(2, 3), rank(1, 3)])
def test_hessian_of_det_is_the_differences_of_its_gradient(x: Array) -> None:
    check.second_order(la.det, [x])


def test_cofactors_of_the_zero_matrix_in_two_dimensions() -> None:
    hessian = cr.hessian(la.det)(np.zeros((2, 2))).numpy()
    want = np.zeros((2, 2, 2, 2))
    want[0, 0, 1, 1] = want[1, 1, 0, 0] = 1  # ad - bc
    want[0, 1, 1, 0] = want[1, 0, 0, 1] = -1
    check.close(hessian, want, 1e-12, 1e-14)


def test_slogdet_of_a_singular_matrix() -> None:
    x = np.stack([np.array([[1.0, 2.0], [2.0, 4.0]]), np.diag([2.0, 3.0])])
    sign, log = la.slogdet(cr.tensor(x))
    assert sign.tolist() == [0, 1]
    assert log.tolist() == [-math.inf, math.log(6)]
    masked = gradient(lambda x: cr.where(la.det(x) == 0, 0, la.slogdet(x)[1]), x)
    check.close(masked, np.stack([np.zeros((2, 2)), np.diag([1 / 2, 1 / 3])]), 1e-12)
    assert np.isnan(gradient(lambda x: la.slogdet(x)[1], x)[0]).all()


def test_the_gradient_of_cholesky_is_symmetric_and_reads_the_lower_triangle() -> None:
    x = with_eigenvalues([1, 2, 3, 4])
    bar = gradient(lambda x: la.cholesky(x) * WEIGHTS, x)
    check.close(bar, bar.T, 1e-12)
    junk = np.tril(x) + np.triu(np.full((4, 4), 7.0), 1)
    check.close(la.cholesky(cr.tensor(junk)), la.cholesky(cr.tensor(x)), 1e-12)


def test_vector_norms_at_zero_and_the_count() -> None:
    x = np.array([[0.0, 0.0], [3.0, 4.0]])
    check.close(gradient(lambda x: la.vector_norm(x, axis=-1), x), [[0, 0], [0.6, 0.8]], 1e-12)
    assert la.vector_norm(cr.tensor(x), ord=0).item() == 2
    z = la.vector_norm(cr.tensor([3 + 4j, 0, 1j]), ord=0)
    assert z.item() == 2
    assert z.dtype.kind == "f"


def test_matrix_rank() -> None:
    x = np.stack([rank(3), rank(1), np.zeros((4, 4))])
    assert la.matrix_rank(cr.tensor(x)).tolist() == [3, 1, 0]
    assert la.matrix_rank(cr.tensor(np.diag([1.0, 0.1, 0.01])), rtol=0.05).item() == 2
    limits = cr.tensor(np.array([0.05, 0.5]))
    pair = cr.tensor(np.stack([np.diag([1.0, 0.1, 0.01])] * 2))
    assert la.matrix_rank(pair, rtol=limits).tolist() == [2, 1]


def test_pinv_counts_small_values_as_zero() -> None:
    x = np.diag([1.0, 1e-3])
    check.close(la.pinv(cr.tensor(x), rtol=0.01), np.diag([1.0, 0.0]), 1e-12)
    check.close(la.pinv(cr.tensor(x)), np.diag([1.0, 1e3]), 1e-12)
    check.close(la.pinv(cr.tensor(rank(2))), np.linalg.pinv(rank(2), rtol=1e-10), 1e-8)


def test_complete_qr_has_a_value_and_for_wide_matrices_a_gradient() -> None:
    x = generic(5, 3)
    q, r = la.qr(cr.tensor(x), mode="complete")
    assert (q.shape, r.shape) == ((5, 5), (5, 3))
    check.close(q @ r, x, 1e-12)
    with pytest.raises(cr.GradientError, match="mode='reduced'"):
        gradient(lambda x: la.qr(x, mode="complete").R, x)
    check.differences(lambda x: size(la.qr(x, mode="complete").R), [generic(3, 5)])


def test_matrix_power_zero_is_the_identity() -> None:
    y = la.matrix_power(cr.tensor(generic(2, 3, 3)), 0)
    assert np.array_equal(y.numpy(), np.broadcast_to(np.eye(3), (2, 3, 3)))


def test_norms_of_order_half_against_differences() -> None:
    check.differences(lambda x: la.vector_norm(x, axis=0, ord=0.5), [generic(3, 2)])


DECOMPOSITIONS: dict[str, Callable[..., Any]] = {
    "inv": la.inv, "det": la.det, "slogdet": lambda x: la.slogdet(x)[1],
    "cholesky": lambda x: la.cholesky(positive(x)), "qr": lambda x: la.qr(x).R,
    "eigh": lambda x: la.eigh(hermitian(x)).eigenvectors, "svdvals": la.svdvals, "pinv": la.pinv,
    "solve": lambda x: la.solve(x, x[..., 0:2]), "norm": la.matrix_norm, "trace": la.trace,
    "triangular": lambda x: la.solve_triangular(x, x), "diagonal": la.diagonal,
    "cross": lambda x: la.cross(x, x + 1), "kron": lambda x: la.kron(x, x),
}  # fmt: skip


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_every_execution_agrees(name: str) -> None:
    """Forward and reverse; with and without recording; shapes without values."""
    f, x = DECOMPOSITIONS[name], generic(2, 3, 3)
    check.adjoint(f, [x])
    check.recorded(f, [x])
    check.specs(f, [x])
    check.dtypes(f, [x], np.float32, 2e-3)


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_specs_of_complex_arguments(name: str) -> None:
    f, x = DECOMPOSITIONS[name], generic(2, 3, 3, complex_=True)
    y, want = f(placeholder(x.shape, x.dtype, needs=True)), f(cr.tensor(x))
    assert type(y.value) is Spec
    assert (y.shape, y.dtype) == (want.shape, want.dtype)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (3, 3)])
def test_specs_of_every_output(shape: tuple[int, int], full: bool) -> None:
    x = cr.tensor(generic(*shape))
    hole = placeholder(x.shape, x.dtype, needs=True)
    mode = "complete" if full else "reduced"
    for f in (lambda x: la.svd(x, full_matrices=full), lambda x: la.qr(x, mode=mode)):
        for got, want in zip(f(hole), f(x), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_matrices_without_elements(shape: tuple[int, ...]) -> None:
    x = cr.zeros(shape, np.float64)
    assert la.det(x).tolist() == np.linalg.det(x.numpy()).tolist()
    assert gradient(la.det, x.numpy()).shape == shape
    assert gradient(la.svdvals, x.numpy()).shape == shape
    assert gradient(lambda x: la.eigh(x).eigenvectors, x.numpy()).shape == shape
    assert la.inv(x).shape == la.solve_triangular(x, x).shape == shape
    assert la.matrix_rank(x).shape == shape[:-2]


# --- Errors --------------------------------------------------------------------------------------


def test_integers_count_as_float64_and_float16_is_refused() -> None:
    assert la.det(cr.tensor([[2, 1], [1, 3]])).dtype == np.float64
    with pytest.raises(cr.DtypeError, match="inv: float16 is too coarse"):
        la.inv(cr.ones((2, 2), np.float16))


@pytest.mark.parametrize("f", [la.inv, lambda x: la.solve(x, x), la.solve_triangular])
def test_a_singular_matrix_is_named(f: Callable[..., Any]) -> None:
    x = cr.tensor(np.stack([np.eye(2), np.zeros((2, 2))]))
    args = (x, x) if f is la.solve_triangular else (x,)
    with pytest.raises(la.MatrixError, match=r"matrix \[1\] of the batch float64 .* is singular"):
        f(*args)
    with pytest.raises(np.linalg.LinAlgError, match="the matrix float64"):
        la.inv(x[1])


def test_cholesky_of_a_matrix_that_is_not_positive_definite() -> None:
    x = cr.tensor(np.stack([np.eye(2), np.diag([1.0, -3.0])]))
    with pytest.raises(la.MatrixError, match=r"matrix \[1\] .*smallest eigenvalue is -3"):
        la.cholesky(x)


def test_infinite_matrices_do_not_converge() -> None:
    with pytest.raises(la.MatrixError, match="holds NaN or infinity"):
        la.svd(cr.tensor(np.full((3, 3), np.nan)))


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda: la.det(cr.ones((2, 3))), cr.ShapeError, r"det needs square.*\(2, 3\)"),
        (lambda: la.inv(cr.ones(3)), cr.ShapeError, "inv needs a matrix"),
        (lambda: la.solve(cr.ones((2, 2)), cr.ones((3, 1))), cr.ShapeError, "2 unknowns.*3 equat"),
        (lambda: la.diagonal(cr.ones(3)), cr.ShapeError, "diagonal needs a matrix"),
        (lambda: la.cross(cr.ones(2), cr.ones(2)), cr.ShapeError, "cross needs 3 elements"),
        (lambda: la.matrix_norm(cr.ones((2, 2)), ord=3), cr.ConfigError, "ord is 'fro'.*not 3"),
        (lambda: la.qr(cr.ones((2, 2)), mode="r"), cr.ConfigError, "not 'r'"),
    ],
)
def test_errors_say_what_was_asked(f: Callable[[], Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        f()


def test_qr_of_dependent_columns_has_a_value_and_no_gradient() -> None:
    x = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert la.qr(cr.tensor(x)).R.shape == (2, 2)
    with pytest.raises(la.MatrixError, match="singular"):
        gradient(lambda x: la.qr(x).Q, x)


STANDARD = {
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
}  # fmt: skip


def test_the_names_of_the_standard_and_no_others_but_ours() -> None:
    assert set(la.__all__) == STANDARD | {"kron", "solve_triangular", "MatrixError"}
    results = la.eigh(cr.eye(2)), la.qr(cr.eye(2)), la.slogdet(cr.eye(2)), la.svd(cr.eye(2))
    fields = [getattr(r, "_fields", None) for r in results]
    assert fields[0] == ("eigenvalues", "eigenvectors")
    assert fields[1:] == [("Q", "R"), ("sign", "logabsdet"), ("U", "S", "Vh")]
