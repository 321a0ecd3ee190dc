"""The statement that is wrong is the one that is named, also inside of loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sampling import sampled_file
from tests.verify.repair.repair_cases import module

pytestmark = sampled_file(one_in=12)


torch = pytest.importorskip("torch")

_number = itertools.count(7000)

RNN = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask, w, u):
        h = x.new_zeros(x.shape[0], u.shape[0])
        hs, cs = [h], []
        for t in range(x.shape[1]):
            m = mask[:, t : t + 1]
            c = torch.tanh(x[:, t] @ w + h @ u)
            h = m * c + (1 - m) * h
            cs.append(c)
            hs.append(h)
        ctx.save_for_backward(x, mask, w, u, torch.stack(cs), torch.stack(hs))
        return h

    @staticmethod
    def backward(ctx, dh):
        x, mask, w, u, cs, hs = ctx.saved_tensors
        dx, dw, du = torch.zeros_like(x), torch.zeros_like(w), torch.zeros_like(u)
        for t in range(x.shape[1] - 1, -1, -1):
            m = mask[:, t : t + 1]
            dc = dh * m
            da = dc * (1 - cs[t] ** 2)
            dx[:, t] = da @ w.t()
            dw += x[:, t].t() @ da
            du += hs[t].t() @ da
            dh = da @ u.t() + dh * (1 - m)
        return dx, None, dw, du
"""

SCAN = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, a, b):
        s = torch.zeros_like(x[:, 0])
        pre, ss = [], [s]
        for t in range(x.shape[1]):
            z = a * s + b * x[:, t]
            s = z.clamp(-1, 1)
            pre.append(z)
            ss.append(s)
        ctx.save_for_backward(x, a, b, torch.stack(pre), torch.stack(ss))
        return torch.stack(ss[1:], 1)

    @staticmethod
    def backward(ctx, grad):
        x, a, b, pre, ss = ctx.saved_tensors
        dx, da, db = torch.zeros_like(x), torch.zeros_like(a), torch.zeros_like(b)
        carry = torch.zeros_like(x[:, 0])
        for t in reversed(range(x.shape[1])):
            ds = grad[:, t] + carry
            dz = ds * (pre[t].abs() < 1)
            da += (dz * ss[t]).sum(0)
            db += (dz * x[:, t]).sum(0)
            dx[:, t] = dz * b
            carry = dz * a
        return dx, da, db
"""

NORM = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        centered = x - x.mean(-1, keepdim=True)
        rstd = (centered.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()
        xhat = centered * rstd
        norm = xhat * weight + bias
        out = torch.tanh(norm)
        ctx.save_for_backward(xhat, rstd, weight, out)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        xhat, rstd, weight, out = ctx.saved_tensors
        d_norm = grad_out * (1 - out * out)
        d_xhat = d_norm * weight
        m1 = d_xhat.mean(-1, keepdim=True)
        m2 = (d_xhat * xhat).mean(-1, keepdim=True)
        d_x = (d_xhat - m1 - xhat * m2) * rstd
        return d_x, (d_norm * xhat).sum(0), d_norm.sum(0)
"""


def _drawn(*shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float64).requires_grad_()


def _padded() -> list[Any]:
    mask = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=torch.float64)
    return [_drawn(3, 4, 2), mask, _drawn(2, 5), _drawn(5, 5)]


def _scanned() -> list[Any]:
    return [_drawn(3, 5, 4), _drawn(4), _drawn(4)]


def _normed() -> list[Any]:
    return [_drawn(5, 4), _drawn(4), _drawn(4)]


def _report(text: str, args: Callable[[], list[Any]], folder: Path) -> Any:
    from chainrule import verify

    torch.manual_seed(3)
    return verify.function(module(text, folder, next(_number)).F, *args())


@pytest.mark.parametrize(
    ("text", "args", "right", "wrong"),
    [
        (RNN, _padded, "range(x.shape[1] - 1, -1, -1)", "range(x.shape[1] - 1, 0, -1)"),
        (NORM, _normed, "d_xhat = d_norm * weight", "d_xhat = d_norm"),
    ],
)
def test_the_statement_is_found_and_mended(
    text: str, args: Callable[[], list[Any]], right: str, wrong: str, tmp_path: Path
) -> None:
    assert text.count(right) == 1
    report = _report(text.replace(right, wrong), args, tmp_path)
    assert report.findings
    for finding in report.findings:
        assert finding.place is not None and wrong in finding.place.text
        assert finding.correction is not None and finding.correction.rechecked
        assert finding.correction.place == finding.place


@pytest.mark.parametrize(("text", "args"), [(RNN, _padded), (SCAN, _scanned), (NORM, _normed)])
def test_what_is_right_is_right(text: str, args: Callable[[], list[Any]], tmp_path: Path) -> None:
    assert _report(text, args, tmp_path).ok
