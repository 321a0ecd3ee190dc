"""The flow of a forward: its gradient is the right one, its edges are uses of values that a weight
can forget, double or turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops.sample import Sample, apart
from ops.test_generated import SAMPLES

import chainrule as cr
from chainrule.verify.arrays.standin import follow
from chainrule.verify.flow import Traced, trace
from chainrule.verify.own.call import subject_of_call
from chainrule.verify.subject import values

X, W = apart(3, 4), apart(4, 5, salt=1)
G = apart(3, 5, salt=2)


def flow_of(f: Any, *xs: Any) -> Traced:
    traced = trace(lambda *args: [f(*args)], xs, [True] * len(xs))
    assert traced is not None
    return traced


@pytest.mark.parametrize("sample", SAMPLES[::12], ids=str)
def test_its_gradient_is_the_engine_s(sample: Sample):
    call = subject_of_call(sample.f, sample.args)
    xs = values(call)
    gs = [np.asarray(apart(*y.shape, salt=5), y.dtype) for y in call.forward(xs)]
    flow = call.flow(xs)
    assert flow is not None
    for bar, want in zip(flow.pull(gs), call.pull(xs, gs), strict=True):
        assert (bar is None) == (want is None)
        if bar is not None and want is not None:
            np.testing.assert_allclose(bar, want, rtol=1e-12, atol=1e-14)


def test_edges_say_what_uses_what_and_where():
    flow = flow_of(lambda x, w: np.tanh(x @ w).sum(axis=1), X, W)
    said = [(e.op, e.argument, e.inputs, e.settings) for e in flow.edges]
    assert said == [
        ("matmul", 0, {0}, "turn_a=False, turn_b=False"),
        ("matmul", 1, {1}, "turn_a=False, turn_b=False"),
        ("tanh", 0, {0, 1}, ""),
        ("sum", 0, {0, 1}, "axes=(1,), keepdims=False"),
    ]
    assert all(e.place is not None and e.place.file == __file__ for e in flow.edges)


def test_a_weight_scales_what_comes_over_its_edge():
    flow = flow_of(lambda x: x * np.sin(x), X)
    at = {(e.op, e.argument): i for i, e in enumerate(flow.edges)}
    g = apart(*X.shape, salt=4)
    first, second = g * np.sin(X), g * X * np.cos(X)
    for left, right in ((0, 1), (-1, 1), (1, 0), (2, 3)):
        weights = {at["mul", 0]: left, at["sin", 0]: right}
        (bar,) = flow.pull([g], weights)
        np.testing.assert_allclose(bar, left * first + right * second, rtol=1e-12)
    (bar,) = flow.pull([g])
    np.testing.assert_allclose(bar, first + second, rtol=1e-12, err_msg="weights are not kept")


class Wrong(cr.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return cr.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3.0


def within_no_grad(x: Any) -> Any:
    with cr.no_grad():
        return cr.sin(x)


CUTS = [
    lambda x: cr.sin(x).detach() * 1.0,
    lambda x: cr.sin(x.detach()),
    lambda x: cr.sin(x.data),
    lambda x: Wrong.apply(x),
    within_no_grad,
]


@pytest.mark.parametrize("f", CUTS)
def test_what_users_cut_or_claim_is_looked_through(f: Any):
    (bar,) = flow_of(f, X).pull([np.ones(X.shape)])
    np.testing.assert_allclose(bar, np.cos(X), rtol=1e-12)


def test_numbers_that_are_taken_out_cannot_be_followed():
    for f in (
        lambda x: x * float((x * x).sum().detach()),
        lambda x: x * (x * x).sum().item(),
        lambda x: cr.asarray(np.sin(x.detach().numpy())),
        lambda x: cr.asarray(np.sort(np.asarray(x))),
    ):
        assert trace(lambda x, f=f: [f(x)], [X], [True]) is None
    branch = flow_of(lambda x: x * 2.0 if x.sum() > -1e9 else x, X)
    assert [e.op for e in branch.edges] == ["sum", "mul"]


def test_arrays_that_are_written_into():
    def windows(x: Any) -> Any:
        out = np.empty((len(x) - 1, x.shape[1]))
        for i in range(len(out)):
            out[i] = x[i] * x[i + 1]
        out[0] += np.array([1.0, 2.0, 3.0, 4.0])
        return out

    g = apart(2, 4)
    flow = follow(lambda x: [windows(x)], [X], [True], [windows], [windows(X)])
    assert flow is not None and np is __import__("numpy")
    (bar,) = flow.pull([g])
    want = np.zeros_like(X)
    want[:-1] += g * X[1:]
    want[1:] += g * X[:-1]
    np.testing.assert_allclose(bar, want, rtol=1e-12)


def test_what_does_not_compute_the_same_is_not_followed():
    def aliased(x: Any) -> Any:
        out = np.zeros(x.shape)
        row = out[0]
        row += x[0]  # a view: NumPy writes into `out`
        return out * 2

    assert follow(lambda x: [aliased(x)], [X], [True], [aliased], [aliased(X)]) is None
