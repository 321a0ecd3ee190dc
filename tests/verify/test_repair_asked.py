"""Gradients that are asked for by name, counts of pieces, cotangents of several outputs: which
change undoes a slip, and what the slip is called."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from chainrule import verify
from chainrule.verify.finding import Finding
from tests.sampling import sampled_file
from tests.verify.repair_cases import module

pytestmark = sampled_file(one_in=12)


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


IN_PIECES = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, table, size):
        ctx.save_for_backward(rows, table)
        ctx.size = size
        found = [torch.tanh(part @ table) for part in rows.split(size)]
        return torch.cat(found).sum(1)

    @staticmethod
    def backward(ctx, g):
        rows, table = ctx.saved_tensors
        size = ctx.size
        n = len(rows)
        d_rows, d_table = torch.zeros_like(rows), torch.zeros_like(table)
        pieces = (n + size - 1) // size
        for k in range(pieces):
            part = rows[k * size : (k + 1) * size]
            y = torch.tanh(part @ table)
            d = g[k * size : (k + 1) * size, None] * (1 - y * y)
            d_rows[k * size : (k + 1) * size] = d @ table.T
            d_table += part.T @ d
        return d_rows, d_table, None
"""

BY_START = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, size):
        ctx.save_for_backward(x)
        ctx.size = size
        return torch.stack([part.square().sum() for part in x.split(size)]).sum()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        n, size = len(x), ctx.size
        d = torch.zeros_like(x)
        for start in range(0, n, size):
            d[start : start + size] = 2 * g * x[start : start + size]
        return d, None
"""


@pytest.mark.parametrize(
    ("text", "right", "wrong", "after", "rows"),
    [
        (IN_PIECES, "(n + size - 1) // size", "n // size", "-(-n // size)", 11),
        (BY_START, "range(0, n, size)", "range(0, n - size + 1, size)", "range(0, n, size)", 10),
        (BY_START, "range(0, n, size)", "range(0, n - n % size, size)", "range(0, n, size)", 7),
    ],
)
def test_a_last_piece_that_is_not_full_is_told_from_a_path_that_is_lost(
    text: str, right: str, wrong: str, after: str, rows: int, tmp_path: Path
) -> None:
    args: list[Any] = [torch.randn(rows, 3).requires_grad_()]
    args += [torch.randn(3, 2).requires_grad_()] if text is IN_PIECES else []
    for f in found(text, right, wrong, [*args, 4], tmp_path):
        assert f.name.code == "lengths"
        assert f.place is not None and wrong in f.place.text
        assert f.correction is not None and f.correction.rechecked
        assert after in (f.correction.after or after)
        assert "+=" not in f.correction.formula


TWO = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        size = x.square().sum(0)
        weight = x.exp()
        ctx.save_for_backward(x, weight)
        return size, weight.sum(0)

    @staticmethod
    def backward(ctx, g_size, g_weight):
        x, weight = ctx.saved_tensors
        return 2 * x * g_size + weight * g_weight
"""


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("weight * g_weight", "weight * g_size", "wrong_value"),
        ("2 * x * g_size", "2 * x * g_weight", "wrong_value"),
        (" + weight * g_weight", "", "missing_term"),
    ],
)
def test_a_cotangent_that_is_ignored_since_another_one_is_read_in_its_place(
    right: str, wrong: str, code: str, tmp_path: Path
) -> None:
    (f,) = found(TWO, right, wrong, [torch.randn(4, 3).requires_grad_()], tmp_path)
    assert f.name.code == code
    assert f.place is not None and wrong in f.place.text
    assert f.correction is not None and f.correction.rechecked
    assert all("is kept where" not in n.detail for n in f.names)
