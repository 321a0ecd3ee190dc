"""What a training loop does in vain: clips that bound nothing, backward passes that are dropped;
and recurrences whose gradient explodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.finding import Finding
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
from torch.nn.utils import clip_grad_norm_
torch.manual_seed(0)
X, Y = torch.randn(32, 6), torch.randn(32, 2)
body, one, two = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2)
net = nn.ModuleList([body, one, two])
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
def losses():
    h = torch.tanh(body(X))
    return F.mse_loss(one(h), Y), (two(h) - Y).abs().mean()
"""
LOOP = "for _ in range(5):\n"
BEFORE = """
    opt.zero_grad()
    a, b = losses()
    clip_grad_norm_(net.parameters(), 1.0)
    (a + b).backward()
    opt.step()
"""
BEHIND = """
    a, b = losses()
    (a + b).backward()
    opt.step()
    torch.nn.utils.clip_grad_value_(net.parameters(), 1.0)
    opt.zero_grad()
"""
OTHERS = """
    opt.zero_grad()
    a, b = losses()
    (a + b).backward()
    clip_grad_norm_(other.parameters(), 1.0)
    opt.step()
    later.zero_grad()
    other(X).square().mean().backward()
    later.step()
"""
DROPPED = """
    a, b = losses()
    opt.zero_grad()
    a.backward(retain_graph=True)
    opt.zero_grad()
    b.backward()
    opt.step()
"""
BY_MODEL = """
    a, b = losses()
    a.backward(retain_graph=True)
    net.zero_grad()
    b.backward()
    opt.step()
    opt.zero_grad()
"""
SECOND = "other = nn.Linear(6, 2)\nlater = torch.optim.SGD(other.parameters(), lr=1e-2)\n"
RECURRENT = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.keep, self.tell = nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 1)
        nn.init.orthogonal_(self.keep.weight, gain={gain})
    def forward(self, x):
        h = torch.zeros(len(x), 16)
        for part in x.unbind(1):
            h = torch.relu(self.read(part) + self.keep(h))
        return self.tell(h)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-4)
for _ in range(5):
    opt.zero_grad()
    F.mse_loss(net(torch.rand(8, 50, 2)), torch.randn(8, 1)).backward()
    opt.step()
"""
WRONG = {
    "before": (START + LOOP + BEFORE, "clip_idle", "clip_grad_norm_(net.parameters(), 1.0)"),
    "behind": (START + LOOP + BEHIND, "clip_idle", "clip_grad_value_"),
    "others": (START + SECOND + LOOP + OTHERS, "clip_idle", "clip_grad_norm_(other"),
    "dropped": (START + LOOP + DROPPED, "reset_misplaced", "opt.zero_grad()"),
    "dropped by the model": (START + LOOP + BY_MODEL, "reset_misplaced", "net.zero_grad()"),
    "recurrent": (START + RECURRENT.format(gain=2.2), "exploding", "self.read(part)"),
}
CLIPPED = BEFORE.replace("    clip_grad_norm_(net.parameters(), 1.0)\n", "").replace(
    "    opt.step()", "    clip_grad_norm_(net.parameters(), 1.0)\n    opt.step()"
)
RIGHT = {
    "clipped": LOOP + CLIPPED,
    "clipped twice": LOOP
    + CLIPPED.replace("    (a + b)", "    clip_grad_norm_(body.parameters(), 9.0)\n    (a + b)"),
    "reset behind": LOOP + CLIPPED.replace("    opt.step()", "    opt.step()\n    opt.zero_grad()"),
    "accumulated": (
        "for k in range(8):\n    a, b = losses()\n    (0.5 * (a + b)).backward()\n"
        "    if k % 2:\n        clip_grad_norm_(net.parameters(), 1.0)\n"
        "        opt.step()\n        opt.zero_grad()\n"
    ),
    "both": LOOP + DROPPED.replace("    opt.zero_grad()\n    b", "    b"),
    "two networks": (
        SECOND + LOOP + "    a, b = losses()\n    opt.zero_grad()\n"
        "    (a + b + other(X).mean()).backward()\n    opt.step()\n    later.zero_grad()\n"
        "    other(X).square().mean().backward()\n    later.step()\n"
    ),
    "norms of tasks": (
        LOOP + "    a, b = losses()\n    opt.zero_grad()\n    a.backward(retain_graph=True)\n"
        "    size = body.weight.grad.norm()\n    opt.zero_grad()\n"
        "    (b / (1e-6 + size)).backward()\n    opt.step()\n"
    ),
    "sharpness aware": (
        "def ascend(sign, made):\n    with torch.no_grad():\n"
        "        for p, g in zip(net.parameters(), made):\n            p.add_(g, alpha=sign)\n"
        + LOOP + "    opt.zero_grad()\n    sum(losses()).backward()\n"
        "    made = [0.05 * p.grad for p in net.parameters()]\n    ascend(1, made)\n"
        "    opt.zero_grad()\n    sum(losses()).backward()\n    ascend(-1, made)\n    opt.step()\n"
    ),
    "bad steps are left out": (
        LOOP + "    opt.zero_grad()\n    a, b = losses()\n    (a + b).backward()\n"
        "    if not torch.isfinite(a):\n        opt.zero_grad()\n        continue\n    opt.step()\n"
    ),
    "closure": (
        "opt = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)\n"
        "def closure():\n    opt.zero_grad()\n    loss = sum(losses())\n    loss.backward()\n"
        "    return loss\n" + LOOP + "    opt.step(closure)\n"
    ),
    "recurrent": RECURRENT.format(gain=1.0),
    "recurrent and damped": RECURRENT.format(gain=0.6),
}  # fmt: skip


def found_on_its_line(tmp_path: Path, text: str, code: str, piece: str) -> Finding:
    (f,), _, _ = observed(tmp_path, text)
    assert f.name.code == code
    assert f.place is not None
    assert piece in text.splitlines()[f.place.line - 1]
    return f


@pytest.mark.parametrize("name", WRONG)
def test_it_is_found_on_its_line(tmp_path: Path, name: str) -> None:
    f = found_on_its_line(tmp_path, *WRONG[name])
    assert f.correction is not None
    assert f.correction.rechecked == (name != "recurrent")


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_no_finding(tmp_path: Path, name: str) -> None:
    findings, exit_code, _ = observed(tmp_path, START + RIGHT[name])
    assert [f.name.code for f in findings] == []
    assert exit_code == 0


PARTS = """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
X, Y = torch.randn(32, 6), torch.randn(32, 2)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 8)
        {made}
        self.head = nn.Linear(8, 2)
    def forward(self, x):
        h = torch.tanh(self.body(x))
        {used}
        return self.head(h)
{more}
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
for _ in range(5):
    opt.zero_grad()
    F.mse_loss(net(X), Y).backward()
    opt.step()
"""


def parts(made: str = "pass", used: str = "pass", more: str = "") -> str:
    return PARTS.format(made=made, used=used, more=more)


UNREAD = {
    "layer": (parts("self.levelled = nn.LayerNorm(8)"), "no_gradient", "self.levelled"),
    "sequence": (
        parts("self.sidestep = nn.Sequential(nn.Linear(8, 8), nn.ReLU())", "h = self.body(x)"),
        "no_gradient", "self.sidestep",
    ),
    "parameter": (
        parts("self.stretched = nn.Parameter(torch.ones(8))"), "no_gradient", "self.stretched",
    ),
    "made in a call": (
        parts(used="h = h * nn.Parameter(torch.ones(8))"), "not_optimized", "h * nn.Parameter",
    ),
    "made in a method": (
        parts(
            used="h = h + self.bias()",
            more="def bias(self):\n    return torch.nn.Parameter(torch.zeros(8))\nNet.bias = bias",
        ),
        "not_optimized", "torch.nn.Parameter",
    ),
}  # fmt: skip
UNREAD["frozen still"] = (
    parts().replace(
        "opt =", "net.body.requires_grad_(False)\nnet.body.requires_grad = True\nopt ="
    ),
    "no_gradient",
    "net.body.requires_grad = True",
)
READ = {
    "frozen no more": parts().replace(
        "opt =",
        "net.body.requires_grad_(False)\nnet.body.requires_grad = True\n"
        "net.body.requires_grad_(True)\nopt =",
    ),
    "elsewhere": parts(
        "self.probed_by = nn.Linear(8, 1)", more="def probed(n, h):\n    n.probed_by(h)"
    ),
    "by its name": parts(
        "self.levelled = nn.LayerNorm(8)",
        "h = getattr(self, 'levelled')(h) if x.sum() > 1e9 else h",
    ),
    "when it is time": parts(
        "self.levelled = nn.LayerNorm(8)", "h = self.levelled(h) if x.sum() > 1e9 else h"
    ),
    "by its base": parts(more="class Deep(nn.Sequential):\n"
        "    def __init__(self):\n        super().__init__(nn.Linear(6, 2))\n"
        "        self.more = nn.Linear(2, 2)\nNet = Deep"),
    "frozen": parts("self.levelled = nn.LayerNorm(8).requires_grad_(False)"),
    "made once for each": parts(
        "self.all = nn.ParameterList([nn.Parameter(torch.ones(8))])", "h = h * self.all[0]"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREAD)
def test_parts_that_train_nothing(tmp_path: Path, name: str) -> None:
    found_on_its_line(tmp_path, *UNREAD[name])


@pytest.mark.sweep
@pytest.mark.parametrize("name", READ)
def test_parts_that_somebody_may_read(tmp_path: Path, name: str) -> None:
    findings, exit_code, _ = observed(tmp_path, READ[name])
    assert [f.name.code for f in findings] == []
    assert exit_code == 0
