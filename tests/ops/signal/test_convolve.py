"""Convolution of whole arrays against SciPy's, eager and compiled, and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.signal

import chainrule as cr
from tests.ops.against_torch import generic

SHAPES = [
    ((7,), (3,)),
    ((3,), (7,)),
    ((4, 5), (2, 3)),
    ((3, 4, 5), (2, 2, 3)),
    ((2, 3, 2, 3), (1, 2, 2, 2)),
]
MODES = ["full", "same", "valid"]


def arrays(shapes: Any, c: bool) -> tuple[Any, Any]:
    return generic(*shapes[0], complex_=c), generic(*shapes[1], salt=1, complex_=c)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("c", [False, True])
@pytest.mark.parametrize("shapes", SHAPES)
def test_it_is_scipys(shapes: Any, c: bool, mode: Any) -> None:
    a, b = arrays(shapes, c)
    want = scipy.signal.convolve(a, b, mode)
    f = lambda a, b: cr.convolve(a, b, mode=mode)
    for call in (f, cr.jit(f)):
        np.testing.assert_allclose(call(cr.tensor(a), cr.tensor(b)).numpy(), want, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("c", [False, True])
@pytest.mark.parametrize("shapes", SHAPES)
def test_it_is_linear_in_each_and_its_derivative_the_transpose(
    shapes: Any, c: bool, mode: Any
) -> None:
    a, b = (cr.tensor(x) for x in arrays(shapes, c))
    f = lambda a, b: cr.convolve(a, b, mode=mode)
    y, back = cr.vjp(f, a, b)
    g = cr.tensor(generic(*y.shape, salt=2, complex_=c))
    dot = lambda x, y: np.vdot(x.numpy(), y.numpy()).real
    for x, bar in zip((a, b), back(g), strict=True):
        np.testing.assert_allclose(dot(bar, x), dot(g, y), rtol=1e-10)


def test_integers_stay_integers() -> None:
    y = cr.convolve(cr.tensor([1, 2, 3]), cr.tensor([0, 1]))
    assert y.dtype == np.int64 and y.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("shapes", "mode", "words"),
    [
        (((3,), (3, 2)), "full", "equally many axes"),
        (((0,), (3,)), "full", "with elements"),
        (((3, 4), (4, 3)), "valid", "along every axis"),
        (((3,), (2,)), "some", "full, same or valid"),
    ],
)
def test_what_has_no_convolution_is_refused(shapes: Any, mode: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        cr.convolve(cr.ones(shapes[0]), cr.ones(shapes[1]), mode=mode)
