"""Lengths that a forward is made for, the line at which digits are lost, layouts of numbers."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule import verify
from tests.sampling import sampled_file
from tests.verify.repair.repair_cases import module

pytestmark = sampled_file(one_in=3)

_number = itertools.count(9500)

RNG = np.random.default_rng(7)

TWO_OUTPUTS = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin(), x.square().mean()

    @staticmethod
    def backward(ctx, g, scalar):
        (x,) = ctx.saved_tensors
        assert scalar.shape == ()
        return g * x.cos() + 2 * scalar * x / x.numel()
"""


def test_cotangents_of_numbers_are_numbers_in_every_layout(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    made = module(TWO_OUTPUTS, tmp_path, next(_number))
    x = torch.tensor(RNG.normal(size=(3, 4))).requires_grad_()
    assert verify.function(made.F, x).ok


@pytest.mark.parametrize("inside", [True, False], ids=["in the backward", "in the forward"])
def test_the_line_at_which_digits_are_lost(inside: bool, tmp_path: Path) -> None:
    """A variance as the difference of two large numbers, in float32."""
    exact = "((x - mean) ** 2).mean(axis=-1, keepdims=True)"
    loses = "(x * x).mean(axis=-1, keepdims=True) - mean * mean"
    text = f"""
import numpy as np

def forward(x):
    mean = x.mean(axis=-1, keepdims=True)
    var = {exact}
    kept = {exact if inside else loses}
    return (x - mean) / np.sqrt(var + 1e-5), (x, kept)

def backward(g, cache):
    x, var = cache
    mean = x.mean(axis=-1, keepdims=True)
    {f"var = {loses}" if inside else ""}
    r = 1 / np.sqrt(var + 1e-5)
    h = (x - mean) * r
    return r * (g - g.mean(axis=-1, keepdims=True) - h * (g * h).mean(axis=-1, keepdims=True))
"""
    m = module(text, tmp_path, next(_number))
    x = (300 + RNG.normal(size=(4, 6))).astype(np.float32)
    (slip,) = verify.pair(m.forward, m.backward, x).findings
    assert slip.name.code == "precision"
    assert slip.place is not None and "x * x" in slip.place.text


class Regression:
    """Cannot be called, and its forward is called loss."""

    def __init__(self) -> None:
        self.w, self.dw = RNG.normal(size=3), np.zeros(3)

    def loss(self, x: Any, y: Any) -> float:
        self.x, self.e = x, x @ self.w - y
        return float(self.e @ self.e)

    def backward(self) -> None:
        self.dw = 2 * self.x.T @ self.e


def test_an_object_that_cannot_be_called() -> None:
    assert verify.pair(Regression(), RNG.normal(size=(5, 3)), RNG.normal(size=5)).ok
