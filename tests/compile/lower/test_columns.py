"""Small matrices whose rows are folded lie column by column where that is faster."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.runtime.cache.surroundings import here
from chainrule.ops.networks.composite import scaled_dot_product_attention as attention
from tests.compile.trace.test_jit import numbers
from tests.compile.wasm.node import needs_node, ran

ROWS = dict.fromkeys(("q", "k", "v"), (None, "T", None))
SIZES = [1, 3, 7, 8, 9, 16, 17, 40, 130]
WIDE = pytest.mark.skipif(here().vector < 64, reason="columns are for vectors of 64 bytes")


def heads(t: int, d: int = 4, *stack: int) -> list[Any]:
    """Queries, keys and values of three heads, or of a stack of them."""
    return [numbers(*(stack or (3,)), t, d, seed=i) for i in range(3)]


def columns(f: Any) -> int:
    """How many arrays lie column by column: there is a gap after each column."""
    return len(re.findall(r"float32\[.*T \+ 16\] scratch", str(f.loops())))


def by_head(f: Any, h: int) -> int:
    """How many of them have heads as their innermost axis."""
    return len(re.findall(rf"float32\[.*T, {h}\*T \+ 16\] scratch", str(f.loops())))


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


STACKS = [((2,), 4, True), ((4,), 2, False), ((8,), 2, True), ((2,), 8, False), ((2, 4), 4, True)]


@WIDE
@pytest.mark.parametrize(("stack", "d", "causal"), STACKS)
def test_heads_of_few_features_are_innermost(stack: tuple[int, ...], d: int, causal: bool):
    """Vectors of all heads, of sizes at which the last one is full or is not."""

    def f(q: Any, k: Any, v: Any) -> Any:
        loss = lambda *xs: (attention(*xs, causal=causal) ** 2).sum()
        return cr.value_and_grad(loss, argnums=(0, 1, 2))(q, k, v)

    axes = (*[None] * len(stack), "T", None)
    g = cr.jit(f, dynamic=dict.fromkeys(("q", "k", "v"), axes))
    for t in SIZES:
        (y, dys), (z, dzs) = g(*heads(t, d, *stack)), f(*heads(t, d, *stack))
        for got, want in zip([y, *dys], [z, *dzs], strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-4, atol=1e-5)
    assert by_head(g, stack[-1]) >= 4


@WIDE
@pytest.mark.parametrize("causal", [True, False])
def test_heads_within_a_row_of_features(causal: bool):
    """As a model has them: views of one product, and results side by side in a row."""

    def f(x: Any, w: Any) -> Any:
        def loss(w: Any) -> Any:
            rows = (x @ w).reshape(x.shape[0], 3, 4, 4)
            q, k, v = [rows[:, i].swapaxes(0, 1) for i in range(3)]
            return (attention(q, k, v, causal=causal).swapaxes(0, 1).reshape(x.shape) ** 2).sum()

        return cr.value_and_grad(loss)(w)

    g = cr.jit(f, dynamic={"x": ("T", None)})
    for t in SIZES:
        x, w = numbers(t, 16), numbers(16, 48, seed=1) * 0.2
        for got, want in zip(g(x, w), f(x, w), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-4, atol=2e-5)
    assert by_head(g, 4) >= 4


SET_AND_CALL = """
step.resize({T_about_6: n});
for (const [name, values] of Object.entries(given)) step.inputs[name].set(values);
step.call();
console.log(JSON.stringify(Object.values(step.results).map((x) => [...x])));
"""


@needs_node
def test_heads_of_few_features_in_short_vectors(tmp_path: Path):
    """Two heads of two features are a vector of WebAssembly's."""

    def f(q: Any, k: Any, v: Any) -> Any:
        loss = lambda *xs: (attention(*xs, causal=True) ** 2).sum()
        return cr.value_and_grad(loss, argnums=(0, 1, 2))(q, k, v)

    g = cr.jit(f, dynamic=dict.fromkeys(("q", "k", "v"), (None, "T_about_6", None)))
    module = g.to_wasm(tmp_path, *heads(9, 2, 2), largest={"T_about_6": 9})
    for t in (1, 3, 8, 9):
        args = heads(t, 2, 2)
        given = {name: x.numpy().ravel().tolist() for name, x in zip("qkv", args, strict=True)}
        y, dys = f(*args)
        found = json.loads(ran(module, SET_AND_CALL, n=t, given=given))
        for got, want in zip(found, [y, *dys], strict=True):
            np.testing.assert_allclose(got, want.numpy().ravel(), rtol=2e-4, atol=1e-5)


@WIDE
@pytest.mark.parametrize(("h", "d"), [(3, 4), (8, 4), (4, 3), (4, 8), (1, 4)])
def test_other_heads_come_one_after_the_other(h: int, d: int):
    g = cr.jit(lambda q, k, v: attention(q, k, v, causal=True), dynamic=ROWS)
    g(*heads(7, d, h))
    assert not by_head(g, h)
    assert columns(g)


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
@pytest.mark.parametrize("h", [3, 4])
@pytest.mark.parametrize(("f", "by_columns"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_what_else_reads_or_makes_the_matrix(f: Callable[..., Any], by_columns: bool, h: int):
    g = cr.jit(f, dynamic=ROWS)
    for t in SIZES:
        got, want = g(*heads(t, 4, h)), f(*heads(t, 4, h))
        pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        for a, b in pairs:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=1e-5)
    assert (columns(g) > 0) is by_columns


@WIDE
@pytest.mark.parametrize("h", [3, 4])
@pytest.mark.parametrize("t", SIZES)
def test_what_lies_between_columns_is_not_seen(t: int, h: int):
    """Vectors go beyond the ends of columns: what is there, infinite numbers say, is nothing."""

    def f(q: Any, k: Any, v: Any) -> Any:
        return cr.grad(lambda *xs: (attention(*xs, causal=True) ** 2).sum(), (0, 1, 2))(q, k, v)

    g = cr.jit(f, dynamic=ROWS)
    args = heads(t, 4, h)
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


@pytest.mark.parametrize("n", [1, 3, 8, 11, 16, 27])
@pytest.mark.parametrize("m", [5, 8, 24])
def test_transposed_copies_of_known_length(n: int, m: int):
    """Squares, and what is left of columns and of rows."""
    f = lambda x, y: x @ y.mT
    x, y = numbers(5, m), numbers(n, m, seed=1)
    np.testing.assert_allclose(cr.jit(f)(x, y).numpy(), f(x, y).numpy(), rtol=2e-4, atol=1e-5)
