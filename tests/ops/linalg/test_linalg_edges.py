"""Linear algebra at singular and empty matrices, norms at 0, shapes and dtypes, errors."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import chainrule as cr
from chainrule import linalg as la
from chainrule.engine.graph import order, placeholder
from chainrule.engine.op import Op, Spec
from chainrule.ops.complex import real
from tests.ops import check
from tests.ops.against_torch import generic, torch
from tests.ops.linalg.test_linalg import PAIRS as LINALG
from tests.ops.linalg.test_linalg import gradient, hermitian, positive, size
from tests.ops.linalg.test_linalg_equations import PAIRS as EQUATIONS
from tests.ops.sample import Array
from tests.ops.signal.test_fft import PAIRS as FFT
from tests.ops.test_complex import PAIRS as COMPLEX


def rank(r: int, n: int = 4) -> Array:
    return generic(n, r) @ generic(r, n, salt=1)


@pytest.mark.parametrize("x", [rank(3), rank(2), rank(1), np.zeros((4, 4)), np.ones((3, 3))])
def test_det_of_a_singular_matrix(x: Array) -> None:
    check.differences(la.det, [x])
    check.adjoint(la.det, [x])


@pytest.mark.parametrize("c", [False, True])
def test_cofactors_next_to_a_singular_matrix_keep_their_digits(c: bool) -> None:
    x = generic(4, 3, complex_=c) @ generic(3, 4, salt=1, complex_=c)
    x = x + 1e-9 * generic(4, 4, salt=5)
    minor = lambda i, j: np.delete(np.delete(x, i, 0), j, 1)
    want = [[(-1) ** (i + j) * np.linalg.det(minor(i, j)) for j in range(4)] for i in range(4)]
    got = cr.grad(lambda x: real(la.det(x)))(x).numpy()
    check.close(got, np.conj(want), 1e-12)


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
    x = positive(generic(4, 4))
    bar = gradient(lambda x: la.cholesky(x) * generic(4, 4, salt=2), x)
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
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
}  # fmt: skip


def test_the_names_are_the_standards_pytorchs_or_scipys() -> None:
    assert set(la.__all__) >= STANDARD
    more = set(la.__all__) - STANDARD - {"kron", "MatrixError"}
    others = (torch.linalg, torch, scipy.linalg)
    assert not [name for name in more if not any(hasattr(m, name) for m in others)]
    results = la.eigh(cr.eye(2)), la.qr(cr.eye(2)), la.slogdet(cr.eye(2)), la.svd(cr.eye(2))
    fields = [getattr(r, "_fields", None) for r in results]
    assert fields[0] == ("eigenvalues", "eigenvectors")
    assert fields[1:] == [("Q", "R"), ("sign", "logabsdet"), ("U", "S", "Vh")]


SCIPYS = {"Sylvester", "SquareRoot", "SolveBanded"}
"""Ops that PyTorch does not have: see `test_matrix_equations`."""


def test_no_op_of_these_families_goes_untested() -> None:
    """Every kind of op that they define is in the graphs of the pairs or of their gradients."""
    packages = ("chainrule.ops.linalg", "chainrule.ops.signal.fft", "chainrule.ops.complex")
    modules = [m for name, m in sys.modules.items() if name.startswith(packages)]
    classes = {c for m in modules for c in vars(m).values() if isinstance(c, type)}
    kinds = {c for c in classes if issubclass(c, Op) and c.__module__.startswith(packages)}
    seen: set[type] = set()
    for pair in [*LINALG, *EQUATIONS, *FFT, *COMPLEX]:
        xs = [cr.tensor(x, requires_grad=True) for x in pair.args]
        y = pair.ours(*xs)
        y.backward(np.ones(y.shape, y.dtype), create_graph=True)
        roots = [x.grad.node for x in xs if x.grad is not None]
        nodes = order([n for n in [y.node, *roots] if n is not None])
        seen |= {type(n.op) for n in nodes}
    kinds = {c for c in kinds if not inspect.isabstract(c)}
    assert kinds
    assert {c.__name__ for c in kinds - seen} <= {"Pivots", "RowOrder"} | SCIPYS  # indices
