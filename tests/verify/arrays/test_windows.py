"""Images of which windows leave something out, as nobody's first image does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from chainrule import verify
from tests.verify.measure.measured import normal


def windows(x: Any, w: Any, step: int = 2) -> Any:
    """The convolution of rows (n, h) with w (k,), at every second place."""
    k = len(w)
    places = (x.shape[1] - k) // step + 1
    return np.stack([x[:, i * step : i * step + k] @ w for i in range(places)], axis=1)


def back(g: Any, dx: Any, x: Any, w: Any) -> Any:
    dw = np.zeros(w.shape)
    for i in range(g.shape[1]):
        dx[:, 2 * i : 2 * i + len(w)] += np.outer(g[:, i], w)
        dw += g[:, i] @ x[:, 2 * i : 2 * i + len(w)]
    return dx, dw


def counted_back(g: Any, x: Any, w: Any) -> Any:
    dx = np.zeros((len(x), (g.shape[1] - 1) * 2 + len(w)))
    return back(g, dx, x, w)


@pytest.mark.parametrize("lengths", [(2, 7), (3, 9), (5, 11)])
def test_a_length_that_is_counted_back_forgets_what_windows_leave_out(lengths: tuple[int, int]):
    (finding,) = verify.pair(windows, counted_back, normal(*lengths), normal(3)).findings
    assert finding.name.code == "size" and finding.correction is not None
    assert finding.correction.after.strip() == "dx = np.zeros(x.shape)"


def test_it_is_right_where_the_length_is_the_image_s():
    def right_back(g: Any, x: Any, w: Any) -> Any:
        return back(g, np.zeros(x.shape), x, w)

    assert verify.pair(windows, right_back, normal(2, 7), normal(3)).ok


def test_who_takes_multiples_only_is_not_asked_for_others():
    def pooled(x: Any) -> Any:
        return x.reshape(len(x), -1, 2).mean(2)

    def pooled_back(g: Any, x: Any) -> Any:
        return np.repeat(g / 2, 2, axis=1)

    assert verify.pair(pooled, pooled_back, normal(3, 8)).ok


class Strided(torch.autograd.Function):
    """A library counts the windows; `counted` is how long the backward believes the rows to be."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, counted: bool) -> Any:
        ctx.save_for_backward(x, w)
        ctx.counted = counted
        return torch.nn.functional.conv1d(x, w, stride=2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        more = 0 if ctx.counted else (x.shape[2] - w.shape[2]) % 2
        dx = torch.nn.functional.conv_transpose1d(g, w, stride=2, output_padding=more)
        return dx, torch.nn.grad.conv1d_weight(x, w.shape, g, stride=2), None


@pytest.mark.parametrize("counted", [True, False])
def test_windows_that_a_library_counts(counted: bool):
    x = torch.randn(2, 3, 7, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 3, 3, dtype=torch.float64, requires_grad=True)
    report = verify.function(Strided, x, w, counted)
    assert [f.name.code for f in report.findings if f.level != "note"] == ["size"] * counted
