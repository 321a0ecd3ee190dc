"""Small matrices whose rows are folded lie column by column where that is faster."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.runtime.cache.surroundings import here
from chainrule.ops.networks.composite import scaled_dot_product_attention as attention
from tests.compile.trace.test_jit import numbers

ROWS = dict.fromkeys(("q", "k", "v"), (None, "T", None))
SIZES = [1, 3, 7, 8, 9, 16, 17, 40, 130]
WIDE = pytest.mark.skipif(here().vector < 64, reason="columns are for vectors of 64 bytes")


def heads(t: int, d: int = 4) -> list[Any]:
    """Queries, keys and values of three heads."""
    return [numbers(3, t, d, seed=i) for i in range(3)]


def columns(f: Any) -> int:
    """How many arrays lie column by column: there is a gap after each column."""
    return len(re.findall(r"float32\[.*T \+ 16\] scratch", str(f.loops())))


@WIDE
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("d", [4, 8, 5])
def test_attention_and_its_gradients(causal: bool, d: int):
    """Of sizes below, at and above those of a vector; rows of `d` that are squares, or are not."""

    def f(q: Any, k: Any, v: Any) -> Any:
        loss = lambda *xs: (attention(*xs, causal=causal) ** 2).sum()
        return cr.value_and_grad(loss, argnums=(0, 1, 2))(q, k, v)

    g = cr.jit(f, dynamic=ROWS)
    for t in SIZES:
        (y, dys), (z, dzs) = g(*heads(t, d)), f(*heads(t, d))
        for got, want in zip([y, *dys], [z, *dzs], strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-4, atol=1e-5)
    assert columns(g) >= 4


def _masked(q: Any, k: Any, v: Any) -> Any:
    return attention(q, k, v, mask=v[:, None, :, 0] > 0)


def _in_two_products(q: Any, k: Any, v: Any) -> Any:
    weights = cr.softmax(q @ k.mT)
    return weights @ v, weights.mT @ q


def _biased(q: Any, k: Any, v: Any) -> Any:
    return cr.softmax(q @ k.mT + k.sum(axis=-1)[:, :, None]) @ v


def _of_two_products(q: Any, k: Any, v: Any) -> Any:
    return cr.softmax(q @ k.mT + cr.tanh(k @ v.mT)) @ v


def _returned(q: Any, k: Any, v: Any) -> Any:
    weights = cr.softmax(q @ k.mT)
    return weights @ v, weights


def _also_folded_along_columns(q: Any, k: Any, v: Any) -> Any:
    weights = cr.softmax(q @ k.mT)
    return weights @ v, cr.exp(weights).sum(axis=-2)


def _with_a_matrix_of_its_own(q: Any, k: Any, v: Any) -> Any:
    return cr.softmax(q @ k.mT + cr.flip(k @ v.mT, axis=-1)) @ v


def _not_folded(q: Any, k: Any, v: Any) -> Any:
    return cr.tanh(q @ k.mT) @ v


PROGRAMS: list[tuple[Callable[..., Any], bool]] = [
    (_masked, True), (_in_two_products, True), (_biased, True), (_of_two_products, True),
    (_returned, False), (_also_folded_along_columns, False), (_with_a_matrix_of_its_own, False),
    (_not_folded, False),
]  # fmt: skip


@WIDE
@pytest.mark.parametrize(("f", "by_columns"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_what_else_reads_or_makes_the_matrix(f: Callable[..., Any], by_columns: bool):
    g = cr.jit(f, dynamic=ROWS)
    for t in SIZES:
        got, want = g(*heads(t)), f(*heads(t))
        pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        for a, b in pairs:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=1e-5)
    assert (columns(g) > 0) is by_columns


@WIDE
@pytest.mark.parametrize("t", SIZES)
def test_what_lies_between_columns_is_not_seen(t: int):
    """Vectors go beyond the ends of columns: what is there, infinite numbers say, is nothing."""

    def f(q: Any, k: Any, v: Any) -> Any:
        return cr.grad(lambda *xs: (attention(*xs, causal=True) ** 2).sum(), (0, 1, 2))(q, k, v)

    g = cr.jit(f, dynamic=ROWS)
    args = heads(t)
    first = [x.numpy().copy() for x in [g(*args) for _ in range(3)][-1]]
    memory = vars(vars(g._latest)["_native"])["_memory"].values()
    for number in (np.inf, -np.inf, np.nan, 1e-40):
        for block in memory:
            arena = block._kept[0]
            arena[: len(arena) // 4 * 4].view(np.float32)[:] = number
        for got, want in zip(g(*args), first, strict=True):
            np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("f", [f for f, _ in PROGRAMS], ids=[f.__name__ for f, _ in PROGRAMS])
def test_a_size_that_is_known_goes_by_rows(f: Callable[..., Any]):
    g = cr.jit(f)
    g(*heads(8))
    assert "+ 16]" not in str(g.loops())


@pytest.mark.parametrize("width", [8, 16, 12])
def test_transposed_copies_of_unknown_length(width: int):
    """The right matrix of a product is copied so that its columns lie side by side."""
    f = lambda x, y: x @ y.mT
    g = cr.jit(f, dynamic={"x": ("S", None), "y": ("T", None)})
    for t in SIZES:
        x, y = numbers(5, width), numbers(t, width, seed=1)
        np.testing.assert_allclose(g(x, y).numpy(), f(x, y).numpy(), rtol=2e-4, atol=1e-5)
