"""Special functions, losses, distances, cutting and joining: what they refuse, and edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError
from chainrule.ops.losses import losses, margin_losses
from chainrule.ops.networks import activations
from chainrule.ops.reductions import distances
from chainrule.ops.shapes import arranging as extra
from chainrule.ops.special import table as special

X = cr.tensor(np.arange(12.0).reshape(3, 4))
LABELS = cr.tensor(np.array([0, 1, 7]))

REFUSED: list[tuple[Any, str]] = [
    (lambda: special.multigammaln(X, 0), "from 1 to 10000, not 0"),
    (lambda: activations.glu(X[:, :3]), "odd size"),
    (lambda: losses.l1_loss(X, X[0]), "shapes"),
    (lambda: losses.huber_loss(X, X, delta=-1.0), "positive, not -1.0"),
    (lambda: losses.l1_loss(X, X, reduction="max"), "'mean', 'sum' or 'none'"),
    (lambda: losses.nll_loss(X, X), "class indices, not float64"),
    (lambda: losses.nll_loss(X, LABELS), "nll_loss: class 7"),
    (lambda: margin_losses.multi_margin_loss(X, LABELS), "multi_margin_loss: class 7"),
    (lambda: distances.cdist(X, X[:, :2]), r"\(3, 4\) and \(3, 2\)"),
    (lambda: distances.pdist(X[0]), r"rows \(n, d\), not \(4,\)"),
    (lambda: extra.narrow(X, 1, 2, 3), "3 elements from 2 on"),
    (lambda: extra.chunk(X, 0), "at least 1, not 0"),
    (lambda: extra.tensor_split(X, 0), "0 pieces cannot be made"),
    (lambda: extra.unflatten(X, 1, (3, 2)), r"not cut into \(3, 2\)"),
    (lambda: extra.unfold(X, 1, 5, 1), "no windows of 5"),
    (lambda: extra.rot90(X, 1, (0, -2)), "one axis twice"),
    (lambda: extra.block_diag(X, cr.zeros((1, 2, 3))), "needs matrices"),
    (lambda: extra.diag(cr.zeros((1, 2, 3))), "a vector or a matrix"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_is_refused_says_why(call: Any, message: str):
    with pytest.raises(ChainruleError, match=message):
        call()


def test_special_functions_are_there_for_single_numbers():
    y = cr.Value(1.5)
    z = special.lgamma(y) + special.fmax(y, 1.0) + special.sinc(y)
    z.backward()
    x = cr.tensor(np.float64(1.5), requires_grad=True)
    (special.lgamma(x) + special.fmax(x, 1.0) + special.sinc(x)).backward()
    assert x.grad is not None and y.grad == pytest.approx(x.grad.item(), rel=1e-12)


def test_xlogy_at_zero_is_zero_with_zero_slopes():
    a, b = (cr.tensor(np.zeros(2), requires_grad=True) for _ in range(2))
    y = special.xlogy(a, b)
    cr.sum(y).backward()
    for x in (y.detach(), a.grad, b.grad):
        assert x is not None and x.tolist() == [0, 0]


def test_fmax_passes_nan_by():
    a = cr.tensor(np.array([math.nan, 1.0, math.nan]), requires_grad=True)
    b = cr.tensor(np.array([2.0, math.nan, math.nan]), requires_grad=True)
    special.fmax(a, b)[:2].sum().backward()
    assert a.grad is not None and a.grad.tolist() == [0, 1, 0]
    assert b.grad is not None and b.grad.tolist() == [1, 0, 0]


def test_activations_at_their_kinks_are_flat():
    x = cr.tensor(np.array([-1.0, 1.0]))
    assert cr.grad(lambda t: cr.sum(activations.hardtanh(t)))(x).tolist() == [0, 0]
    assert cr.grad(lambda t: cr.sum(activations.softshrink(t, 1.0)))(x).tolist() == [0, 0]
    assert cr.grad(lambda t: cr.sum(activations.hardshrink(t, 1.0)))(x).tolist() == [0, 0]


def test_distance_of_equal_rows_has_gradient_zero():
    bar = cr.grad(lambda x: cr.sum(distances.cdist(x, x)))(X)
    assert np.isfinite(bar.numpy()).all()


def test_nan_to_num_sends_nothing_to_what_it_replaced():
    x = cr.tensor(np.array([math.nan, math.inf, -math.inf, 2.0]))
    assert special.nan_to_num(x, nan=7, posinf=8, neginf=9).tolist() == [7, 8, 9, 2]
    assert cr.grad(lambda t: cr.sum(special.nan_to_num(t)))(x).tolist() == [0, 0, 0, 1]


def test_ignored_labels_do_not_count():
    logp = cr.log_softmax(X)
    some = losses.nll_loss(logp, cr.tensor(np.array([0, 9, 2])), ignore_index=9)
    assert some.item() == pytest.approx(-(logp[0, 0] + logp[2, 2]).item() / 2)


@pytest.mark.parametrize("whole", [np.int8, np.int32, np.int64, np.bool_])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_integers_leave_the_dtype_of_ldexp_alone(dtype: Any, whole: Any):
    x, n = np.array([1.5, -0.25, 0.0], dtype), np.array([3, 0, 1]).astype(whole)
    want = np.ldexp(x, n)
    for f in (special.ldexp, cr.jit(special.ldexp)):
        y = f(cr.tensor(x), cr.tensor(n))
        assert y.dtype == want.dtype == dtype
        np.testing.assert_array_equal(y.numpy(), want)
    slope = cr.grad(lambda x: cr.sum(special.ldexp(x, n)))(x)
    assert slope.dtype == dtype and slope.tolist() == (2.0 ** n.astype(float)).tolist()


def test_ldexp_of_small_numbers_does_not_overflow():
    x, n = np.array([1e-30, 1e30], np.float32), np.array([150, -150])
    np.testing.assert_array_equal(special.ldexp(cr.tensor(x), cr.tensor(n)).numpy(), np.ldexp(x, n))
