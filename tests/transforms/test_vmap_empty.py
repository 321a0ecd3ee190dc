"""vmap over no examples: the shapes and dtypes of one example, with 0 in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import fft, linalg
from chainrule.tree import flatten
from tests.ops.sample import Sample, apart
from tests.ops.test_generated import SAMPLES
from tests.sampling import sampled

SQUARE = apart(3, 3) + 3 * np.eye(3)
DEFINITE = SQUARE @ SQUARE.T
LINEAR: list[Sample] = [
    Sample("solve", linalg.solve, (SQUARE, apart(3, 2))),
    Sample("solve, one matrix", lambda b: linalg.solve(np.eye(3), b), (apart(3),)),
    *[
        Sample(name, getattr(linalg, name), (DEFINITE,))
        for name in ("inv", "det", "slogdet", "cholesky", "eigvalsh", "svdvals", "pinv", "qr")
    ],
    Sample("rfft", lambda x: cr.abs(fft.rfft(x)), (apart(2, 5),)),
    Sample("scan", lambda x: cr.scan(lambda c, v: (c * 0.5 + v, c), x[0] * 0, x), (apart(4),)),
]
TRACEABLE = [s for s in [*SAMPLES, *LINEAR] if s.traceable and s.args]


def gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of the sum of squares of what f gives, for all float arguments."""

    def wrt(*xs: Any) -> Any:
        def total(*xs: Any) -> Any:
            ys = [y for y in flatten(f(*xs))[0] if y.dtype.kind == "f"]
            return sum((cr.sum(y * y) for y in ys), cr.zeros((), np.float64))

        return cr.grad(total, tuple(i for i, x in enumerate(xs) if x.dtype.kind == "f"))(*xs)

    return wrt


def is_one_without_examples(f: Callable[..., Any], args: Any) -> None:
    """vmap of f over no examples has the shapes and dtypes of vmap over one, but for the size."""
    one = [np.asarray(a)[None] for a in args]
    want, got = [flatten(cr.vmap(f)(*xs))[0] for xs in (one, [x[:0] for x in one])]
    assert [(y.shape, y.dtype) for y in got] == [((0, *y.shape[1:]), y.dtype) for y in want]


@sampled(one_in=3)
@pytest.mark.parametrize("sample", TRACEABLE, ids=str)
def test_value_and_gradient(sample: Sample):
    is_one_without_examples(sample.f, sample.args)
    is_one_without_examples(gradient(sample.f), sample.args)


ONE_EACH = list({s.name: s for s in TRACEABLE}.values())


@pytest.mark.parametrize("sample", ONE_EACH, ids=str)
def test_vmap_in_vmap(sample: Sample):
    twice = [np.stack([np.asarray(a)] * 2) for a in sample.args]
    is_one_without_examples(cr.vmap(sample.f), twice)


@pytest.mark.parametrize("name", ["solve", "conv1d", "softmax", "getitem", "einsum", "scan"])
def test_compiled(name: str):
    sample = next(s for s in TRACEABLE if s.name == name)
    f = cr.vmap(sample.f)
    none = [np.asarray(a)[None][:0] for a in sample.args]
    for y, want in zip(flatten(cr.jit(f)(*none))[0], flatten(f(*none))[0], strict=True):
        assert (y.shape, y.dtype) == (want.shape, want.dtype)


def test_a_shared_argument_gets_zeros():
    bar = cr.grad(lambda w: cr.sum(cr.vmap(lambda x: cr.sin(x @ w))(np.zeros((0, 3)))))(SQUARE)
    assert np.array_equal(bar.numpy(), np.zeros((3, 3)))
