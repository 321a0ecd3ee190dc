"""Backwards that let the engine derive what they compute again, and take a value off its graph."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule import verify
from tests.sampling import sampled_file
from tests.verify.repair_cases import module

pytestmark = sampled_file(one_in=12)


_number = itertools.count(9800)

AGAIN = """
import torch

def spread(x):
    return x.square().mean(dim=-1, keepdim=True).sqrt() + 0.5

def gate(x, w):
    size = spread(x)
    return torch.tanh(x @ w) / size

class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return gate(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            y = gate(x, w)
        return torch.autograd.grad(y, (x, w), g)
"""

KEPT = """
import chainrule as cr

def length(v):
    return cr.sqrt((v * v).sum())

class F(cr.Function):
    @staticmethod
    def forward(ctx, x, v):
        ctx.length = length(v)
        ctx.save_for_backward(x, v)
        return x * (v / ctx.length)

    @staticmethod
    def backward(ctx, g):
        x, v = ctx.saved_tensors
        n = length(v)

        def unit(v):
            return v / length(v)

        _, pullback = cr.vjp(unit, v)
        return g * v / n, *pullback((g * x).sum(axis=0))
"""

INSIDE = """
import torch

class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x.sum())

    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            total = x.sum()
            y = x * torch.sigmoid(total)
        return torch.autograd.grad(y, x, g)
"""


def _report(text: str, folder: Path) -> verify.Report:
    rng = np.random.default_rng(4)
    made = module(text, folder, next(_number))
    if text.startswith("\nimport chainrule"):
        return verify.function(made.F, rng.normal(size=(5, 4)), rng.normal(size=4))
    shapes = ((5, 4), (4, 3)) if "w)" in text else ((5, 4),)
    args: list[Any] = [torch.tensor(rng.normal(size=s), requires_grad=True) for s in shapes]
    return verify.function(made.F, *args)


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        (AGAIN, "size = spread(x)", "size = spread(x.detach())"),
        (AGAIN, "x.square().mean(dim=-1", "x.square().detach().mean(dim=-1"),
        (AGAIN, "torch.tanh(x @ w) / size", "torch.tanh(x @ w) / size.data"),
        (KEPT, "return v / length(v)", "return v / n"),
        (KEPT, "return v / length(v)", "return v / ctx.length"),
        (INSIDE, "total = x.sum()", "total = x.sum().item()"),
    ],
)
def test_a_cut_is_found_and_taken_back(text: str, right: str, wrong: str, tmp_path: Path) -> None:
    assert text.count(right) == 1
    report = _report(text.replace(right, wrong), tmp_path)
    (finding,) = [f for f in report.findings if f.level == "error"]
    assert {"missing_term", "partly_detached"} & {n.code for n in finding.names[:2]}
    assert finding.place is not None and wrong in finding.place.text
    assert finding.correction is not None and finding.correction.rechecked
    assert right in finding.correction.after


def test_what_is_computed_without_its_graph_gets_it_back(tmp_path: Path) -> None:
    inside = "            total = x.sum()\n"
    apart = "            with torch.no_grad():\n                total = x.sum()\n"
    report = _report(INSIDE.replace(inside, apart), tmp_path)
    (finding,) = report.findings
    assert finding.place is not None and finding.place.text == "with torch.no_grad():"
    assert finding.correction is not None and finding.correction.rechecked
    assert finding.correction.after.strip() == "total = x.sum()"


@pytest.mark.parametrize("text", [AGAIN, KEPT, INSIDE])
def test_what_is_right_is_right(text: str, tmp_path: Path) -> None:
    report = _report(text, tmp_path)
    assert report.ok, str(report)
