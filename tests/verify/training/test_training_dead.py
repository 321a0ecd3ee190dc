"""Layers that are dead from the start: found in small batches too, told at the layer."""

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

START = """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.low, self.high, self.out = nn.Linear(6, 9), nn.Linear(9, 8), nn.Linear(8, 1)
    def forward(self, x):
        h = F.relu(self.low(x))
        h = F.relu(self.high(h))
        return self.out(h)
net = Net()
X = torch.rand(17, 6)
"""
LOOP = """
opt = torch.optim.SGD(net.parameters(), lr=0.05, weight_decay=1e-3)
for i in range(6):
    opt.zero_grad()
    F.binary_cross_entropy_with_logits(net(X), (X[:, :1] > 0.9).float()).backward()
    opt.step()
"""
EACH = """
for m in net.modules():
    if isinstance(m, nn.Linear):
        m.bias.data.fill_(-4.0)
"""
ONE = """
nn.init.constant_(net.high.bias, -9.0)
"""
LOADED = """
net.low.bias.data = -5 * torch.ones(9)
nn.init.constant_(net.out.bias, -3.0)
"""
HEAD = """
nn.init.constant_(net.out.bias, -3.0)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (EACH, "h = F.relu(self.low(x))"),
        (ONE, "h = F.relu(self.high(h))"),
        (LOADED, "h = F.relu(self.low(x))"),
    ],
    ids=["each", "one", "not another layer"],
)
def test_what_is_dead_from_the_start_is_told_where_it_runs(tmp_path: Path, text, line):
    findings, _, _ = observed(tmp_path, START + text + LOOP, steps=5)
    (finding,) = findings
    assert finding.name.code == "dead"
    assert finding.place is not None and finding.place.text == line


def test_three_small_batches_are_not_enough(tmp_path: Path):
    assert observed(tmp_path, START + EACH + LOOP, steps=3)[0] == []


@pytest.mark.parametrize(
    "text",
    [HEAD, EACH.replace("-4.0", "-0.1"), "net.low.bias.data.fill_(-4.0)\n"],
    ids=["of the last layer", "little", "until the fourth step"],
)
def test_biases_that_are_meant(tmp_path: Path, text):
    loop = LOOP + "    if i == 2:\n        net.low.bias.data.add_(4.5)\n"
    assert observed(tmp_path, START + text + loop, steps=5)[0] == []
