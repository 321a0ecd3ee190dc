"""Scalers that leave out every step: told at the op that makes gradients bad, if there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

TEXT = """
import torch
from torch import nn
torch.manual_seed(0)
body, head = nn.Linear(5, 6), nn.Linear(6, 1)
opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
x, y = torch.randn(16, 5), torch.rand(16, 1)
x[{rows}] = 0
body.bias.data.zero_()
for step in range(12):
    with torch.autocast("cpu", dtype=torch.float16):
        h = body(x)
    h = h.float()
    {norm}
    loss = torch.where(x.abs().sum(1, keepdim=True) > 0, head(h) - y, 0.0).square().mean()
    {more}
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
"""
RATIO = "h = h / h.abs().sum(1, keepdim=True)"
ROOT = "h = h * h.square().sum(1, keepdim=True).sqrt()"


def script(norm: str, rows: str = "3", more: str = "pass") -> str:
    return TEXT.format(rows=rows, norm=norm, more=more)


@pytest.mark.parametrize(
    ("norm", "op"), [(RATIO, "div"), (ROOT, "Sqrt")], ids=["forward", "backward"]
)
def test_the_op_is_told_whose_gradient_is_bad_in_each_step(tmp_path: Path, norm: str, op: str):
    (finding,) = observed(tmp_path, script(norm), steps=6)[0]
    assert finding.name.code == "scaler_skips"
    assert finding.subject == op
    assert finding.place is not None and finding.place.text == norm
    assert finding.correction is not None and finding.correction.rechecked
    assert "1e-8" in finding.correction.after


def test_another_op_each_time_is_not_told(tmp_path: Path):
    """Where the first bad value is made on different lines, none of them is the reason."""
    norm = f"h = h / (h.abs() + 1).sum(1, keepdim=True)\n    if step % 2:\n        {RATIO}"
    norm += f"\n    else:\n        {ROOT}"
    (finding,) = observed(tmp_path, script(norm), steps=6)[0]
    assert finding.name.code == "scaler_skips"
    assert finding.place is not None and "GradScaler(" in finding.place.text


def test_a_bad_number_that_is_only_shown_is_not_told(tmp_path: Path):
    """Its gradient is never asked for; what makes the gradients infinite is the scale."""
    shown = "shown = (h.detach() - h.detach()) / 0.0"
    text = script("h = h + 1", rows=":0", more=shown).replace("256.0", "2.0**100")
    (finding,) = observed(tmp_path, text, steps=6)[0]
    assert finding.place is not None and "GradScaler(" in finding.place.text


@pytest.mark.parametrize("norm", [RATIO, ROOT])
def test_rows_that_are_not_empty_are_fine(tmp_path: Path, norm: str):
    assert observed(tmp_path, script(norm, rows=":0"), steps=6)[0] == []
