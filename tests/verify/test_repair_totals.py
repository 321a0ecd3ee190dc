"""One element in place of a sum, totals that are not one, results of a forward in a tuple of their
own, and which of two places a mistake is told at."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

import chainrule as cr
from chainrule import tensor, verify
from tests.sampling import sampled_file
from tests.verify.test_repair_parts import draw, repaired

pytestmark = sampled_file(one_in=12)


Array = Any


def unbroadcast(grad: Array, shape: tuple[int, ...]) -> Array:
    while grad.ndim > len(shape):
        grad = grad[0]
    for axis, n in enumerate(shape):
        if n == 1 and grad.shape[axis] != 1:
            grad = grad.sum(axis=axis, keepdims=True)
    return grad


def scaled(x: Array, scale: Array) -> Array:
    return x * scale


def scaled_back(g: Array, x: Array, scale: Array) -> Any:
    return g * scale, unbroadcast(g * x, scale.shape)


def test_one_element_in_place_of_a_sum_in_a_helper() -> None:
    report = verify.pair(scaled, scaled_back, draw(2, 3, 4), draw(3, 1, seed=1))
    repaired(report, "grad = grad.sum(axis=0)")
    assert report.findings[0].name.code == "not_summed"


def counted(z: Array, counts: Array) -> Any:
    shifted = z - z.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -(counts * logs).sum(), (logs, counts)


def counted_back(cache: Any) -> Array:
    logs, counts = cache
    return np.exp(logs) - counts


def test_a_total_that_is_not_one() -> None:
    counts = np.random.default_rng(1).integers(0, 4, (4, 3)) + 0.25
    report = verify.pair(counted, counted_back, draw(4, 3), counts, wrt=["z"])
    repaired(report, "np.exp(logs) * counts.sum(axis=-1, keepdims=True) - counts")


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


class Dropout(cr.Function):
    """Weights that are kept, and changed in place then."""

    @staticmethod
    def forward(ctx: Any, x: Any, keep: Any) -> Any:
        w = np.tanh(x.numpy())
        ctx.cache = [w, keep.numpy()]
        w *= keep.numpy()
        return tensor(w)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        w, keep = ctx.cache
        return tensor(g.numpy() * keep * (1 - w**2)), None


def test_a_change_in_place_is_told_where_it_is_made() -> None:
    keep = tensor(np.array([[0.5, 2.0, 0.0], [1.5, 0.5, 1.0]]))
    report = verify.function(Dropout, tensor(draw(2, 3), requires_grad=True), keep)
    repaired(report, "w = w * keep.numpy()")
    assert report.findings[0].name.code == "stale"


class Weighted(cr.Function):
    """The place of another input is asked for."""

    @staticmethod
    def forward(ctx: Any, rows: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return (x * w).sum(axis=-1)[rows]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        dx, dw = cr.zeros_like(x), cr.zeros_like(w)
        if ctx.needs_input_grad[1]:
            dx = w * g[:, None]
        if ctx.needs_input_grad[0]:
            dw = x * g[:, None]
        return None, dx, dw


def test_a_gradient_of_zeros_is_dropped_whatever_ends_it() -> None:
    given = [tensor(draw(3, 4, seed=s), requires_grad=True) for s in (0, 1)]
    finding = verify.function(Weighted, np.arange(3), *given).findings[0]
    assert finding.name.code == "dropped"


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
    report = verify.function(SwappedConv, image, kernel)
    repaired(report, "F.conv2d(g, turned.transpose(0, 1), padding=1)")
    assert report.findings[0].name.code == "transposed"


def centred(x: Array) -> Array:
    return x - x.mean(axis=(0, 2, 3), keepdims=True)


def centred_back(g: Array) -> Array:
    axes = (0, 2, 3)
    return g - g.mean(axis=axes[:2], keepdims=True)


def test_axes_that_are_cut_short_are_wrong_axes() -> None:
    report = verify.pair(centred, centred_back, draw(3, 2, 4, 5))
    repaired(report, "g.mean(axis=axes, keepdims=True)")
    assert report.findings[0].name.code == "wrong_axis"


class MaskedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Array, lengths: Array) -> Array:
        keep = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
        ctx.save_for_backward(x, lengths)
        return (x**2 * keep).sum() / keep.sum()

    @staticmethod
    def backward(ctx: Any, g: Array) -> Any:
        x, lengths = ctx.saved_tensors
        keep = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
        return 2 * g * x * keep / keep.sum(), None


class WrongMean(MaskedMean):
    @staticmethod
    def backward(ctx: Any, g: Array) -> Any:
        x, lengths = ctx.saved_tensors
        keep = torch.arange(x.shape[1]) < lengths.unsqueeze(1)
        return 2 * g * x * keep / keep.numel(), None


def test_what_the_forward_asks_of_a_mask() -> None:
    args = torch.tensor(draw(3, 4), requires_grad=True), torch.tensor([4, 1, 3])
    assert verify.function(MaskedMean, *args).ok
    repaired(verify.function(WrongMean, *args), "keep / keep.sum()")
