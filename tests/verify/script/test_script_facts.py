"""What a program keeps, reads and hands on beside its loop: parameters that nobody has, weights
that are no copies, rates, data sets, names of one value. Each script is wrong and right once."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from chainrule.verify import script
from tests.verify.script.losses.loss_scripts import HEAD, MARKS

pytestmark = MARKS

TRAIN = """
for step in range(8):
    x, y = torch.randn(16, 6), torch.randn(16, 4)
    opt.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    {}
    opt.step()
    {}
"""
NET = """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
opt = torch.optim.Adam(net.parameters(), 1e-2)
"""
KEPT = """
class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 4)
        {}
    def forward(self, x):
        return self.out(x + self.shift{})
net = Shifted()
opt = torch.optim.Adam(net.parameters(), 1e-2)
"""
BUFFER = 'self.register_buffer("shift", torch.zeros(6).requires_grad_())'
BEST = NET + TRAIN.format("pass", "if step == 2: best = {}") + "net.load_state_dict(best)\n"
RESUMED = (
    """
def build():
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    return net, torch.optim.Adam(net.parameters(), 1e-2)
net, opt = build()
"""
    + TRAIN.format("pass", "pass")
    + """
state = copy.deepcopy(net.state_dict())
again, opt = build()
{}
net = again
net.load_state_dict(state)
"""
    + TRAIN.format("pass", "pass")
)
AVERAGE = """
class Average:
    def __init__(self, net):
        self.shadow = {{n: p.detach(){} for n, p in net.named_parameters()}}
    def update(self, net):
        with torch.no_grad():
            for n, p in net.named_parameters():
                self.shadow[n].mul_(0.9).add_(p, alpha=0.1)
"""
SKIP = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(12, 4)
    def forward(self, x):
        h = self.a(x)
        skip = h
        {}
        return self.b(torch.cat([h, {}], 1))
net = Block()
opt = torch.optim.Adam(net.parameters(), 1e-2)
"""
FLOW = """
class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tensor([1.0, 0.0, 1.0]))
        self.s, self.t = nn.Linear(3, 3), nn.Linear(3, 3)
    def forward(self, x):
        kept = x * self.mask
        s = torch.tanh(self.s(kept))
        free = 1 - self.mask
        y = kept + free * (x * torch.exp(s) + self.t(kept))
        return y, {}
net = Coupling()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for step in range(8):
    x = torch.randn(32, 3)
    opt.zero_grad()
    z, number = net(x)
    loss = -(-0.5 * z.square().sum(1) + number).mean()
    loss.backward()
    opt.step()
"""
WARMED = """
net = nn.Linear(6, 4)
opt = torch.optim.Adam(net.parameters(), {})
def rate(n):
    n = n + 1
    return {} * min(n / 20, (20 / n) ** 0.5)
sched = torch.optim.lr_scheduler.LambdaLR(opt, rate)
"""
GROUPS = """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
opt = torch.optim.Adam([{"params": net[0].parameters(), "lr": 1e-2},
                        {"params": net[2].parameters(), "lr": 2e-2}])
"""
DATA = """
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
class Rows(Dataset):
    def __init__(self):
        self.x, self.y = 3 + torch.randn(48, 6){numpy}, torch.randn(48, 4)
        self.mean, self.labels, self.known = self.x.mean(0), torch.arange(48) % 3, set()
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        row = self.x[i]
        {read}
        return row, self.y[i]
rows = Rows()
weights = torch.tensor([0.2, 0.3, 0.5])
loader = DataLoader(rows, 16, sampler=WeightedRandomSampler({weights}))
net = nn.Linear(6, 4)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(3):
    for x, y in loader:
        opt.zero_grad()
        F.mse_loss(net(x), y).backward()
        opt.step()
"""


def data(read: str = "pass", weights: str = "weights[rows.labels], 48", numpy: str = "") -> str:
    return DATA.format(read=read, weights=weights, numpy=numpy)


CLIP = NET + "params = {}\n" + TRAIN.format("nn.utils.clip_grad_norm_(params, 0.1)", "pass")
NAN = (
    NET.replace("Adam", "SGD")
    + """
for step in range(8):
    x = torch.randn(16, 6)
    if step == 4: x[0, 0] = float("nan")
    opt.zero_grad()
    loss = F.mse_loss(net(x), torch.zeros(16, 4))
    loss.backward()
    if {}: continue
    opt.step()
"""
)
FORCES = (
    """
def distances(p):
    d = (p[:, None] - p[None]).square().sum(-1)
    return {}
def force(p):
    p = p.detach().requires_grad_(True)
    return torch.autograd.grad(distances(p).sum(), p, create_graph=True)[0]
"""
    + NET
    + "for step in range(6):\n    f = force(torch.randn(16, 6))\n    opt.zero_grad()\n"
    + "    F.mse_loss(net(torch.randn(16, 6)), torch.zeros(16, 4)).backward()\n    opt.step()\n"
)
SEARCH = """
w = torch.zeros(5, requires_grad=True)
a, pull = torch.randn(9, 5), torch.tensor(0.0)
for k in range(5):
    opt = torch.optim.LBFGS([w], max_iter={})
    def closure():
        opt.zero_grad()
        loss = (a @ w - 1).square().sum() + pull * w.sum() + w.pow(4).sum()
        loss.backward()
        return loss
    opt.step(closure)
    pull += 0.1
"""
ENTRY = """
cfg = {{"epochs": 5}}
net = nn.Linear(6, 4)
opt = torch.optim.SGD(net.parameters(), 0.05)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, {})
batches = [torch.randn(16, 6) for _ in range(4)]
for epoch in range(cfg["epochs"]):
    for x in batches:
        opt.zero_grad()
        F.mse_loss(net(x), torch.zeros(16, 4)).backward()
        opt.step()
        sched.step()
"""


ASCENT = (
    NET
    + """
for step in range(8):
    x, y = torch.randn(16, 6), torch.randn(16, 4)
    F.mse_loss(net(x), y).backward()
    moves = [{} for p in net.parameters()]
    with torch.no_grad():
        for p, d in zip(net.parameters(), moves): p += d
    {}
    F.mse_loss(net(x), y).backward()
    with torch.no_grad():
        for p, d in zip(net.parameters(), moves): p -= d
    opt.step()
    opt.zero_grad()
"""
)
SWAP = NET + TRAIN.format(
    "pass",
    """kept = [{} for p in net.parameters()]
    with torch.no_grad():
        for p in net.parameters(): p.mul_(0.5)
        for p, k in zip(net.parameters(), kept): {}""",
)
SORTED = """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
some = {{True: [], False: []}}
for name, p in net.named_parameters(): some[{}].append(p)
opt = torch.optim.AdamW([
    {{"params": some[True], "weight_decay": 0.0}}, {{"params": some[False], "weight_decay": {}}},
], 1e-2)
""" + TRAIN.replace("{}", "pass")


SELDOM = (
    NET
    + """
for step in range(12):
    opt.zero_grad()
    loss = F.mse_loss(net(torch.randn(16, 6)), torch.zeros(16, 4))
    (loss * 4.0).backward()
    for p in net.parameters(): p.grad /= 4.0
    if step % 3 != 1: opt.step()
"""
)
SCALED = """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.size = nn.Linear(6, 4), nn.Parameter(torch.tensor(2.0))
    def forward(self, x):
        size = {}
        return self.out(x / size) * size
net = Scaled()
opt = torch.optim.Adam(net.parameters(), 1e-2)
""" + TRAIN.replace("{}", "pass")


class Case(NamedTuple):
    """A script, the code of its finding and what its line has; none if it is right."""

    text: str
    code: str = ""
    line: str = ""


def skipped(change: str, read: str = "skip") -> str:
    return SKIP.format(change, read) + TRAIN.format("pass", "pass")


def kept(made: str, used: str = "", between: str = "pass") -> str:
    return KEPT.format(made, used) + TRAIN.format(between, "pass")


def averaged(copied: str) -> str:
    made = AVERAGE.format(copied) + NET + "average = Average(net)\n"
    return made + TRAIN.format("pass", "average.update(net)")


def warmed(base: str, peak: str) -> str:
    return WARMED.format(base, peak) + TRAIN.format("pass", "sched.step()")


def grouped(change: str) -> str:
    return GROUPS + TRAIN.format(change, "pass")


BY_HAND = """with torch.no_grad(): net.shift -= 0.1 * net.shift.grad
    net.shift.grad = None"""
CASES = {
    "made of a parameter": Case(
        kept("self.shift = nn.Parameter(torch.zeros(6)).unsqueeze(0)"),
        "not_optimized", "self.shift = "),
    "made of a parameter in forward": Case(
        kept("self.shift = nn.Parameter(torch.zeros(6))", ".unsqueeze(0)")),
    "a buffer with gradients": Case(kept(BUFFER), "not_optimized", "self.register_buffer"),
    "a buffer that is changed by hand": Case(kept(BUFFER, between=BY_HAND)),
    "best weights that go on": Case(BEST.format("net.state_dict()"), "idle_load", "best = "),
    "best weights that are copied": Case(BEST.format("copy.deepcopy(net.state_dict())")),
    "an optimizer of the model before": Case(
        RESUMED.format("again = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))"),
        "not_optimized", "net.load_state_dict"),
    "an optimizer of the model that goes on": Case(RESUMED.format("pass")),
    "an average of views": Case(averaged(""), "unseen_change", "self.shadow = "),
    "an average of copies": Case(averaged(".clone()")),
    "two names": Case(skipped("h += torch.relu(x)"), "unseen_change", "h += "),
    "two values": Case(skipped("h = h + torch.relu(x)")),
    "two names, of which the shape is read": Case(
        skipped("h += torch.relu(x)", "torch.ones(skip.shape)")),
    "a logarithm of all columns": Case(FLOW.format("s.sum(1)"), "wrong_value", "return y, "),
    "a mean of logarithms": Case(
        FLOW.format("(free * s).mean(1)"), "wrong_value", "return y, "),
    "a logarithm of a determinant": Case(FLOW.format("(free * s).sum(1)")),
    "a factor that is a rate": Case(warmed("5e-3", "5e-3"), "wrong_rate", "    return "),
    "a factor of 1": Case(warmed("1.0", "5e-3")),
    "a factor that peaks at 1": Case(warmed("5e-3", "1.0")),
    "a rate of the first group": Case(
        grouped("opt.param_groups[0]['lr'] = 1e-2 * 0.9**step"), "wrong_rate", "opt.param_groups"),
    "rates of all groups": Case(
        grouped("for g in opt.param_groups: g['lr'] *= 0.9")),
    "rates of two groups": Case(grouped(
        "opt.param_groups[0]['lr'] *= 0.9; opt.param_groups[1]['lr'] = 2e-2")),
    "a row that is changed": Case(data("row -= self.mean"), "writes", "row -= "),
    "a row of an array that is changed": Case(
        data("row -= self.mean", numpy=".numpy()"), "writes", "row -= "),
    "a row that is computed": Case(data("row = row - self.mean")),
    "a row that is changed once": Case(
        data("if i not in self.known: row -= self.mean; self.known.add(i)")),
    "weights of classes": Case(data(weights="weights, 48"), "axes_mixed", "WeightedRandomSampler("),
    "weights of the first half": Case(data(weights="weights[rows.labels][:24], 24")),
    "an iterator that was read": Case(
        CLIP.format("net.parameters(); list(params)"), "clip_idle", "params = "),
    "a list that was read": Case(CLIP.format("list(net.parameters())")),
    "a bad batch that is used": Case(NAN.format("False"), "first_bad", "loss = "),
    "a bad batch that is left out": Case(
        NAN.format("not all(p.grad.isfinite().all() for p in net.parameters())")),
    "a root of 0, chosen away": Case(
        FORCES.format("torch.where(d > 0, d.sqrt(), 0.0)"), "first_bad", "d.sqrt()"),
    "a root of what is not 0": Case(
        FORCES.format("torch.where(d > 0, torch.where(d > 0, d, 1.0).sqrt(), 0.0)")),
    "a search per problem": Case(SEARCH.format(40)),
    "a step per optimizer": Case(SEARCH.format(1), "state_lost", "opt = "),
    "a length in epochs, of an entry": Case(
        ENTRY.format('cfg["epochs"]'), "schedule_unit", "sched.step()"),
    "gradients at two points": Case(
        ASCENT.format("0.05 * p.grad / p.grad.norm()", "pass"), "not_reset", "    F.mse_loss"),
    "gradients at the second point": Case(
        ASCENT.format("0.05 * p.grad / p.grad.norm()", "opt.zero_grad()")),
    "gradients at two points by chance": Case(ASCENT.format("torch.randn_like(p)", "pass")),
    "a copy onto itself": Case(
        SWAP.format("p.detach()", "p.copy_(k)"), "idle_load", "p.copy_"),
    "a copy that is kept": Case(SWAP.format("p.detach().clone()", "p.copy_(k)")),
    "a difference from itself": Case(
        SWAP.format("p.detach()", "p.sub_(0.1 * (p - k))"), "self_compared", "p.sub_"),
    "a difference from what was": Case(
        SWAP.format("p.detach().clone()", "p.sub_(0.1 * (p - k))")),
    "all parameters in one group": Case(
        SORTED.format('bool("bias" or "norm" in name)', 0.1), "wrong_rate", "opt = "),
    "parameters in two groups": Case(SORTED.format('"bias" in name', 0.1)),
    "no decay in two groups": Case(SORTED.format("True", 0.0)),
    "steps that are left out": Case(SELDOM),
    "a gradient that is scaled": Case(
        SCALED.format("self.size * 0.1 + (self.size - self.size * 0.1).detach()")),
    "a gradient that is cut off": Case(
        SCALED.format("self.size * 0.1 + (0.9 * self.size.abs()).detach()"),
        "partly_detached", "size = "),
    "a length in batches, of an entry": Case(ENTRY.format('4 * cfg["epochs"]')),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_wrong_script_has_its_finding_and_the_right_one_none(tmp_path: Path, name: str):
    text, code, line = CASES[name]
    text = HEAD + text
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        report = script.run(
            script.target(str(path)), steps=3, own=script.OWN, torch=script.TORCH, window=6
        ).report
    found = {f.name.code: f.place for f in report.findings if f.level != "note"}
    assert found.keys() == ({code} if code else set())
    if code:
        at = found[code]
        assert at is not None and line in text.split("\n")[at.line - 1]


COUNTED = """
calls = []
def rate(n):
    calls.append(n)
    return 1e-3 * min(1.0, (n + 1) / 5)
m = nn.Linear(3, 1)
o = torch.optim.Adam(m.parameters(), lr=1e-3)
s = torch.optim.lr_scheduler.LambdaLR(o, rate)
for i in range(8):
    o.zero_grad()
    m(torch.randn(4, 3)).square().mean().backward()
    o.step()
    s.step()
print("calls", len(calls))
"""


def test_a_function_that_counts_its_calls_does_not_notice(tmp_path: Path) -> None:
    path, printed = tmp_path / "train.py", io.StringIO()
    path.write_text(HEAD + COUNTED, encoding="utf-8")
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        report = script.run(
            script.target(str(path)), steps=3, own=script.OWN, torch=script.TORCH, window=6
        ).report
    assert [f.name.code for f in report.findings if f.level != "note"] == ["wrong_rate"]
    assert printed.getvalue() == "calls 9\n"
