"""Lengths that a forward is made for, layouts of numbers."""

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
