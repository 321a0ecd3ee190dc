"""Gradients that are asked for by name, counts of pieces, cotangents of several outputs: which
change undoes a slip, and what the slip is called."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from chainrule import verify
from chainrule.verify.finding import Finding
from tests.verify.repair_cases import module

torch = pytest.importorskip("torch")

_number = itertools.count(12500)

ASKED = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, image, gain, shift):
        ctx.save_for_backward(image, gain)
        return image.sin() * gain + shift

    @staticmethod
    def backward(ctx, g):
        image, gain = ctx.saved_tensors
        of_image, of_gain, of_shift = ctx.needs_input_grad
        d_image = g * gain * image.cos() if of_image else None
        d_gain = (g * image.sin()).sum(0) if of_gain else None
        d_shift = g.sum(0) if of_shift else None
        return d_image, d_gain, d_shift
"""


def found(text: str, right: str, wrong: str, args: list[Any], folder: Path) -> list[Finding]:
    """What is said of a Function, once without and once with a slip."""
    assert text.count(right) == 1
    assert verify.function(module(text, folder, next(_number)).F, *args).ok
    spoiled = module(text.replace(right, wrong), folder, next(_number))
    report = verify.function(spoiled.F, *args)
    assert not report.ok
    return [f for f in report.findings if f.level == "error"]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if of_shift", "if of_image"),
        ("if of_gain", "if of_image"),
        ("of_image, of_gain, of_shift = ctx", "of_gain, of_image, of_shift = ctx"),
    ],
)
def test_what_is_asked_for_a_gradient_is_whether_that_one_is_needed(
    right: str, wrong: str, tmp_path: Path
) -> None:
    """One name is changed where it is read, unless all are unpacked in another order than that of
    the arguments which they are called after."""
    args = [torch.randn(4, 3), torch.randn(3).requires_grad_(), torch.randn(3).requires_grad_()]
    for f in found(ASKED, right, wrong, args, tmp_path):
        assert f.name.code == "dropped"
        assert f.place is not None and wrong in f.place.text
        assert f.correction is not None and f.correction.rechecked
        assert right in f.correction.after
