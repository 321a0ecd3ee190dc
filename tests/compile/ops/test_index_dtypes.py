"""Indices of every integer dtype into axes longer than it holds: eager, compiled, for examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn

KINDS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64"]
ROWS = np.ones((4, 2))
INDEXED: dict[str, Any] = {
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x.mT[:, i],
    "take": lambda x, i: cr.take(x, i, axis=0),
    "take, flat": lambda x, i: cr.take(x, i),
    "take_along_axis": lambda x, i: cr.take_along_axis(x, i[:, None], axis=0),
    "embedding": cr.embedding,
    "one_hot": lambda x, i: cr.one_hot(cr.abs(i), x.shape[0]),
    "scatter": lambda x, i: cr.scatter(x, 0, cr.stack([i, i], axis=1), ROWS),
    "scatter_reduce": lambda x, i: cr.scatter_reduce(x, 0, cr.stack([i, i], axis=1), ROWS, "amax"),
    "index_add": lambda x, i: cr.index_add(x, 0, i, ROWS),
    "index_put": lambda x, i: cr.index_put(x, i, ROWS),
    "put": lambda x, i: cr.put(x, i, ROWS[:, 0]),
    "examples with indices of their own": lambda x, i: cr.vmap(lambda v, j: cr.take(v, j, axis=0))(
        cr.stack([x, x]), cr.stack([i, i])
    ),
    "gradient for examples": lambda x, i: cr.vmap(
        cr.grad(lambda v, j: cr.sum(cr.take(v, j, axis=0) ** 2))
    )(cr.stack([x, x]), cr.stack([i, i])),
    "cross_entropy": lambda x, i: cr.cross_entropy(x.mT[:1] * np.ones((4, 1)), cr.abs(i)),
    "nll_loss": lambda x, i: nn.functional.nll_loss(x.mT[:1] * np.ones((4, 1)), cr.abs(i)),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_means_the_same_in_every_dtype(name: str):
    f, n = INDEXED[name], 200
    x = np.arange(2.0 * n).reshape(n, 2)
    for kind in KINDS:
        top = min(n - 1, int(np.iinfo(kind).max))
        index = np.array([top, 0, top // 2, 3 if kind[0] == "u" else -1], kind)
        want = f(cr.tensor(x), cr.tensor(index.astype(np.int64))).numpy()
        assert np.array_equal(f(cr.tensor(x), cr.tensor(index)).numpy(), want), kind
        if kind in ("int8", "uint8", "uint64"):
            compiled = cr.jit(f)(x, index).numpy()
            np.testing.assert_allclose(compiled, want, rtol=1e-13, err_msg=kind)


@pytest.mark.parametrize(("kind", "n"), [("int16", 40_000), ("uint16", 70_000)])
def test_long_axes(kind: str, n: int):
    x, top = np.arange(float(n)), int(np.iinfo(kind).max)
    index = np.array([0, min(top, n - 1), 7], kind)
    got = cr.jit(lambda v, i: cr.take(v, i, axis=0))(x, index)
    assert np.array_equal(got.numpy(), x[index])


def test_an_index_outside_is_an_error_in_a_narrow_dtype_too():
    bad = np.array([201], np.uint8)
    examples = cr.vmap(lambda v, j: cr.take(v, j, axis=0))
    for f, args in (
        (lambda x, i: x[i], (np.ones((200, 2)), bad)),
        (examples, (np.ones((1, 200)), bad[:, None])),
    ):
        with pytest.raises(cr.errors.IndexingError):
            f(*map(cr.tensor, args))
        with pytest.raises(cr.errors.IndexingError, match="outside"):
            cr.jit(f)(*args)


@pytest.mark.parametrize(
    "name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
)
@pytest.mark.parametrize("kind", ["int8", "uint8", "uint16"])
def test_comparisons_with_numbers_that_the_dtype_cannot_hold(name: str, kind: str):
    x = np.array([np.iinfo(kind).min, np.iinfo(kind).max, 3], kind)
    f = getattr(cr, name)
    numbers = (-200, -1, 200, 256, 70_000)

    def all_of(x: Any) -> Any:
        return cr.stack([y for n in numbers for y in (f(x, n), f(n, x))])

    want = np.stack(
        [y for n in numbers for y in (getattr(np, name)(x, n), getattr(np, name)(n, x))]
    )
    assert np.array_equal(all_of(cr.tensor(x)).numpy(), want)
    assert np.array_equal(cr.jit(all_of)(x).numpy(), want)


def test_where_refuses_a_number_that_the_dtype_cannot_hold():
    x = cr.tensor(np.array([1, 2], np.uint8))
    for f in (lambda v: cr.where(v > 1, v, 300), cr.jit(lambda v: cr.where(v > 1, v, 300))):
        with pytest.raises(cr.errors.DtypeError, match="300"):
            f(x)
