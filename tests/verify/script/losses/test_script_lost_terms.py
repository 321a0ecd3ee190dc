"""Terms of a loss that train nothing, draws without a gradient, derivatives whose graph is thrown
away; checkpoints and losses that are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True"),
    sampled_file(one_in=12),
]

START = """
import torch
import torch.nn.functional as F
from torch import autograd, nn
from torch.distributions import Categorical
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
X, Y = torch.randn(32, 6), torch.randn(32, 2)
body, mean, spread, head = nn.Linear(6, 4), nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 2)
parts = nn.ModuleList([body, mean, spread, head])
opt = torch.optim.SGD(parts.parameters(), lr=1e-2)
for _ in range(5):
    x = X
"""
END = """
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
CODED = """
h = torch.tanh(body(x))
mu, sd = mean(h), F.softplus(spread(h))
{draw}
loss = F.mse_loss(head(z), Y) + 0.01 * (mu.square() + sd - sd.log()).mean()
"""
ACTED = """
dist = Categorical(logits=mean(torch.tanh(body(x))))
action = dist.sample()
score = {score}
gain = (action == 1).float() - 0.3
loss = -(score * gain).mean() - 0.01 * dist.entropy().mean() + F.mse_loss(head(spread(x[:, :4])), Y)
"""
PENALTY = """
x = x.clone().requires_grad_(True)
y = head(torch.tanh(mean(torch.tanh(body(x))))) + 0 * spread(x[:, :4]).sum()
slope = autograd.grad({grad})[0]
loss = F.mse_loss(y, Y) + (slope.norm(dim=1) - 1).square().mean()
"""
MOVED = """
with torch.no_grad():
    x = x + 0.1 * torch.tanh(body(x)).mean()
x.requires_grad_(True)
y = head(torch.tanh(mean(torch.tanh(body(x))))) + 0 * spread(x[:, :4]).sum()
slope = autograd.grad(outputs=y.sum(), inputs=x, retain_graph=True{more})[0]
loss = F.mse_loss(y, Y) + (slope.norm(dim=1) - 1).square().mean()
"""
EQUATION = """
x = x.clone().requires_grad_(True)
y = head(torch.tanh(mean(torch.tanh(body(x))))) + 0 * spread(x[:, :4]).sum()
slope = autograd.grad(y.sum(), x, create_graph=True)[0]
loss = F.mse_loss({slope}, -y.mean(1)) + F.mse_loss(y, Y)
"""
KEPT = """
{before}
for k in range(3):
    y = head(mean(torch.tanh(body(x + k)))) + spread(x[:, :4])[:, :2]
    {line}
{after}
"""
SAVED = """
h = {first}
loss = F.mse_loss(head(mean(checkpoint(torch.tanh, h, use_reentrant=True))) + spread(h)[:, :2], Y)
"""
WRONG = {
    "draw": (CODED.format(draw="z = torch.normal(mu, sd)"), "torch.normal", "partly_detached"),
    "draw of one size": (
        CODED.format(draw="z = 2 * torch.normal(mean=mu, std=0.1)"), "torch.normal",
        "partly_detached",
    ),
    "score": (ACTED.format(score="dist.log_prob(action).detach()"), ".detach", "partly_detached"),
    "penalty": (PENALTY.format(grad="y.sum(), x, retain_graph=True"), "grad(", "partly_detached"),
    "penalty where it was moved": (MOVED.format(more=""), "grad(", "partly_detached"),
    "equation": (EQUATION.format(slope="slope.mean(1).detach()"), ".detach", "partly_detached"),
}  # fmt: skip
"""What is in the loop, the piece by which the line is known, and the code."""
RIGHT = {
    "draw to score": (
        "h = torch.tanh(body(x))\nmu, sd = mean(h), F.softplus(spread(h))\n"
        "a = torch.normal(mu, sd)\nlogp = torch.distributions.Normal(mu, sd).log_prob(a).sum(1)\n"
        "loss = (logp * (a.sum(1) > 0)).mean() + F.mse_loss(head(h[:, :3]), Y)"
    ),
    "draw of noise": CODED.format(draw="z = mu + sd * torch.normal(torch.zeros(32, 3), 1.0)"),
    "score": ACTED.format(score="dist.log_prob(action)"),
    "penalty": PENALTY.format(grad="y.sum(), x, create_graph=True"),
    "penalty where it was moved": MOVED.format(more=", create_graph=True"),
    "equation": EQUATION.format(slope="slope.mean(1)"),
    "slope as a weight": EQUATION.format(
        slope="slope.mean(1) / (1 + slope.mean(1).detach().abs())"
    ),
    "shown value": (
        "y = head(mean(torch.tanh(body(x)))) + spread(x[:, :4])[:, :2]\n"
        "loss = F.mse_loss(y, Y)\nloss = loss + ((y - Y).abs().mean() - loss).detach()"
    ),
    "reversed": (
        "h = torch.tanh(body(x))\n"
        "loss = F.mse_loss(head(mean(1.5 * h.detach() - 0.5 * h)) + spread(h)[:, :2], Y)"
    ),
    "weights": (
        "y = head(mean(torch.tanh(body(x)))) + spread(x[:, :4])[:, :2]\n"
        "w = (y - Y).square().detach()\nloss = (w * (y - Y).square()).mean() + w.mean()"
    ),
    "checkpoint": SAVED.format(first="checkpoint(body, x, use_reentrant=False)"),
    "frozen first": SAVED.format(first="body(x)"),
    "sum": KEPT.format(before="loss = 0.0", line="loss = loss + F.mse_loss(y, Y)", after=""),
    "list": KEPT.format(
        before="some = []", line="some.append(F.mse_loss(y, Y))", after="loss = some[-1]"
    ),
    "shown": KEPT.format(
        before="", line="loss = F.mse_loss(y, Y)\n    print(loss.item())", after=""
    ),
    "best": KEPT.format(
        before="low = torch.tensor(1e9)", line="low = torch.minimum(low, F.mse_loss(y, Y))",
        after="loss = low",
    ),
}  # fmt: skip


def script(body: str) -> str:
    return START + "\n".join([f"    {line}" for line in body.strip().splitlines()]) + END


@pytest.mark.parametrize("name", WRONG)
def test_it_is_found_on_its_line_and_corrected(tmp_path: Path, name: str) -> None:
    body, piece, code = WRONG[name]
    text = script(body)
    findings, _, _ = observed(tmp_path, text)
    assert [f.name.code for f in findings] == [code]
    f = findings[0]
    assert f.place is not None
    assert piece in text.splitlines()[f.place.line - 1]
    assert f.correction is not None
    assert f.correction.after
    assert f.correction.rechecked


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_meant_is_no_finding(tmp_path: Path, name: str) -> None:
    findings, exit_code, _ = observed(tmp_path, script(RIGHT[name]))
    assert [f.name.code for f in findings] == []
    assert exit_code == 0
