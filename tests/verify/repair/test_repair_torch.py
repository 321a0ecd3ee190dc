"""Backwards of `torch.autograd.Function`s are put right in PyTorch's own words."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from chainrule.verify.evidence import Evidence
from chainrule.verify.measure.examine import examine
from chainrule.verify.repair import repairs
from tests.sampling import sampled_file
from tests.verify.repair import repair_cases_torch as cases
from tests.verify.repair.repair_cases import module

pytestmark = sampled_file(one_in=12)


torch = pytest.importorskip("torch")

_number = itertools.count(5000)


def evidence_of(op: str, right: str, wrong: str, folder: Path) -> Evidence:
    from chainrule.verify.pytorch import subject_of_function

    head, tail = cases.OPS[op].split("def backward")
    assert right in tail
    text = f"import torch\n{head}def backward{tail.replace(right, wrong, 1)}"
    function = module(text, folder, next(_number)).F
    return examine(subject_of_function(function, [_argument(op, s) for s in cases.SHAPES[op]]))


def _argument(op: str, shape: tuple[int, ...] | float) -> Any:
    generator = torch.Generator().manual_seed(len(op))
    if isinstance(shape, float):
        return shape
    if op == "ce" and len(shape) == 1:
        return torch.randint(0, 3, shape, generator=generator)
    made = torch.randn(shape, generator=generator, dtype=torch.float64)
    return made.requires_grad_()


@pytest.mark.parametrize(("op", "right", "wrong"), cases.SLIPS[::5])
def test_a_slip_is_undone(op: str, right: str, wrong: str, tmp_path: Path) -> None:
    best = repairs(evidence_of(op, right, wrong, tmp_path))[0]
    assert best.whole and best.correction.rechecked
    assert best.correction.error is not None and best.correction.error < 1e-6


@pytest.mark.parametrize(
    ("op", "right", "wrong", "after", "code"),
    [
        ("relu_save", "g.clone()", "g", "gx = g.clone()", "writes"),
        ("masked", "g = g.mul(2 * r)", "g.mul_(2 * r)", "g = g.mul(2 * r)", "writes"),
        (
            "masked",
            "g.mul(2 * r)",
            "g.as_strided(r.shape, (r.shape[1], 1)) * 2 * r",
            "g = g.contiguous().as_strided(r.shape, (r.shape[1], 1)) * 2 * r",
            "contiguity",
        ),
        (
            "attention",
            "p.transpose(-2, -1) @ do",
            "p @ do",
            "dv = p.transpose(-2, -1) @ do",
            "transposed",
        ),
        ("attention", "q * ctx.scale", "q", "dk = ds.transpose(-2, -1) @ q * ctx.scale", "factor"),
        (
            "solve",
            "g, adjoint=True)",
            "g)",
            "db = torch.linalg.lu_solve(lu, pivots, g, adjoint=True)",
            "transposed",
        ),
        (
            "solve",
            "adjoint=True",
            "adjoint=False",
            "db = torch.linalg.lu_solve(lu, pivots, g, adjoint=True)",
            "transposed",
        ),
        (
            "lower",
            "upper=True",
            "upper=False",
            "db = torch.linalg.solve_triangular(low.mT, g, upper=True)",
            "transposed",
        ),
        ("ce", "g * d / p.shape[0]", "d / p.shape[0]", "return d / p.shape[0] * g, None", "factor"),
    ],
)
def test_the_edit_is_in_the_words_of_the_library(
    op: str, right: str, wrong: str, after: str, code: str, tmp_path: Path
) -> None:
    best = repairs(evidence_of(op, right, wrong, tmp_path))[0]
    assert (best.correction.after.strip(), best.codes) == (after, (code,))


WINDOW = """
import torch

class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, width):
        s = q.new_zeros(len(q), len(k))
        for i in range(len(q)):
            lo = max(0, i - width)
            s[i, lo:i + 1] = k[lo:i + 1] @ q[i]
        ctx.save_for_backward(q, k)
        ctx.width = width
        return s

    @staticmethod
    def backward(ctx, g):
        q, k = ctx.saved_tensors
        dq, dk = torch.zeros_like(q), torch.zeros_like(k)
        for i in range(len(q)):
            lo = max(0, i - ctx.width + 1)
            dq[i] = g[i, lo:i + 1] @ k[lo:i + 1]
            dk[lo:i + 1] += torch.outer(g[i, lo:i + 1], q[i])
        return dq, dk, None
"""


def test_what_is_computed_again_is_in_the_backward_s_names(tmp_path: Path) -> None:
    from chainrule.verify.pytorch import subject_of_function

    function = module(WINDOW, tmp_path, next(_number)).F
    args = [torch.randn(6, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    best = repairs(examine(subject_of_function(function, [*args, 2])))[0]
    assert best.whole
    assert best.correction.after.strip() == "lo = max(0, i - ctx.width)"


TAKE = """import torch
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, i):
        ctx.save_for_backward(i)
        ctx.shape = x.shape
        return x[..., i]
    @staticmethod
    def backward(ctx, g):
        (i,) = ctx.saved_tensors
        dx = torch.zeros(ctx.shape, dtype=g.dtype)
        dx[..., i] = g
        return dx, None
"""


def test_equal_indices_of_the_last_axis_are_added_up(tmp_path: Path) -> None:
    from chainrule.verify.pytorch import subject_of_function

    function = module(TAKE, tmp_path, next(_number)).F
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    evidence = examine(subject_of_function(function, [x, torch.tensor([0, 2, 2, 1])]))
    best = repairs(evidence)[0]
    assert best.codes == ("overwritten",)
    assert best.correction.after.strip() == "dx.index_add_(-1, i, g)"
