"""Concatenations that go on with others lie in one place."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from tests.compile.trace.backends import backend as backend
from tests.compile.trace.test_jit import assert_same, numbers


def powers(t: Any, m: int) -> Any:
    """t to the powers 0 .. m - 1, by doubling."""
    table, factor = cr.stack([cr.ones_like(t), t], axis=1), t * t
    while table.shape[1] < m:
        table = cr.concat([table, table * factor[:, None]], axis=1)
        factor = factor * factor
    return table


def test_a_table_that_grows_is_written_once(backend: str):
    t = numbers(50)
    f = cr.jit(lambda t: powers(t, 32))
    np.testing.assert_allclose(
        f(t).numpy(), t.numpy()[:, None] ** np.arange(32), rtol=1e-4, atol=1e-30
    )
    if backend == "native":
        heads = [line for line in f.loops().splitlines() if line.endswith("):")]
        assert len([h for h in heads if "concat" in h]) == 1


def test_one_that_two_others_go_on_with():
    def f(x: Any, y: Any) -> Any:
        both = cr.concat([cr.exp(x), cr.sin(y)])
        first, second = cr.concat([both, both * 2]), cr.concat([cr.cos(x), both, y])
        return first, second, both, cr.sum(both)

    x, y = numbers(40), numbers(24, seed=1)
    assert_same(cr.jit(f)(x, y), f(x, y))


def test_parts_of_parts_along_other_axes():
    def f(x: Any) -> Any:
        a = cr.concat([x, cr.exp(x)], axis=1)
        b = cr.concat([a, cr.tanh(a)], axis=1)
        c = cr.concat([b, b + 1], axis=0)
        d = cr.concat([b, cr.sum(b, axis=1, keepdims=True)], axis=1)
        return c, d, cr.concat([x, cr.exp(x), x], axis=1)

    x = numbers(9, 5)
    assert_same(cr.jit(f)(x), f(x))


def test_gradients_and_state_that_becomes_one():
    def run(wrap: Any) -> Any:
        w, table = numbers(6, seed=2).requires_grad_(), cr.zeros(18)

        def step(x: Any) -> Any:
            head = cr.concat([w * x, cr.tanh(w)])
            whole = cr.concat([head, cr.sin(head)[:6]])
            loss = cr.sum(whole * table) + cr.sum(head**2)
            w.grad = None
            loss.backward()
            table.data = whole + table[::-1]
            return loss

        g = wrap(step)
        losses = [g(numbers(6, seed=s)).detach() for s in range(3)]
        return losses, table, w.grad

    assert_same(run(cr.jit), run(lambda f: f))
