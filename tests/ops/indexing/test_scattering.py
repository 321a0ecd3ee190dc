"""Scatters, assignment, masks, triangles, grids: PyTorch's and NumPy's opinions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ConfigError, DtypeError, IndexingError, ShapeError
from chainrule.ops.indexing import scatter_reductions
from chainrule.ops.indexing import scattering as sc
from chainrule.ops.indexing.selection import TakeAdd, TakeAlongAdd
from tests.ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp

X, S = generic(3, 4), generic(2, 5, salt=1)
AT = np.array([[2, 0, 1, 2], [0, 1, 2, 0]])  # along axis 0, no place twice
TWICE = np.array([[0, 0, 1, 1], [0, 2, 1, 1]])
ZEROS = S.copy()
ZEROS[0, 0], ZEROS[1, 2], ZEROS[0, 3], ZEROS[1, 3] = 0, 0, 0, 0
ROWS = np.array([2, 0, 2])
MASK = generic(3, 4, salt=5) > 0


def T(x: Any) -> Any:  # noqa: N802 (short, as it is everywhere below)
    return torch.tensor(x)


PAIRS = [
    Pair(
        "scatter",
        lambda x, s: sc.scatter(x, 0, AT, s),
        lambda x, s: x.scatter(0, T(AT), s[:, :4]),
        (X, S),
    ),
    *[
        Pair(
            f"scatter_reduce {how} {own}",
            lambda x, s, how=how, own=own: scatter_reductions.scatter_reduce(
                x, 0, TWICE, s, how, include_self=own
            ),
            lambda x, s, how=how, own=own: x.scatter_reduce(
                0, T(TWICE), s[:, :4], how, include_self=own
            ),
            (X, S),
        )
        for how in ("sum", "mean", "prod", "amax", "amin")
        for own in (True, False)
    ],
    Pair(
        "index_add",
        lambda x, s: sc.index_add(x, 0, ROWS, s),
        lambda x, s: x.index_add(0, T(ROWS), s),
        (X, generic(3, 4, salt=2)),
    ),
    Pair(
        "index_copy",
        lambda x, s: sc.index_copy(x, 1, [3, 0], s),
        lambda x, s: x.index_copy(1, T([3, 0]), s),
        (X, generic(3, 2, salt=2)),
    ),
    Pair(
        "index_select",
        lambda x: sc.index_select(x, 0, ROWS) ** 2,
        lambda x: x.index_select(0, T(ROWS)) ** 2,
        (X,),
    ),
    Pair(
        "masked_fill",
        lambda x: sc.masked_fill(x, MASK, 0.5) ** 2,
        lambda x: x.masked_fill(T(MASK), 0.5) ** 2,
        (X,),
    ),
    Pair(
        "masked_select",
        lambda x: sc.masked_select(x, MASK) ** 2,
        lambda x: x.masked_select(T(MASK)) ** 2,
        (X,),
    ),
    Pair("tril", lambda x: sc.tril(x, k=1) ** 2, lambda x: x.tril(1) ** 2, (generic(2, 3, 4),)),
    Pair("triu", lambda x: sc.triu(x, k=-1) ** 2, lambda x: x.triu(-1) ** 2, (generic(2, 4, 3),)),
    *[
        Pair(
            f"diag_embed {k}",
            lambda x, k=k: sc.diag_embed(x, offset=k) ** 2,
            lambda x, k=k: torch.diag_embed(x, k) ** 2,
            (X,),
        )
        for k in (0, 2, -1)
    ],
    Pair("diff", lambda x: sc.diff(x, n=2) ** 2, lambda x: torch.diff(x, 2) ** 2, (X,)),
    Pair(
        "diff joined",
        lambda x, p: sc.diff(x, axis=0, prepend=p) ** 2,
        lambda x, p: torch.diff(x, dim=0, prepend=p) ** 2,
        (X, generic(1, 4, salt=1)),
    ),
    Pair(
        "put",
        lambda x, v: sc.put(x, [1, 10], v),
        lambda x, v: x.put(T([1, 10]), v),
        (X, generic(2, salt=1)),
    ),
    Pair(
        "put accumulate",
        lambda x, v: sc.put(x, [1, 1], v, accumulate=True),
        lambda x, v: x.put(T([1, 1]), v, accumulate=True),
        (X, generic(2, salt=1)),
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_agrees_with_torch(pair: Pair) -> None:
    value_and_vjp(pair)
    forward(pair)
    second_order(pair)


@pytest.mark.parametrize("own", [True, False])
def test_products_with_zeros_have_the_derivatives_of_their_definition(own: bool) -> None:
    x, w = X[0].copy(), generic(4, salt=8)
    x[1] = 0
    at, source = np.array([0, 0, 1, 1, 1, 3]), np.array([0.0, 1.3, 0.7, 0.0, 0.0, -2.0])

    def plain(x: Any, s: Any) -> Any:
        first = [x[i] if own or i == 2 else 1.0 for i in range(4)]
        ys = [first[0] * s[0] * s[1], first[1] * s[2] * s[3] * s[4], first[2], first[3] * s[5]]
        return sum((y * w[i] for i, y in enumerate(ys[1:], 1)), ys[0] * w[0])

    def ours(x: Any, s: Any) -> Any:
        return (scatter_reductions.scatter_reduce(x, 0, at, s, "prod", include_self=own) * w).sum()

    args = (cr.tensor(x), cr.tensor(source))
    for derive in (cr.grad, cr.hessian):
        got, want = [derive(f, argnums=1)(*args).numpy() for f in (ours, plain)]
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


KEYS: list[Any] = [
    1,
    (slice(None), 2),
    slice(None, None, -2),
    (Ellipsis, None, 1),
    np.array([2, 0]),
    (np.array([[0], [1]]), slice(1, 3)),
    MASK,
    (slice(None), MASK[0]),
    slice(0, 0),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_index_put_is_numpys_assignment(key: Any) -> None:
    values = generic(*X[key].shape, salt=3)
    want = X.copy()
    want[key] = values
    x, v = cr.tensor(X), cr.tensor(values)
    assert np.array_equal(sc.index_put(x, key, v).numpy(), want)
    added = X.copy()
    np.add.at(added, key, values)
    np.testing.assert_allclose(sc.index_put(x, key, v, accumulate=True).numpy(), added, rtol=1e-14)
    g = generic(*X.shape, salt=4)
    _, pull = cr.vjp(lambda x, v: sc.index_put(x, key, v), x, v)
    x_bar, v_bar = pull(cr.tensor(g))
    over = g.copy()
    over[key] = 0
    assert np.array_equal(x_bar.numpy(), over) and np.array_equal(v_bar.numpy(), g[key])


def test_the_last_of_equal_indices_stays() -> None:
    x, v = cr.tensor(np.zeros(3)), cr.tensor(np.array([5.0, 6.0, 7.0]))
    assert sc.put(x, [1, 1, 0], v).tolist() == [7, 6, 0]
    bar = cr.grad(lambda v: (sc.put(x, [1, 1, 0], v) ** 2).sum())(v)
    assert bar.tolist() == [0, 12, 14]
    assert sc.scatter(x, 0, np.array([-1]), 4.0).tolist() == [0, 0, 4]


def test_extrema_that_tie_share_equally() -> None:
    x, s = cr.tensor(np.array([2.0, 0.0])), cr.tensor(np.array([2.0, 2.0, -1.0, 1.0]))
    at = np.array([0, 0, 1, 1])
    f = lambda x, s: scatter_reductions.scatter_reduce(x, 0, at, s, "amax").sum()
    x_bar, s_bar = cr.grad(f, argnums=(0, 1))(x, s)
    np.testing.assert_allclose(x_bar.numpy(), [1 / 3, 0], rtol=1e-15)
    np.testing.assert_allclose(s_bar.numpy(), [1 / 3, 1 / 3, 0, 1], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("own", [True, False])
def test_other_dtypes_stay(dtype: Any, how: Any, own: bool) -> None:
    x, s = (4 * X).astype(dtype), (4 * S).astype(dtype)
    got = scatter_reductions.scatter_reduce(x, 0, TWICE, s, how, include_self=own)
    want = T(x).scatter_reduce(0, T(TWICE), T(s), how, include_self=own)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)


def test_meshgrid_is_numpys() -> None:
    xs = [generic(n, salt=n) for n in (2, 3, 4)]
    for count in (0, 1, 2, 3):
        for how in ("xy", "ij"):
            got = sc.meshgrid(*xs[:count], indexing=how)
            want = np.meshgrid(*xs[:count], indexing=how)
            assert len(got) == len(want)
            assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


def test_masks_of_other_dtypes() -> None:
    x = np.array([[True, True], [True, True]])
    assert sc.tril(x).dtype == bool and sc.triu(x, k=1).tolist() == [[False, True], [False, False]]
    assert sc.diff(np.array([True, False, False])).tolist() == [True, False]
    assert sc.tril(np.ones((2, 2), np.uint8)).dtype == np.uint8


def test_vmap_is_the_function_on_each_example() -> None:
    f = lambda x: (sc.scatter(x, 0, np.array([1, 1]), x[:2] ** 2) ** 2).sum()
    each = cr.vmap(cr.grad(f))(cr.tensor(X))
    for row, bar in zip(X, each.numpy(), strict=True):
        np.testing.assert_allclose(bar, cr.grad(f)(cr.tensor(row)).numpy(), rtol=1e-13)


def test_messages_name_the_shapes() -> None:
    with pytest.raises(ShapeError, match=r"indices \(2,\) need as many axes as x \(3, 4\)"):
        sc.scatter(X, 0, np.array([0, 1]), S)
    with pytest.raises(ShapeError, match=r"source \(2, 2\) is smaller than its indices \(2, 4\)"):
        sc.scatter(X, 0, AT, S[:, :2])
    with pytest.raises(IndexingError, match="index 3 is outside axis 0 of size 3"):
        sc.scatter(X, 0, AT + 1, S)
    with pytest.raises(ShapeError, match=r"values of shape \(3,\) do not broadcast to \(4,\)"):
        sc.index_put(X, 0, np.ones(3))
    with pytest.raises(DtypeError, match="a mask is bools, not float64"):
        sc.masked_fill(X, X, 0)
    with pytest.raises(DtypeError, match="indices must be integers, not float64"):
        sc.index_add(X, 0, X[0], X)
    with pytest.raises(ConfigError, match="reduce is sum, prod, mean, amax or amin"):
        scatter_reductions.scatter_reduce(X, 0, AT, S, "max")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="needs at least 2 axes"):
        sc.tril(X[0])
    with pytest.raises(ConfigError, match="n is at least 0"):
        sc.diff(X, n=-1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.complex64])
@pytest.mark.parametrize("shape", [(5,), (4, 3), (2, 5, 3), (3, 0, 2), (2, 3, 600)])
def test_sums_at_equal_places_are_those_of_numpy(shape: tuple[int, ...], dtype: Any):
    """In the same order, so to the last bit; for indices of any shape, negative ones, none."""
    rng = np.random.default_rng(3)
    for axis, n in enumerate(shape):
        for sizes in ((7,), (2, 3), (), (0,), (40,)):
            index = rng.integers(-n, n, sizes) if n else np.zeros((0,), int)
            g = rng.normal(size=(*shape[:axis], *index.shape, *shape[axis + 1 :])).astype(dtype)
            wide = np.zeros(shape, np.float32 if dtype is np.float16 else dtype)
            np.add.at(wide, (*[slice(None)] * axis, index), g)
            found = TakeAdd(axis, shape).eval(g, index)
            np.testing.assert_array_equal(found, wide.astype(dtype))
            if g.size:
                with pytest.raises(IndexError):
                    TakeAdd(axis, shape).eval(g, index * 0 + n)


@pytest.mark.parametrize("count", [3, 300])  # few and many beside the elements of the result
def test_sums_at_elements_are_those_of_numpy(count: int):
    rng = np.random.default_rng(4)
    at, g = rng.integers(-6, 6, count), rng.normal(size=(count, 5)).astype(np.float32)
    plain = np.zeros((6, 5), np.float32)
    np.add.at(plain, at, g)
    x = cr.tensor(np.zeros((6, 5), np.float32), requires_grad=True)
    x[at].backward(g)
    np.testing.assert_array_equal(x.grad.numpy(), plain)
    along = rng.integers(0, 6, (count, 5))
    plain = np.zeros((6, 5), np.float32)
    np.add.at(plain, (along, np.arange(5)), g)
    found = TakeAlongAdd(0, (6, 5)).eval(g, along)
    np.testing.assert_array_equal(found, plain)
