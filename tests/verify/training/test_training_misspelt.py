"""Switches of parameters and modules under a wrong name: told at the line, corrected, tried; and
attributes that a program has for itself."""

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
X, Y = torch.randn(32, 6), torch.randn(32, 2)
net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.Tanh(), nn.Linear(8, 2))
net.requires_grad_(False)
"""
END = """
net[3].requires_grad_(True)
opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
for _ in range(5):
    opt.zero_grad()
    F.mse_loss(net(X), Y).backward()
    opt.step()
"""
WRONG = {
    "a parameter": (
        "for p in net[0].parameters():\n    p.require_grad = True",
        "no_gradient", "p.require_grad = True", "    p.requires_grad = True",
    ),
    "two, one after the other": (
        "net[0].weight.requiresGrad = True\nprint(net)\nnet[0].bias.requiresGrad = True",
        "no_gradient", "net[0].weight.requiresGrad = True",
        "net[0].weight.requires_grad = True\nprint(net)\nnet[0].bias.requires_grad = True",
    ),
    "on a line with its loop": (
        "for p in net[0].parameters(): p.requires_grad_ = True",
        "no_gradient", "for p in net[0].parameters(): p.requires_grad_ = True",
        "for p in net[0].parameters(): p.requires_grad = True",
    ),
    "a module": (
        "net[0].requires_grads = True",
        "no_gradient", "net[0].requires_grads = True", "net[0].requires_grad_(True)",
    ),
    "a mode": (
        "net.eval()\nnet.traning = True", "eval_mode", "net.traning = True", "net.train(True)",
    ),
}  # fmt: skip
RIGHT = {
    "put right later": "net[0].weight.require_grad = True\nnet[0].weight.requires_grad = True",
    "read by the program": (
        "for p in net[0].parameters(): p.required_grad = True\n"
        "for p in net[0].parameters(): p.requires_grad = p.required_grad"
    ),
    "read by its name": (
        "net[0].weight.required_grad = True\n"
        "print([getattr(p, 'required_grad', False) for p in net.parameters()])"
    ),
    "another word": "net[0].weight.trainable = net[0].weight.grads = True",
    "off": "net[0].weight.require_grad = False",
    "a mode that is on": "net.traning = True",
    "of a class": (
        "class Mine(nn.Sequential):\n    retraining = trainings = False\n"
        "net = Mine(*net)\nnet.eval()\nnet.retraining = net.trainings = True"
    ),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", WRONG)
def test_a_switch_under_a_wrong_name_is_told_and_corrected(tmp_path: Path, name: str) -> None:
    text, code, line, after = WRONG[name]
    findings, exit_code, _ = observed(tmp_path, START + text + END)
    (finding,) = findings
    assert finding.name.code == code
    assert finding.place is not None and finding.place.text == line
    assert finding.correction is not None and finding.correction.rechecked
    assert finding.correction.after == after
    assert exit_code == 0


@pytest.mark.parametrize("name", RIGHT)
def test_attributes_that_leave_nothing_frozen_or_mean_something(tmp_path: Path, name: str) -> None:
    findings, exit_code, _ = observed(tmp_path, START + RIGHT[name] + END)
    assert [f.name.because for f in findings] == []
    assert exit_code == 0
