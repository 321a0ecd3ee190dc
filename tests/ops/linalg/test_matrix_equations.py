"""Sylvester's and banded equations, and the square root of a matrix: SciPy's values, derivatives
against differences in both modes and to second order, compiled, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl

import chainrule as cr
from tests.ops.against_torch import generic

la = cr.linalg


def _shifted(*shape: int, c: bool, salt: int = 0) -> Any:
    """Matrices whose eigenvalues lie well to the right of 0."""
    n = shape[-1]
    return generic(*shape, salt=salt, complex_=c) / n + 3 * np.eye(n)


def _bands(*shape: int, c: bool) -> Any:
    """Diagonals of which the main one, the third, is the largest."""
    return generic(*shape, complex_=c) + np.array([0, 0, 6, 0])[:, None]


def cases(c: bool) -> dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any]]]:
    """Ours, SciPy's, arguments."""
    g = lambda *shape: generic(*shape, salt=5, complex_=c)
    return {
        "sylvester": (
            la.solve_sylvester, sl.solve_sylvester,
            [_shifted(4, 4, c=c), _shifted(3, 3, c=c, salt=2), g(4, 3)],
        ),
        "root": (la.sqrtm, sl.sqrtm, [_shifted(4, 4, c=c)]),
        "banded": (
            lambda ab, b: la.solve_banded((1, 2), ab, b),
            lambda ab, b: sl.solve_banded((1, 2), ab, b), [_bands(4, 6, c=c), g(6, 2)],
        ),
        "one column": (
            lambda ab, b: la.solve_banded((1, 2), ab, b),
            lambda ab, b: sl.solve_banded((1, 2), ab, b), [_bands(4, 6, c=c), g(6)],
        ),
    }  # fmt: skip


NAMES = [(name, c) for c in (False, True) for name in cases(c)]


@pytest.mark.parametrize(("name", "c"), NAMES)
def test_values_are_scipys(name: str, c: bool) -> None:
    ours, theirs, xs = cases(c)[name]
    np.testing.assert_allclose(ours(*map(cr.tensor, xs)).numpy(), theirs(*xs), rtol=1e-10)


@pytest.mark.parametrize(("name", "c"), NAMES)
def test_derivatives_are_differences_in_both_modes_and_compiled(name: str, c: bool) -> None:
    f, _, xs = cases(c)[name]
    given = [cr.tensor(x) for x in xs]
    y = f(*given)
    w = generic(*y.shape, salt=9, complex_=c)
    step = cr.jit(lambda *xs: cr.vjp(f, *xs)[1](cr.tensor(w)))
    backs = [step(*given), cr.vjp(f, *given)[1](cr.tensor(w))]
    for i, x in enumerate(xs):
        t = generic(*x.shape, salt=3 + i, complex_=c)
        others = given[:i], given[i + 1 :]
        moved = lambda s, x=x, t=t, o=others: f(*o[0], cr.tensor(x + s * t), *o[1])
        difference = (moved(1e-6) - moved(-1e-6)).numpy() / 2e-6
        ts = [cr.tensor(t) if k == i else cr.zeros_like(z) for k, z in enumerate(given)]
        y_dot = cr.jvp(f, given, ts)[1].numpy()
        np.testing.assert_allclose(y_dot, difference, rtol=1e-6, atol=1e-8)
        for back in backs:
            along = np.sum(np.conj(back[i].numpy()) * t).real
            np.testing.assert_allclose(along, np.sum(np.conj(w) * difference).real, rtol=1e-6)


@pytest.mark.parametrize("name", cases(False))
def test_second_derivatives_are_differences_of_the_first(name: str) -> None:
    f, _, xs = cases(False)[name]
    loss = lambda x: cr.sum(cr.sin(f(x, *map(cr.tensor, xs[1:]))))
    x, t = xs[0], generic(*xs[0].shape, salt=4)
    first = lambda s: cr.grad(loss)(cr.tensor(x + s * t)).numpy()
    (found,) = cr.hvp(loss, (cr.tensor(x),), (cr.tensor(t),))
    difference = (first(1e-6) - first(-1e-6)) / 2e-6
    np.testing.assert_allclose(found.numpy(), difference, rtol=1e-5, atol=1e-7)


def test_batches_are_broadcast() -> None:
    a, b, q = _shifted(2, 4, 4, c=False), _shifted(3, 3, c=False, salt=2), generic(2, 4, 3)
    y = la.solve_sylvester(*map(cr.tensor, (a, b, q))).numpy()
    np.testing.assert_allclose(a @ y + y @ b, q, rtol=1e-10)
    x = _shifted(2, 3, 3, c=False)
    root = cr.vmap(la.sqrtm)(cr.tensor(x)).numpy()
    np.testing.assert_allclose(root @ root, x, rtol=1e-10)
    ab, right = np.stack([_bands(4, 6, c=False)] * 2), generic(6, 2)
    y = la.solve_banded((1, 2), cr.tensor(ab), cr.tensor(right)).numpy()
    np.testing.assert_allclose(y[1], sl.solve_banded((1, 2), ab[1], right), rtol=1e-10)


def test_what_lies_outside_of_the_matrix_is_not_read() -> None:
    ab = _bands(4, 6, c=False)
    ab[0, :2] = ab[1, 0] = ab[3, -1] = np.nan
    x = cr.tensor(ab, requires_grad=True)
    y = la.solve_banded((1, 2), x, cr.ones(6, dtype=np.float64))
    y.sum().backward()
    assert np.isfinite(y.detach().numpy()).all() and x.grad is not None
    assert (x.grad.numpy()[np.isnan(ab)] == 0).all() and np.isfinite(x.grad.numpy()).all()


def test_triangles_solve_and_invert() -> None:
    x = _shifted(4, 4, c=True)
    x, b = x @ np.conj(x.T), cr.tensor(generic(4, 2, complex_=True))
    low = la.cholesky(cr.tensor(x))
    for factor, upper in ((low, False), (cr.conj(low.mT), True)):
        np.testing.assert_allclose(x @ la.cholesky_solve(b, factor, upper=upper).numpy(), b.numpy())
        inverse = la.cholesky_inverse(factor, upper=upper).numpy()
        np.testing.assert_allclose(x @ inverse, np.eye(4), atol=1e-12)


EYE = cr.tensor(np.eye(2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: la.sqrtm(-EYE), "negative eigenvalues.*complex"),
        (lambda: la.solve_sylvester(EYE, -EYE, EYE), "eigenvalue in common"),
        (lambda: la.solve_sylvester(EYE, EYE, cr.ones((2, 3))), "matrices of 2 by 2"),
        (lambda: la.solve_banded((0, 0), cr.zeros((1, 2)), cr.ones(2)), "singular"),
        (lambda: la.solve_banded((1, 0), EYE, cr.ones(3)), "2 unknowns.*3 equations"),
        (lambda: la.solve_banded((1, 2), EYE, cr.ones(2)), "are 4 rows"),
    ],
)
def test_what_cannot_be_solved_is_refused(call: Any, words: str) -> None:
    with pytest.raises((la.MatrixError, ValueError), match=words):
        call()
