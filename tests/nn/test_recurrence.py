"""Layers of recurrent networks as one op in eager calls: the same as their steps op by op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.engine.graph import order
from chainrule.nn.recurrent.layer_kernels import CELLS
from chainrule.nn.recurrent.recurrence import Recurrence, recurrence
from chainrule.ops import eager_kernels

LAYERS: dict[str, Callable[..., Any]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}


@pytest.fixture(autouse=True)
def of_all_sizes(monkeypatch: pytest.MonkeyPatch):
    """Kernels whatever the size."""
    monkeypatch.setattr(eager_kernels, "LEAST", 1)


def layer(cell: str, dtype: Any = np.float64, **how: Any) -> Any:
    return LAYERS[cell](3, 4, dtype=dtype, generator=cr.Generator(1), **how)


def drawn(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def outputs(module: Any, x: Any, state: Any = None) -> list[Any]:
    """All that a layer returns: what it gives for each step, then its last states."""
    y, last = module(x) if state is None else module(x, state)
    return [y, *(last if isinstance(last, tuple) else [last])]


def gradients(module: Any, x: Any, which: list[int], state: Any = None) -> list[Any]:
    """Results, and what a loss of some of them gives for the input, the states, all weights."""
    x = cr.tensor(x, requires_grad=True)
    ts = [] if state is None else [cr.tensor(s, requires_grad=True) for s in state]
    given = None if state is None else tuple(ts) if len(ts) > 1 else ts[0]
    ys = outputs(module, x, given)
    sum((ys[i] * drawn(*ys[i].shape, dtype=x.dtype, seed=9)).sum() for i in which).backward()
    found = [x.grad, *[t.grad for t in ts], *[p.grad for p in module.parameters()]]
    module.zero_grad()
    return [*[y.detach().numpy() for y in ys], *[g.numpy() for g in found if g is not None]]


def same(ours: list[Any], plain: list[Any]) -> None:
    assert len(ours) == len(plain)
    for a, b in zip(ours, plain, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        near = 500 * np.finfo(a.dtype).eps
        np.testing.assert_allclose(a, b, rtol=near, atol=near * max(np.abs(b).max(initial=0), 1))


def check(f: Callable[[], list[Any]]) -> None:
    """The same with kernels as op by op."""
    ours = f()
    with cr.op_by_op():
        same(ours, f())


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", [(5, 2), (1, 1), (7, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_those_of_the_steps(
    cell: str, dtype: Any, sizes: tuple[int, int], bias: bool
):
    module = layer(cell, dtype, bias=bias)
    x = drawn(*sizes, 3, dtype=dtype)
    states = [drawn(1, sizes[1], 4, dtype=dtype, seed=i) for i in range(CELLS[cell].states)]
    every = list(range(1 + len(states)))
    for which in ([0], every, *[[i] for i in every[1:]]):
        check(lambda which=which: gradients(module, x, which))
        check(lambda which=which: gradients(module, x, which, states))


@pytest.mark.parametrize("cell", CELLS)
def test_layers_directions_and_batches_first(cell: str):
    module = layer(cell, num_layers=2, bidirectional=True, batch_first=True)
    check(lambda: gradients(module, drawn(2, 6, 3), [0, 1]))
    check(lambda: gradients(module, drawn(6, 3), [0]))  # one sequence


@pytest.mark.parametrize("cell", CELLS)
def test_a_layer_is_one_op(cell: str):
    y = layer(cell)(cr.tensor(drawn(9, 2, 3), requires_grad=True))[0]
    names = [n.name for n in order([y.node]) if n.op is not None]
    assert names.count(f"{cell} steps") == 1 and len(names) < 8


@pytest.mark.parametrize("cell", CELLS)
def test_what_is_empty_runs_op_by_op(cell: str):
    check(lambda: [layer(cell)(cr.tensor(drawn(4, 0, 3)))[0].detach().numpy()])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("biased", [True, False])
def test_second_derivatives_and_tangents_in_all_inputs(cell: str, biased: bool):
    op, known = Recurrence(cell, biased), CELLS[cell]
    rows = 4 * known.gates
    shapes = [(5, 2, rows), (rows, 4), *[(rows,)] * biased, *[(2, 4)] * known.states]
    xs = [drawn(*s, seed=i) for i, s in enumerate(shapes)]
    us = tuple([drawn(*s, seed=20 + i) for i, s in enumerate(shapes)])
    every = tuple(range(len(xs)))

    def of(f: Callable[..., Any]) -> list[Any]:
        def loss(*xs: Any) -> Any:
            parts = [(y * y * drawn(*y.shape, seed=4)).sum() for y in f(*xs)]
            return sum(parts[1:], parts[0])

        def along(*xs: Any) -> Any:
            pairs = zip(cr.grad(loss, argnums=every)(*xs), us, strict=True)
            return sum((g * u).sum() for g, u in pairs)

        second = cr.grad(along, argnums=every)(*xs)
        tangents = [cr.jvp(loss, tuple(xs), us)[1], *cr.jvp(f, tuple(xs), us)[1]]
        mixed = cr.jvp(cr.grad(loss, argnums=every), tuple(xs), us)[1]
        return [m.detach().numpy() for m in (*second, *tangents, *mixed)]

    same(of(lambda *xs: op(*xs)), of(lambda *xs: tuple(op.results(xs))))


@pytest.mark.parametrize("cell", CELLS)
def test_examples_and_compiled_calls(cell: str):
    module = layer(cell)
    x = drawn(2, 6, 2, 3)

    def loss(x: Any) -> Any:
        return (module(x)[0] ** 2).sum()

    plain = [cr.grad(loss)(each).detach().numpy() for each in x]
    same([cr.vmap(cr.grad(loss))(x).detach().numpy()], [np.stack(plain)])
    same([cr.jit(cr.grad(loss))(x[0]).detach().numpy()], plain[:1])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("more", [-1, 1])
def test_other_shapes_reach_no_kernel(cell: str, more: int):
    known = CELLS[cell]
    rows = 4 * known.gates
    shapes = [(5, 2, rows), (rows, 4), (rows,), *[(2, 4)] * known.states]
    right = [cr.tensor(drawn(*s)) for s in shapes]
    assert recurrence(cell, right[0], right[1], right[2], right[3:]) is not None
    for k, shape in enumerate(shapes):
        for axis in range(int(k == 0), len(shape)):
            other = tuple(n + more * (i == axis) for i, n in enumerate(shape))
            xs = [*right[:k], cr.tensor(drawn(*other)), *right[k + 1 :]]
            assert recurrence(cell, xs[0], xs[1], xs[2], xs[3:]) is None, (k, other)
