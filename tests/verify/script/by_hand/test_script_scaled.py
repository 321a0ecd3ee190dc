"""Values with a graph, multiplied in place while autograd is off; and what may be done so."""

from __future__ import annotations

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

LOOP = """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 3)
o = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
keep = (torch.rand(16, 3) > 0.3).float()
mean = torch.zeros(3)
for _ in range(5):
    y = head(body(torch.randn(16, 4)))
    with torch.no_grad():
        {change}
    loss = F.cross_entropy(y, torch.randint(0, 3, (16,)))
    o.zero_grad()
    loss.backward()
    o.step()
"""
SLIPS = ["y.mul_(4.0)", "y /= 0.25", "y *= keep", "y.div_(torch.full((3,), 0.5))"]
FINE = [
    "y.mul_(1.0)", "y.add_(1.0)", "y.clamp_(-1, 1)", "y.mul_(1 / y.norm().clamp(min=1))",
    "y.copy_(y.round())", "mean.mul_(0.9).add_(y.mean(0), alpha=0.1)", "head.weight.mul_(0.99)",
    "y.detach().mean(0).mul_(2)", "z = y * 2; z.mul_(3.0)",
]  # fmt: skip


@pytest.mark.parametrize("change", SLIPS)
def test_a_factor_that_the_gradient_lacks(tmp_path, change):
    (slip,) = observed(tmp_path, LOOP.replace("{change}", change), steps=3)[0]
    assert slip.name.code == "unseen_change"
    assert slip.place.text == change
    assert slip.correction.rechecked


@pytest.mark.parametrize("change", FINE)
def test_what_may_be_changed_without_a_graph(tmp_path, change):
    text = LOOP.replace("{change}", change)
    if "weight" in change:  # behind the backward pass, as weights decay
        text = text.replace(f"    with torch.no_grad():\n        {change}\n", "")
        text += f"    with torch.no_grad():\n        {change}\n"
    assert_fine(tmp_path, text)


def test_a_loss_may_be_changed_to_be_shown(tmp_path):
    text = LOOP.replace("{change}", "pass")
    shown = "    with torch.no_grad():\n        loss.mul_(4)\n    loss.backward()"
    assert_fine(tmp_path, text.replace("    loss.backward()", shown))


def assert_fine(tmp_path, text):
    found = observed(tmp_path, text, steps=3)[0]
    assert [f for f in found if f.level != "note"] == []
