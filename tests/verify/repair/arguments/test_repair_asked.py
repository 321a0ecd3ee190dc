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
from tests.verify.repair.repair_cases import module

pytestmark = sampled_file(one_in=12)

torch = pytest.importorskip("torch")

_number = itertools.count(12500)


def found(text: str, right: str, wrong: str, args: list[Any], folder: Path) -> list[Finding]:
    """What is said of a Function, once without and once with a slip."""
    assert text.count(right) == 1
    assert verify.function(module(text, folder, next(_number)).F, *args).ok
    spoiled = module(text.replace(right, wrong), folder, next(_number))
    report = verify.function(spoiled.F, *args)
    assert not report.ok
    return [f for f in report.findings if f.level == "error"]


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
