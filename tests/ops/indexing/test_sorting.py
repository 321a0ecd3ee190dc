"""Sorting and order statistics: PyTorch's and NumPy's opinions, ties, NaN, infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ConfigError, DtypeError, ShapeError, TraceError
from chainrule.ops.indexing import sets
from chainrule.ops.indexing import sorting as s
from tests.ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp

X = generic(3, 5, 4)
TIES = np.array([2.0, 1.0, 2.0, 1.0, 3.0])
HOW = ("linear", "lower", "higher", "midpoint", "nearest")
Q = np.array([0.0, 0.3, 0.5, 0.71, 1.0])


def _pairs(axis: int) -> list[Pair]:
    return [
        Pair(f"{name}_{axis}", ours, theirs, (X,))
        for name, ours, theirs in (
            ("sort", lambda x: s.sort(x, axis=axis), lambda x: torch.sort(x, axis)[0]),
            (
                "descending",
                lambda x: s.sort(x, axis=axis, descending=True),
                lambda x: torch.sort(x, axis, True)[0],
            ),
            ("topk", lambda x: s.topk(x, 2, axis=axis)[0], lambda x: torch.topk(x, 2, axis)[0]),
            (
                "smallest",
                lambda x: s.topk(x, 3, axis=axis, largest=False)[0],
                lambda x: torch.topk(x, 3, axis, largest=False)[0],
            ),
            (
                "kthvalue",
                lambda x: s.kthvalue(x, 2, axis=axis)[0],
                lambda x: torch.kthvalue(x, 2, axis)[0],
            ),
            (
                "median",
                lambda x: s.median(x, axis=axis, keepdims=True),
                lambda x: torch.median(x, axis, keepdim=True)[0],
            ),
            *[
                (
                    how,
                    lambda x, how=how: s.quantile(x, Q, axis=axis, interpolation=how),
                    lambda x, how=how: torch.quantile(x, torch.tensor(Q), axis, interpolation=how),
                )
                for how in HOW
            ],
        )
    ]


PAIRS = [p for axis in (0, 1, -1) for p in _pairs(axis) if X.shape[axis] > 2]
PAIRS.append(Pair("median", s.median, torch.median, (X,)))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_agrees_with_torch(pair: Pair) -> None:
    value_and_vjp(pair)
    forward(pair)
    second_order(
        Pair(pair.name, lambda x: pair.ours(x) ** 3, lambda x: pair.theirs(x) ** 3, pair.args)
    )


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_quantile_has_numpys_values(how: Any, keepdims: bool, axis: int | None) -> None:
    for q in (0.25, Q):
        got = s.quantile(X, q, axis=axis, keepdims=keepdims, interpolation=how)
        want = np.quantile(X, q, axis=axis, keepdims=keepdims, method=how)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_equal_elements_keep_their_order() -> None:
    assert s.argsort(TIES).tolist() == [1, 3, 0, 2, 4]
    assert s.argsort(TIES, descending=True).tolist() == [4, 0, 2, 1, 3]
    x = cr.tensor(TIES)
    for f, want in (
        (lambda x: s.topk(x, 2)[0].sum(), [1, 0, 0, 0, 1]),
        (lambda x: s.topk(x, 1, largest=False)[0].sum(), [0, 1, 0, 0, 0]),
        (lambda x: s.median(x), [1, 0, 0, 0, 0]),
        (lambda x: s.kthvalue(x, 4)[0], [0, 0, 1, 0, 0]),
        (lambda x: s.quantile(x, 0.125), [0, 0.5, 0, 0.5, 0]),
    ):
        assert cr.grad(f)(x).tolist() == want


def test_nan_is_the_largest_and_stays() -> None:
    x = np.array([1.0, np.nan, -1.0])
    assert s.argsort(x).tolist() == [2, 0, 1] and s.argsort(x, descending=True).tolist() == [
        1,
        0,
        2,
    ]
    assert np.isnan(s.median(x)) and np.isnan(s.quantile(x, [0.0, 1.0])).all()


def test_infinity_does_not_spoil_its_neighbours() -> None:
    x = np.array([-np.inf, 1.0, 2.0, 3.0, np.inf])
    assert s.quantile(x, [0, 0.25, 0.375, 0.75, 1]).tolist() == [-np.inf, 1, 1.5, 3, np.inf]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_ranks_are_exact_in_short_floats(dtype: Any) -> None:
    x = np.arange(5001).astype(dtype)
    y = s.quantile(x, 0.5002, interpolation="lower")
    assert y.dtype == dtype and y == x[2501]


def test_searchsorted() -> None:
    x, v = np.array([1.0, 2.0, 2.0, 5.0]), np.array([[2.0, 0.0], [9.0, 5.0]])
    assert s.searchsorted(x, v).tolist() == [[1, 0], [4, 3]]
    assert s.searchsorted(x, v, side="right").tolist() == [[3, 0], [4, 4]]
    turned = x[[2, 0, 3, 1]]
    assert s.searchsorted(turned, v, sorter=np.argsort(turned)).tolist() == [[1, 0], [4, 3]]


def test_unique() -> None:
    x = cr.tensor(TIES.reshape(1, 5))
    found = sets.unique_all(x)
    assert found.values.tolist() == [1, 2, 3] and found.indices.tolist() == [1, 0, 4]
    assert found.inverse_indices.tolist() == [[1, 0, 1, 0, 2]] and found.counts.tolist() == [
        2,
        2,
        1,
    ]
    assert sets.unique_counts(x).counts.tolist() == [2, 2, 1]
    assert sets.unique_inverse(x).inverse_indices.shape == (1, 5)
    bar = cr.grad(lambda x: (sets.unique_values(x) ** 2).sum())(x)
    assert bar.tolist() == [[4, 2, 0, 0, 6]]
    assert sets.unique_values(np.array([np.nan, np.nan])).shape == (2,)
    with pytest.raises(TraceError, match="how many values"):
        cr.vmap(sets.unique_values)(x)


def test_vmap_is_the_function_on_each_example() -> None:
    each = cr.vmap(cr.grad(lambda x: (s.sort(x, axis=0)[1] ** 2).sum()))(cr.tensor(X))
    for row, bar in zip(X, each.numpy(), strict=True):
        one = cr.grad(lambda x: (s.sort(x, axis=0)[1] ** 2).sum())(cr.tensor(row))
        np.testing.assert_array_equal(bar, one.numpy())


def test_messages() -> None:
    with pytest.raises(ShapeError, match=r"axis 2 of \(3, 5, 4\) does not have 9 elements"):
        s.topk(X, 9)
    with pytest.raises(ShapeError, match="k counts from 1 to the size of axis 1"):
        s.kthvalue(X, 0, axis=1)
    with pytest.raises(ConfigError, match=r"q lies between 0 and 1, not 1\.5"):
        s.quantile(X, 1.5)
    with pytest.raises(DtypeError, match="needs real floats, not int64"):
        s.median(np.array([1, 2]))
    with pytest.raises(ShapeError, match="no elements"):
        s.quantile(np.zeros((2, 0)), 0.5, axis=1)
    with pytest.raises(ConfigError, match="side is 'left' or 'right'"):
        s.searchsorted(TIES, TIES, side="middle")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [cr.float16, cr.bfloat16], ids=str)
def test_nan_is_the_largest_in_half_precision_too(dtype):
    x = cr.tensor([3.0, np.nan, 1.0, -np.inf, np.nan, 2.0], dtype)
    assert s.argsort(x).numpy().tolist() == [3, 2, 5, 0, 1, 4]
    assert s.argsort(x, descending=True).numpy().tolist() == [1, 4, 0, 5, 2, 3]
    assert s.sort(x).dtype == dtype
    found = s.searchsorted(s.sort(x), cr.tensor([2.5, np.nan], dtype))
    assert found.numpy().tolist() == [3, 4]
