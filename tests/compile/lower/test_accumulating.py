"""What is scattered for a sum is added where the other summand lies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from tests.compile.trace.backends import backend as backend
from tests.compile.trace.test_jit import assert_same, numbers

V, C, T = 40, 6, 9
ROWS = cr.tensor(np.array([3, 0, 3, 39, -1, 7, 3, 0, 12]))


def table() -> Any:
    return numbers(V, C)


def looked_up_and_multiplied(w: Any, rows: Any) -> Any:
    """The gradient of a table whose rows are taken and which is a factor, too."""
    return cr.grad(lambda w: cr.logsumexp(cr.tanh(cr.embedding(w, rows)) @ w.T).sum())(w)


def fills(f: Any) -> list[str]:
    """The loops that write zeros."""
    return re.findall(r"\] = 0\.0$", f.loops(), re.MULTILINE)


def test_a_tied_table_needs_no_second_array(backend: str):
    f = cr.jit(looked_up_and_multiplied)
    assert_same(f(table(), ROWS), looked_up_and_multiplied(table(), ROWS))
    if backend == "native":
        text = f.loops()
        assert "scatter_add" in text and not fills(f)
        assert len(re.findall(rf"^b\d+: float32\[{V}, {C}\]", text, re.MULTILINE)) == 1


SUMS: dict[str, Callable[..., Any]] = {
    "on the left": lambda x, v, i: scattered(v, i) + cr.exp(x),
    "on the right": lambda x, v, i: cr.exp(x) + scattered(v, i),
    "an input": lambda x, v, i: x + scattered(v, i),
    "two": lambda x, v, i: cr.exp(x) + scattered(v, i) + scattered(v * 2, i[::-1]),
    "both are": lambda x, v, i: scattered(v, i) + scattered(v * 2, i[::-1]),
    "twice the same": lambda x, v, i: [(s := scattered(v, i)) + s, s][0],
    "summand read before": lambda x, v, i: (p := cr.exp(x) @ x.T @ x) + scattered(p[i], i),
    "summand read elsewhere": lambda x, v, i: ((p := x @ (x.T @ x)) + scattered(v, i), p),
    "what is scattered read elsewhere": lambda x, v, i: (x + (s := scattered(v, i)), s * 2),
    "turned": lambda x, v, i: (x.T @ x @ x.T).T + scattered(v, i),
    "turned the other way": lambda x, v, i: ((x @ (x.T @ x)) + scattered(v, i)).T,
    "broadcast": lambda x, v, i: x[0] + scattered(v, i),
    "a number": lambda x, v, i: 1.0 + scattered(v, i),
    "a sum of rows": lambda x, v, i: cr.sum(x[:, None] * x[None], axis=0) + scattered(v, i),
    "a key": lambda x, v, i: x @ (x.T @ x) + keyed(v, i),
}


def scattered(v: Any, i: Any) -> Any:
    """Rows v added at i: the transpose of taking rows."""
    return cr.vjp(lambda w: cr.take(w, i, axis=0), cr.zeros((V, C)))[1](v)[0]


def keyed(v: Any, i: Any) -> Any:
    """The same by a key with an array."""
    return cr.vjp(lambda w: w[i, 1:], cr.zeros((V, C)))[1](v[:, 1:])[0]


@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str):
    x, v = numbers(V, C), numbers(T, C, seed=1)
    f = SUMS[name]
    assert_same(cr.jit(f)(x, v, ROWS), f(x, v, ROWS))


def test_a_state_that_is_added_to_in_place(backend: str):
    state = table()
    start = state.numpy().copy()

    @cr.jit
    def step(v: Any) -> None:
        state.data = state + scattered(v, ROWS)

    v = numbers(T, C, seed=1)
    for _ in range(3):
        step(v)
    np.testing.assert_allclose(
        state.numpy(), start + 3 * np.asarray(scattered(v, ROWS)), rtol=1e-5, atol=1e-6
    )
    if backend == "native":
        assert not fills(step) and "scratch" not in step.loops()  # in place


def test_a_state_that_is_scattered_onto_itself():
    state = numbers(T, C)
    start = state.numpy().copy()

    @cr.jit
    def step(rows: Any) -> None:
        state.data = (
            state + cr.vjp(lambda w: cr.take(w, rows, axis=0), cr.zeros((T, C)))[1](state)[0]
        )

    rows = cr.tensor(np.array([1, 1, 0, 3, 8, 4, 4, 4, 2]))
    step(rows)
    wanted = start.copy()
    np.add.at(wanted, rows.numpy(), start)
    np.testing.assert_allclose(state.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_training_with_a_tied_table():
    def losses(jit: Any) -> list[float]:
        w = cr.tensor(table().numpy(), requires_grad=True)
        opt = cr.optim.AdamW([w], lr=0.01)

        def step(rows: Any) -> Any:
            opt.zero_grad()
            loss = cr.cross_entropy(cr.embedding(w, rows) @ w.T, (rows + 1) % V)
            loss.backward()
            opt.step()
            return loss

        run = jit(step)
        return [run(ROWS % V).item() for _ in range(6)]

    np.testing.assert_allclose(losses(cr.jit), losses(lambda f: f), rtol=1e-5)


def test_sizes_that_are_known_at_the_call():
    f = cr.jit(looked_up_and_multiplied, dynamic={"rows": ("T",)})
    for n in (5, 9, 7):
        rows = ROWS[:n]
        assert_same(f(table(), rows), looked_up_and_multiplied(table(), rows))
