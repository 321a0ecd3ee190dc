"""Gradients that end in a call without a slope: found there, where nothing else feeds them."""

from __future__ import annotations

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
X, Y = torch.randn(32, 6), torch.randn(32, 1)
body, gate, head = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(4, 1)
some = nn.Parameter(torch.randn(4, 4))
opt = torch.optim.SGD([*[p for m in (body, gate, head) for p in m.parameters()], some], lr=1e-2)
for _ in range(4):
    h, g = torch.tanh(body(X)), gate(X)
"""
END = """
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
WRONG = {
    "rounded": "z = torch.round(h * 4) / 4\nloss = F.mse_loss(head(z), Y) + g.square().mean()",
    "signs": "z = torch.where(h > 0, h, -h)\nz = torch.sign(g) * z\nloss = F.mse_loss(head(z), Y)",
    "above": "z = (torch.sigmoid(g) > 0.5).float() * h\nloss = F.mse_loss(head(z), Y)",
    "choice": "z = F.one_hot(g.argmax(1), 4).float() * h\nloss = F.mse_loss(head(z), Y)",
    "index": "z = some[g.topk(2).indices].sum(1) * h\nloss = F.mse_loss(head(z), Y)",
    "scaled": "s = h.detach().abs().max()\nloss = F.mse_loss(head(torch.round(h / s) * s * g), Y)",
    "saturated": "out = head(h * g).clamp(8.0, 9.0)\nloss = F.mse_loss(out, Y)",
}
AT = {"rounded": "round", "signs": "sign", "above": "> 0.5", "choice": "argmax", "index": "topk"}
AT["scaled"] = "round"
RIGHT = {
    "straight": "z = h + (torch.round(h * 4) / 4 - h).detach()\nloss = F.mse_loss(head(z * g), Y)",
    "hard": "soft = torch.softmax(g, 1)\nk = soft.argmax(1, keepdim=True)\n"
    "one = torch.zeros_like(soft).scatter_(1, k, 1.0) - soft.detach() + soft\n"
    "loss = F.mse_loss(head(one * h), Y) + 0.1 * soft.mean(0).square().sum()",
    "mask": "z = (g > 0).float() * g * h\nloss = F.mse_loss(head(z), Y)",
    "nearest": "k = torch.cdist(h * g, some).argmin(1)\n"
    "loss = F.mse_loss(head(h * g + (some[k] - h * g).detach()), Y) + F.mse_loss(some[k], h * g)",
    "adapted": "z = h + g @ torch.zeros(4, 4) + (g @ some) * 0.1\nloss = F.mse_loss(head(z), Y)",
    "shown": "right = (head(h * g).sign() == Y.sign()).float().mean()\n"
    "loss = F.mse_loss(head(h * g), Y) + 0 * right",
    "satisfied": "loss = F.relu(head(h * g) - 50.0).mean()",
    "frozen": "z = (g.detach() > 0).float() * h * g.abs()\nloss = F.mse_loss(head(z), Y)",
}


def indented(text: str) -> str:
    return "\n".join([f"    {line}" for line in text.splitlines()])


@pytest.mark.parametrize("name", WRONG)
def test_the_call_is_named_and_what_lies_behind_it(tmp_path, name):
    found, _, _ = observed(tmp_path, START + indented(WRONG[name]) + END)
    (flat,) = [f for f in found if f.name.code == "no_gradient"]
    assert AT.get(name, "clamp") in flat.place.text
    assert "act on the loss through it" in flat.name.because
    assert len(found) == 1


@pytest.mark.parametrize("name", RIGHT)
def test_what_gets_a_gradient_elsewhere_or_needs_none_is_right(tmp_path, name):
    found, _, skipped = observed(tmp_path, START + indented(RIGHT[name]) + END)
    assert (found, skipped) == ([], [])


def test_a_gate_that_is_open_so_wide_that_its_slope_rounds_to_zero_is_dead(tmp_path):
    text = "s = torch.sigmoid(1e5 + g).mean(1, keepdim=True)\nloss = F.mse_loss(head(h) * s, Y)"
    found, _, _ = observed(tmp_path, START + indented(text) + END)
    (dead,) = [f for f in found if f.name.code == "dead"]
    assert "torch.sigmoid(1e5 + g)" in dead.place.text
    assert "is flat at all values" in dead.name.because
