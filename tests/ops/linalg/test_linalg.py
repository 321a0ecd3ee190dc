"""Linear algebra against PyTorch, real and complex: value, gradient, jvp, second derivative.

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
from chainrule.ops.complex import conj
from tests.ops.against_torch import (
    Pair,
    Samples,
    forward,
    generic,
    second_order,
    torch,
    value_and_vjp,
)
from tests.ops.sample import Array

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


def general(x: Any) -> Any:
    """Of values and vectors what depends on no phase."""
    w, v = la.eig(x)
    return cr.abs(v) * cr.expand_dims(cr.abs(w), -2)


def t_general(x: Any) -> Any:
    w, v = tl.eig(x)
    return v.abs() * w.abs()[..., None, :]


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


def gradient(f: Callable[..., Any], x: Array) -> Array:
    return cr.grad(lambda x: cr.sum(f(x)))(cr.tensor(x)).numpy()


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


def solutions(g: Samples) -> list[Pair]:
    """Inverses, solutions and determinants."""
    square, batch = g.square, g.batch
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
        *[
            Pair(f"solve_triangular {how}", triangular(**how), t_triangular(**how), args)
            for how, args in (
                ({}, (batch, g(2, 3, 4))),
                ({"upper": True}, (g(3, 3), g(2, 3, 4))),
                ({"left": False}, (g(3, 3), g(2, 4, 3))),
                ({"upper": True, "unitriangular": True}, (batch, g(3, 2))),
            )
        ],
    ]


def factors_of_a_matrix(g: Samples) -> list[Pair]:
    """Cholesky's and the QR factors."""
    square, batch, tall, wide = g.square, g.batch, g.tall, g.wide
    return [
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
    ]


def spectra(g: Samples) -> list[Pair]:
    """Eigenvalues and singular values, and what belongs to them."""
    square, batch, tall, wide = g.square, g.batch, g.tall, g.wide
    return [
        Pair("eig", general, t_general, (square,), 1e-8),
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
    ]


def powers_and_diagonals(g: Samples) -> list[Pair]:
    """Pseudoinverses, powers, traces and diagonals."""
    square, batch, tall, wide = g.square, g.batch, g.tall, g.wide
    return [
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
    ]


def products(g: Samples) -> list[Pair]:
    """Products of vectors and of matrices."""
    return [
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
    ]


def pairs_of(c: bool) -> list[Pair]:
    """The functions on real (or complex) arguments, batched and not."""
    parts = (solutions, factors_of_a_matrix, spectra, powers_and_diagonals, products)
    return [pair for part in parts for pair in part(Samples(c))] + norms((2, 4, 3), c)


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
