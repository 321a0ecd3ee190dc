"""What the engine derives from a forward is right, whatever the user cut or claimed on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.verify.arrays.numpy_standin import follow
from chainrule.verify.own.call import subject_of_call
from chainrule.verify.own.derivation import Derivation, derivation
from chainrule.verify.subject import values
from tests.ops.sample import Sample, apart
from tests.ops.test_generated import SAMPLES

X, W = apart(3, 4), apart(4, 5, salt=1)
G = apart(3, 5, salt=2)


def derivation_of(f: Any, *xs: Any) -> Derivation:
    found = derivation(lambda *args: [f(*args)], xs, [True] * len(xs))
    assert found is not None
    return found


@pytest.mark.parametrize("sample", SAMPLES[::12], ids=str)
def test_its_gradient_is_the_engine_s(sample: Sample):
    call = subject_of_call(sample.f, sample.args)
    xs = values(call)
    gs = [np.asarray(apart(*y.shape, salt=5), y.dtype) for y in call.forward(xs)]
    bars = call.derived(xs, gs)
    assert bars is not None
    for bar, want in zip(bars, call.pull(xs, gs), strict=True):
        assert (bar is None) == (want is None)
        if bar is not None and want is not None:
            np.testing.assert_allclose(bar, want, rtol=1e-12, atol=1e-14)


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
    (bar,) = derivation_of(f, X).pull([np.ones(X.shape)])
    np.testing.assert_allclose(bar, np.cos(X), rtol=1e-12)


def test_numbers_that_are_taken_out_cannot_be_followed():
    for f in (
        lambda x: x * float((x * x).sum().detach()),
        lambda x: x * (x * x).sum().item(),
        lambda x: cr.asarray(np.sin(x.detach().numpy())),
        lambda x: cr.asarray(np.sort(np.asarray(x))),
    ):
        assert derivation(lambda x, f=f: [f(x)], [X], [True]) is None
    branch = derivation_of(lambda x: x * 2.0 if x.sum() > -1e9 else x, X)
    np.testing.assert_array_equal(branch.pull([np.ones(X.shape)])[0], np.full(X.shape, 2.0))


def test_arrays_that_are_written_into():
    def windows(x: Any) -> Any:
        out = np.empty((len(x) - 1, x.shape[1]))
        for i in range(len(out)):
            out[i] = x[i] * x[i + 1]
        out[0] += np.array([1.0, 2.0, 3.0, 4.0])
        return out

    g = apart(2, 4)
    found = follow(lambda x: [windows(x)], [X], [True], [windows], [windows(X)])
    assert found is not None and np is __import__("numpy")
    (bar,) = found.pull([g])
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
