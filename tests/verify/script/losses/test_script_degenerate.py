"""Losses whose terms train nothing, or whose optimum tells nothing; values that nobody reads, one
tensor under two names, states that are cut off in each turn: wrong scripts, and right ones that
come near."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.script.by_hand.test_script_gradients_at_hand import reported
from tests.verify.script.losses.loss_scripts import HEAD, MARKS

pytestmark = MARKS

ACTOR = """
from torch.distributions import Normal
pi, critic = nn.Linear(3, 4), nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
a, c = torch.optim.Adam(pi.parameters()), torch.optim.Adam(critic.parameters())
def act(s):
    m, l = pi(s).chunk(2, -1)
    d = Normal(m, l.exp())
    u = {}
    return u, d.log_prob(u).sum(-1)
for step in range(4):
    s = torch.randn(16, 3)
    with torch.no_grad():
        u, _ = act(s)
    c.zero_grad()
    F.mse_loss(critic(torch.cat([s, u], 1)).squeeze(1), -u.square().sum(1)).backward()
    c.step()
    u, lp = act(s)
    a.zero_grad()
    (0.1 * lp - critic(torch.cat([s, u], 1)).squeeze(1)).mean().backward()
    a.step()
"""
GAN = """
g, d = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 1))
og, od = (torch.optim.Adam(m.parameters()) for m in (g, d))
for step in range(4):
    real, z = torch.randn(16, 4), torch.randn(16, 3)
    od.zero_grad()
    (F.softplus(-d(real)).mean() + F.softplus(d(g(z).detach())).mean()).backward()
    od.step()
    fake = g(z)
    og.zero_grad()
    loss = F.softplus(-d({})).mean() + {}0.1 * F.l1_loss(fake, real)
    loss.backward()
    og.step()
"""
DISTILLED = """
teacher, student = nn.Linear(5, 3), nn.Linear(5, 3)
opt = torch.optim.SGD(student.parameters(), 0.1)
for step in range(4):
    x, y = torch.randn(16, 5), torch.randint(0, 3, (16,))
    out, soft = student(x), teacher(x){}
    loss = F.cross_entropy(out, y) + F.kl_div({}.log_softmax(1), soft.softmax(1), reduction="sum")
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
LOOP = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {parts}
    def forward(self, x):
        {forward}
net = Net()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for step in range(4):
    x, y = torch.randn({batch}), torch.randn(16, 4)
    {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
PLAIN = "return self.b(torch.tanh(self.a(x)))"
FIT = "loss = F.mse_loss(net(x), y)"
STATE = (
    "h = torch.zeros(16, 8)\n        for t in range(5):\n            h = self.cell(x[:, t], h){}\n"
    "        return self.b(h)"
)
PAIRS = "u, v = net(x), net(x.flip(0))\n    loss = {}"
UNITS = "F.normalize({}, dim=1)"
SCORES = (
    "u, v = net(x), net(x.flip(0))\n    p = (u * v).sum(1)\n"
    "    w = v.roll(2, 0).unsqueeze(1).repeat(1, 3, 1)\n"
    "    n = torch.einsum('bd,bkd->bk', u, w)\n    loss = {}"
)
MOMENTUM = """
net = nn.Linear(6, 4)
kept = {{}}
for step in range(4):
    for p in net.parameters():
        if p.grad is not None:
            p.grad.zero_()
    F.mse_loss(net(torch.randn(16, 6)), torch.randn(16, 4)).backward()
    with torch.no_grad():
        for p in net.parameters():
            g = p.grad
            if p in kept:
                kept[p].mul_(0.9).add_(g)
            else:
                kept[p] = {}
            p.sub_(0.1 * kept[p])
"""
AVERAGE = """
net = nn.Linear(6, 4)
opt = torch.optim.SGD(net.parameters(), 0.1)
slow = [{} for p in net.parameters()]
for step in range(4):
    opt.zero_grad()
    F.mse_loss(net(torch.randn(16, 6)), torch.randn(16, 4)).backward()
    opt.step()
    with torch.no_grad():
        for s, p in zip(slow, net.parameters()):
            s.{}
"""


SPIKES = """
class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).float()
    @staticmethod
    def backward(ctx, g):
        return g / (1 + 10 * ctx.saved_tensors[0].abs()) ** 2
net = nn.Linear(6, 4)
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(4):
    v, count = torch.zeros(16, 4), 0
    for t in range(5):
        v = 0.9 * v + net(torch.rand(16, 6))
        s = Spike.apply(v - 0.3)
        v = v - 0.3 * s.detach()
        count = count + s
    opt.zero_grad()
    F.cross_entropy(count, torch.randint(0, 4, (16,))).backward()
    opt.step()
"""


def loop(loss: str = FIT, forward: str = PLAIN, batch: str = "16, 6") -> str:
    every = {
        "a": "nn.Linear(6, 8)",
        "b": "nn.Linear(8, 4)",
        "c": "nn.Linear(4, 4)",
        "cell": "nn.GRUCell(6, 8)",
    }
    used = [n for n in every if f"self.{n}(" in forward or f"net.{n}(" in loss]
    parts = "; ".join([f"self.{n} = {every[n]}" for n in used])
    return LOOP.format(loss=loss, forward=forward, batch=batch, parts=parts)


CASES = {
    "an actor's sample without a graph": ("idle_term", ACTOR.format("d.sample()")),
    "an actor's sample with one": ("", ACTOR.format("d.rsample()")),
    "a generator that is detached": ("idle_term", GAN.format("fake.detach()", "")),
    "a generator": ("", GAN.format("fake", "")),
    "a generator with two views": ("", GAN.format(
        "fake", "F.softplus(-d(fake * 0.9)).mean() + ")),
    "a student that is not in its loss": ("idle_term", DISTILLED.format("", "teacher(x)")),
    "a student": ("", DISTILLED.format(".detach()", "out")),
    "a weight that is not used": ("unused", loop(forward=
        "h = torch.tanh(self.a(x))\n        gate = torch.sigmoid(self.b(h))\n"
        "        return self.c(self.b(h))")),
    "a weight that is used": ("", loop(forward=
        "h = torch.tanh(self.a(x))\n        gate = torch.sigmoid(self.b(h))\n"
        "        return self.c(gate * self.b(h))")),
    "a term that is not added": ("unused", loop(
        "out = net(x)\n    small = 0.1 * out.square().mean()\n    loss = F.mse_loss(out, y)")),
    "a term that is shown": ("", loop(
        "out = net(x)\n    small = 0.1 * out.square().mean()\n    loss = F.mse_loss(out, y)\n"
        "    print(small.item())")),
    "a normalization in vain": ("unused", loop(forward=
        "h = torch.tanh(self.a(x))\n        unit = F.normalize(h, dim=1)\n"
        "        return self.b(h)")),
    "one of two results": ("", loop(forward=
        "h = self.a(x)\n        top, at = h.topk(4, 1)\n        return self.b(h) + at * 0.1")),
    "a state cut in each turn": ("partly_detached", loop(
        forward=STATE.format(".detach() if t < 4 else self.cell(x[:, t], h)"), batch="16, 5, 6")),
    "a state cut by its data": ("partly_detached", loop(
        forward=STATE.format("\n            h = h if t == 4 else h.data"), batch="16, 5, 6")),
    "a state cut once": ("", loop(forward=STATE.format(
        "\n            h = h.detach() if t == 1 else h"), batch="16, 5, 6")),
    "a state": ("", loop(forward=STATE.format(""), batch="16, 5, 6")),
    "a target that stays": ("", loop(PAIRS.format(
        f"-({UNITS.format('net.c(u)')} * {UNITS.format('v.detach()')}).sum(1).mean()"))),
    "two views and data": ("", loop(PAIRS.format("F.mse_loss(u, v) + F.mse_loss(u, y)"))),
    "two views that stay apart": ("", loop(PAIRS.format(
        "F.mse_loss(u, v) + F.relu(1 - u.std(0)).mean()"))),
    "scores up and down": ("", loop(SCORES.format(
        "-(F.logsigmoid(p) + F.logsigmoid(-n).sum(1)).mean()"))),
    "scores by their difference": ("", loop(SCORES.format("-F.logsigmoid(p - n[:, 0]).mean()"))),
    "scores up and down, by softplus": ("", loop(SCORES.format(
        "F.softplus(-p).mean() + F.softplus(n).mean()"))),
    "a momentum that is the gradient": ("unseen_change", MOMENTUM.format("g")),
    "a momentum that is a view of it": ("unseen_change", MOMENTUM.format("g.detach()")),
    "a momentum": ("", MOMENTUM.format("g.clone()")),
    "an average that is the weights": ("idle_load", AVERAGE.format("p.detach()", "lerp_(p, 0.1)")),
    "a copy that is the weights": ("idle_load", AVERAGE.format("p.data", "copy_(p)")),
    "an average in a name": ("lost_updates", AVERAGE.format(
        "p.detach().clone()", "detach(); s = 0.9 * s + 0.1 * p")),
    "a spike that is reset": ("", SPIKES),
    "an average": ("", AVERAGE.format("p.detach().clone()", "lerp_(p, 0.1)")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_terms_and_values(tmp_path: Path, name: str) -> None:
    code, text = CASES[name]
    report = reported(tmp_path, f"{HEAD}{text}")
    found = [f.name.code for f in report.findings if f.level != "note"]
    assert found[:1] == ([code] if code else []), str(report)
    assert not [s for s in report.ledger.skipped if "failed" in s.why], str(report)
