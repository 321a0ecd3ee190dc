"""LU factors, exponentials, least squares, tensor equations against PyTorch: as `test_linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import linalg as la
from tests.ops.against_torch import Pair, Samples, forward, second_order, torch, value_and_vjp
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=2)
tl: Any = torch.linalg


def left_over(a: Any, b: Any) -> Any:
    """The sum of squares that least squares leave."""
    rest = a @ (tl.pinv(a) @ b) - b
    return (rest * rest.conj()).sum().real


def factors(x: Any) -> Any:
    return cr.concat([f.flatten() for f in la.lu(x)[1:]])


def t_factors(x: Any) -> Any:
    return torch.cat([f.flatten() for f in tl.lu(x)[1:]])


def condition(x: Any, p: Any) -> Any:
    """PyTorch's own has no gradient for norms: it overwrites the inverse that it needs."""
    if p in (None, -2):
        return tl.cond(x, p)
    return tl.matrix_norm(x, p) * tl.matrix_norm(tl.inv(x), p)


def solved(left: bool) -> Any:
    return lambda a, b: la.lu_solve(*la.lu_factor(a), b, left=left)


def t_solved(left: bool) -> Any:
    return lambda a, b: tl.lu_solve(*tl.lu_factor(a), b, left=left)


def factors_of_a_matrix(g: Samples) -> list[Pair]:
    """Exponentials and LU factors."""
    square, batch, tall, wide = g.square, g.batch, g.tall, g.wide
    return [
        Pair("matrix_exp", la.matrix_exp, tl.matrix_exp, (batch,), 1e-9),
        Pair(
            "matrix_exp, squared",
            lambda x: la.matrix_exp(x * 9),
            lambda x: tl.matrix_exp(x * 9),
            (g(3, 3),),
            1e-9,
        ),
        *[Pair("lu", factors, t_factors, (x,), 1e-9) for x in (square, tall, wide)],
        *[
            Pair("lu_factor", lambda x: la.lu_factor(x)[0], lambda x: tl.lu_factor(x)[0], (x,))
            for x in (batch, tall, wide)
        ],
    ]


def equations(g: Samples) -> list[Pair]:
    """Systems of equations, also of tensors."""
    batch, tall, wide = g.batch, g.tall, g.wide
    return [
        Pair("lu_solve", solved(True), t_solved(True), (batch, g(2, 3, 2)), 1e-9),
        Pair("lu_solve right", solved(False), t_solved(False), (batch, g(2, 2, 3)), 1e-9),
        *[
            Pair(
                "lstsq",
                lambda a, b: la.lstsq(a, b).solution,
                lambda a, b: tl.pinv(a) @ b,
                (a, g(2, a.shape[-2], 4, salt=1)),
                1e-9,
            )
            for a in (tall, wide)
        ],
        Pair("residuals", lambda a, b: la.lstsq(a, b)[1], left_over, (g(5, 3), g(5, salt=1)), 1e-9),
        Pair(
            "tensorinv", lambda x: la.tensorinv(x, 1), lambda x: tl.tensorinv(x, 1), (g(4, 2, 2),)
        ),
        Pair(
            "tensorsolve",
            lambda a, b: la.tensorsolve(a, b, axes=(0,)),
            lambda a, b: tl.tensorsolve(a, b, dims=(0,)),
            (g(2, 4, 2), g(4, salt=1)),
        ),
    ]


def products_and_norms(g: Samples) -> list[Pair]:
    """Chains of products, and norms."""
    batch, tall = g.batch, g.tall
    chain = g(3), g(3, 5, salt=1), g(5, 2), g(2, 4, salt=1)
    return [
        Pair("multi_dot", lambda *xs: la.multi_dot(xs), lambda *xs: tl.multi_dot(xs), chain),
        *[
            Pair(
                f"cond {p}", lambda x, p=p: la.cond(x, p), lambda x, p=p: condition(x, p), (batch,)
            )
            for p in (None, -2, 1, "fro", "nuc")
        ],
        Pair("norm", la.norm, tl.norm, (batch,)),
        Pair(
            "norm of matrices",
            lambda x: la.norm(x, 1, (0, 2), keepdims=True),
            lambda x: tl.norm(x, 1, (0, 2), keepdim=True),
            (g(2, 4, 3),),
        ),
        Pair(
            "householder_product",
            la.householder_product,
            tl.householder_product,
            (tall, g(2, 3, salt=1)),
            1e-9,
        ),
        Pair("vander", la.vander, tl.vander, (g(2, 3),), 1e-9),
    ]


def pairs_of(c: bool) -> list[Pair]:
    """The functions on real (or complex) arguments, batched and not."""
    parts = (factors_of_a_matrix, equations, products_and_norms)
    return [pair for part in parts for pair in part(Samples(c))]


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


def test_rows_that_are_exchanged() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 4))
    P, L, U = la.lu(cr.tensor(x))
    np.testing.assert_allclose((P @ L @ U).numpy(), x, rtol=1e-13)
    want = tl.lu(torch.tensor(x))
    np.testing.assert_array_equal(P.numpy(), want[0].numpy())
    np.testing.assert_array_equal(
        la.lu_factor(cr.tensor(x)).pivots.numpy(), tl.lu_factor(torch.tensor(x))[1].numpy()
    )


@pytest.mark.parametrize("n", [0, 1])
def test_exponentials_of_extremes(n: int) -> None:
    x = np.array([[[1e300, 1.0], [0.0, -1e300]], [[0.3, 0.1], [-0.2, 0.7]], [[np.inf, 0], [0, 0]]])
    y = la.matrix_exp(cr.tensor(x[1:])).numpy()
    np.testing.assert_allclose(y[0], tl.matrix_exp(torch.tensor(x[1])).numpy(), rtol=1e-14)
    assert np.isnan(y[1]).all() and la.matrix_exp(cr.zeros((n, n))).shape == (n, n)
    big = la.matrix_exp(cr.tensor(x[0])).numpy()
    assert big.shape == (2, 2) and not np.isfinite(big[0, 0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x: la.lstsq(x, x[0]), "lstsq: .* has 3 equations"),
        (lambda x: la.multi_dot([x]), "at least two"),
        (lambda x: la.multi_dot([x, x]), "multi_dot: matrices that fit"),
        (lambda x: la.tensorinv(x), "tensorinv"),
        (lambda x: la.tensorsolve(x, x), "tensorsolve"),
        (lambda x: la.matrix_exp(x), "matrix_exp needs square"),
        (lambda x: la.norm(x[None], 1), "norm: ord 1 is of one axis or two, not of 3"),
        (lambda x: la.lu_solve(x[:, :3], x[0], x), "lu_solve: pivots are 3 integers"),
        (lambda x: la.householder_product(x, x[0]), "householder_product"),
    ],
)
def test_mistakes(make: Any, words: str) -> None:
    with pytest.raises(cr.ChainruleError, match=words):
        make(cr.ones((3, 4)))
