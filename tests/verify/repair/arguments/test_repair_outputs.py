"""Outputs in a tuple of their own, and padding that is made for one size."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from chainrule import verify
from tests.sampling import sampled_file
from tests.verify.repair.lines.test_repair_raising import draw, repaired

pytestmark = sampled_file(one_in=3)

Array = Any


def cell(x: Array, h: Array, c: Array, w: Array) -> Any:
    a = np.hstack([x, h]) @ w
    f, u = 1 / (1 + np.exp(-a)), np.tanh(a)
    new = f * c + u
    return (np.tanh(new), new), (x, h, c, w, f, u, new)


def cell_back(dstates: Any, cache: Any) -> Any:
    dh, dc = dstates
    x, h, c, w, f, u, new = cache
    dnew = dc + dh * (1 - np.tanh(new) ** 2)
    da = dnew * c * f * (1 - f) + dnew * (1 - u * u)
    dx, dprev = np.split(da @ w.T, [x.shape[1]], axis=1)
    return dx, dprev, dnew * f, np.hstack([x, h]).T @ da


def cell_back_wrong(dstates: Any, cache: Any) -> Any:
    dh, dc = dstates
    x, h, c, w, f, u, new = cache
    dnew = dc - dh * (1 - np.tanh(new) ** 2)
    da = dnew * c * f * (1 - f) + dnew * (1 - u * u)
    dx, dprev = np.split(da @ w.T, [x.shape[1]], axis=1)
    return dx, dprev, dnew * f, np.hstack([x, h]).T @ da


def test_outputs_in_a_tuple_of_their_own() -> None:
    args = draw(2, 3), draw(2, 4, seed=1), draw(2, 4, seed=2), draw(7, 4, seed=3)
    report = verify.pair(cell, cell_back, *args)
    assert report.ok and report.ledger.checked
    repaired(verify.pair(cell, cell_back_wrong, *args), "dc + dh * (1 - np.tanh(new) ** 2)")


class Cell:
    """The same as an object."""

    def forward(self, x: Array, h: Array, c: Array, w: Array) -> Any:
        return cell(x, h, c, w)

    def backward(self, dstates: Any, cache: Any) -> Any:
        return cell_back(dstates, cache)


class WrongCell(Cell):
    def backward(self, dstates: Any, cache: Any) -> Any:
        return cell_back_wrong(dstates, cache)


def test_outputs_of_a_layer_in_a_tuple_of_their_own() -> None:
    args = draw(2, 3), draw(2, 4, seed=1), draw(2, 4, seed=2), draw(7, 4, seed=3)
    report = verify.pair(Cell(), *args)
    assert report.ok and report.ledger.checked
    assert not verify.pair(WrongCell(), *args).ok


class SameConv(torch.autograd.Function):
    """Windows of three, as `padding=1` says."""

    @staticmethod
    def forward(ctx: Any, image: Any, kernel: Any) -> Any:
        ctx.save_for_backward(image, kernel)
        return F.conv2d(image, kernel, padding=1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        image, kernel = ctx.saved_tensors
        turned = kernel.flip(2, 3).transpose(0, 1)
        along = F.conv2d(image.transpose(0, 1), g.transpose(0, 1), padding=1)
        return F.conv2d(g, turned, padding=1), along.transpose(0, 1)


class SwappedConv(SameConv):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        image, kernel = ctx.saved_tensors
        turned = kernel.flip(2, 3)
        along = F.conv2d(image.transpose(0, 1), g.transpose(0, 1), padding=1)
        return F.conv2d(g, turned, padding=1), along.transpose(0, 1)


def test_what_is_padded_for_windows_of_three_is_right_for_these() -> None:
    image = torch.tensor(draw(3, 4, 6, 6), requires_grad=True)
    kernel = torch.tensor(draw(4, 4, 3, 3, seed=1), requires_grad=True)
    assert verify.function(SameConv, image, kernel).ok
    assert not verify.function(SwappedConv, image, kernel).ok
