"""Compiled convolutions that read padded arrays in place: the same as by columns."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.graph.rules import direct_convolution
from chainrule.engine.graph import apply
from chainrule.ops.windows import convolution_layouts as layouts
from tests.ops.windows.test_direct_convolution import CASES, FORMS, Case, image, same
from tests.sampling import sampled

STRIDED = [
    image(3, 4, 6, 9, 3, padding=1, stride=2),
    image(2, 3, 5, 8, 2, stride=3),  # elements that no window sees
    image(2, 4, 4, 7, 3, padding=2, stride=2, dilation=2, groups=2),
    image(2, 4, 4, 5, 3, padding=1, stride=2, dilation=2),  # none sees the last row
]


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All of known sizes in place; the results that were asked for."""
    asked: list[str] = []

    def always(r: Any, result: str, *_: Any) -> bool:
        asked.append(result)
        return True

    monkeypatch.setattr(direct_convolution, "pays", always)
    return asked


def agrees(case: Case, result: str) -> None:
    operands = case.operands()
    form = FORMS[result](case.windows, case.groups)
    xs = [operands[role] for role in form.ins]
    made = cr.jit(lambda *xs: apply(form, *xs))(*map(cr.tensor, xs)).numpy()
    plain = form.by_columns(np.full(operands[result].shape, np.nan, case.dtype), xs)
    same(case, made, plain)


@sampled("result", one_in=8)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("result", FORMS)
def test_in_place_is_by_columns(case: Case, result: str, in_place: list[str]):
    agrees(case, result)
    assert in_place == [result]


@pytest.mark.parametrize("case", STRIDED, ids=str)
def test_what_is_between_windows(case: Case, in_place: list[str]):
    agrees(case, "x")


@pytest.mark.parametrize("result", FORMS)
def test_some_examples_at_a_time(result: str, in_place: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(layouts, "NEAR", 3000)
    agrees(image(5, 3, 20, 7, 3, padding=1), result)


def test_an_array_whose_axes_are_in_another_order(in_place: list[str]):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(7, 8, 3, 2)), rng.normal(size=(4, 3, 3, 3))

    def f(x: Any, w: Any) -> Any:
        y = cr.permute_dims(x * 2, (3, 2, 0, 1))
        return cr.nn.functional.conv2d(cr.concat([y, y + 1]), w, padding=1)

    np.testing.assert_allclose(cr.jit(f)(x, w).numpy(), f(cr.tensor(x), cr.tensor(w)).numpy())
    assert in_place


def test_the_choice():
    """Large ones are in place; small ones, and those of unknown size, are matrix products."""
    conv = partial(cr.nn.functional.conv2d, padding=1)
    x, w = cr.ones((16, 16, 28, 28)), cr.ones((16, 16, 3, 3))
    f = cr.jit(conv)
    f(x, w)
    assert "shifted_product" in str(f.loops())
    f = cr.jit(conv)
    f(x[:2, :2, :8, :8], w[:3, :2])
    assert "shifted_product" not in str(f.loops())
    f = cr.jit(conv, dynamic={0: {0: "N"}})
    for n in (16, 5):
        np.testing.assert_allclose(f(x[:n], w).numpy(), conv(x[:n], w).numpy(), rtol=1e-5)
    assert "shifted_product" not in str(f.loops())
