"""Assignment at indices: compiled code writes those elements alone, and in place where it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from tests.sampling import sampled

R = np.random.default_rng(2)
X, V = R.normal(size=(6, 4)), R.normal(size=(3, 4))
I, J = np.array([4, -6, 2]), np.array([1, 3, -1])
ALL = slice(None)

CASES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "rows": lambda x, v, i, j: cr.index_put(x, i, v),
    "rows by a table": lambda x, v, i, j: cr.index_put(x, cr.stack([i, i + 1]), v),
    "the same rows twice": lambda x, v, i, j: cr.index_put(x, i * 0 + 3, v),
    "elements": lambda x, v, i, j: cr.index_put(x, (i, j), v[:, 0]),
    "columns": lambda x, v, i, j: cr.index_put(x, (ALL, j), v[0, :3]),
    "a part of rows": lambda x, v, i, j: cr.index_put(x, (i, slice(1, 3)), v[:, :2]),
    "rows backwards": lambda x, v, i, j: cr.index_put(x, (i, slice(None, None, -1)), v),
    "rows of a block": lambda x, v, i, j: cr.index_put(
        x.reshape(2, 3, 4), (i % 2, j % 3), v
    ).reshape(6, 4),
    "a basic index": lambda x, v, i, j: cr.index_put(x, slice(1, 4), v),
    "a number": lambda x, v, i, j: cr.index_put(x, i, 1.5),
    "flat": lambda x, v, i, j: cr.put(x, i * 3, v[:, 1]),
    "whole numbers": lambda x, v, i, j: cr.index_put(x, i, j[:, None] * np.ones(4, int)),
    "scatter": lambda x, v, i, j: cr.scatter(x, 0, i[:, None] % 6, v),
    "index_copy": lambda x, v, i, j: cr.index_copy(x, 1, (j % 4)[:2], x[:, :2]),
    "rows exchanged": lambda x, v, i, j: cr.index_put(x, i, x[i[::-1]]),
    "rows moved on": lambda x, v, i, j: cr.index_put(x, i, 2 * x[(i + 1) % 6]),
    "one after the other": lambda x, v, i, j: cr.index_put(cr.index_put(x, i, v), (i + 1) % 6, v),
    "the old one read after": lambda x, v, i, j: cr.index_put(x, i, v) - x * 0.5,
    "what it writes is made of it": lambda x, v, i, j: cr.index_put(x, i, v * cr.sum(x)),
    "onto something computed": lambda x, v, i, j: cr.index_put(cr.tanh(x), i, v) + cr.exp(-x * x),
}


def thrice(f: Callable[..., Any], x: Any, *args: Any) -> Any:
    """`f` of what it gave before, three times in a loop."""

    def step(s: Any) -> Any:
        return s[0] + 1, f(s[1], *args)

    return cr.while_loop(lambda s: s[0] < 3, step, (cr.tensor(0), x))[1]


def everything(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` once, three times in a loop, and its derivatives."""

    def run(x: Any, v: Any, i: Any, j: Any) -> Any:
        def loss(x: Any, v: Any) -> Any:
            return cr.sum(cr.sin(f(x, v, i, j)))

        return f(x, v, i, j), thrice(f, x, v, i, j), cr.grad(loss, (0, 1))(x, v)

    return run


@sampled(one_in=2)
@pytest.mark.parametrize("name", CASES)
def test_compiled_as_eager(name: str):
    run = everything(CASES[name])
    given = cr.tensor(X), cr.tensor(V), cr.tensor(I), cr.tensor(J)
    found, again, bars = cr.jit(run)(*given)
    expected, expected_again, expected_bars = run(*given)
    for a, b in (
        (found, expected),
        (again, expected_again),
        *zip(bars, expected_bars, strict=True),
    ):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["rows", "elements", "flat", "scatter", "rows of a block"])
def test_only_what_is_written_is_touched(name: str):
    @cr.jit
    def f(*args: Any) -> Any:
        return thrice(CASES[name], *args)

    f(X, V, I, J)
    _, within = f.loops().split("  while ")
    turn = within.split("\n\n")[0]
    assert "keep" in turn and "LastWriter" not in turn
    counts = [
        line.split("<")[1].split()[0].rstrip(":") for line in turn.splitlines() if " for " in line
    ]
    assert counts and max(map(int, counts)) < 24  # not all of the array


def test_a_state_that_rows_are_written_to():
    state = cr.tensor(np.zeros((50, 4)))

    @cr.jit
    def step(i: Any, v: Any) -> Any:
        state[i] = v
        return cr.sum(v)

    expected = np.zeros((50, 4))
    for n in range(5):
        i = np.array([n, 2 * n, 49 - n])
        step(i, V + n)
        expected[i] = V + n
    np.testing.assert_array_equal(state.numpy(), expected)
    assert step.traces == 1


def test_an_index_outside_is_still_an_error():
    @cr.jit
    def f(x: Any, i: Any) -> Any:
        return cr.index_put(x, i, 1.0)

    f(X, I)
    with pytest.raises(cr.IndexingError, match="outside"):
        f(X, np.array([0, 6, 1]))
