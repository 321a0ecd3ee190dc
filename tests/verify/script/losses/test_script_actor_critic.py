"""Losses of actors and critics: old policies that are the new one, advantages with a graph; and right
programs."""

# ruff: noqa: E501
# (the scripts stand as people write them)

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.script.losses.loss_scripts import HEAD, MARKS, only_the_marked_line

pytestmark = MARKS

PPO = (
    HEAD
    + """
import math
from torch.distributions import Categorical
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.pi, self.v = nn.Linear(16, 3), nn.Linear(16, 1)
    def forward(self, s):
        h = self.body(s)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)
policy = Policy()
opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
class Env:
    def reset(self):
        self.s = torch.randn(4); return self.s
    def step(self, a):
        r = 1.0 if int(self.s[0] > 0) == a else 0.0
        self.s = 0.5 * self.s + torch.randn(4); return self.s, r
env = Env()
for it in range(6):
    S, A, R, V, LP = [], [], [], [], []
    s = env.reset()
    for t in range(32):
        with torch.no_grad():
            dist, v = policy(s)
            a = dist.sample()
            lp = dist.log_prob(a)
        S.append(s); A.append(a); V.append(v); LP.append(lp)
        s, r = env.step(a.item())
        R.append(r)
    S, A, V, LP = torch.stack(S), torch.stack(A), torch.stack(V), torch.stack(LP)
    G, g = [], 0.0
    for r in reversed(R):
        g = r + 0.9 * g
        G.insert(0, g)
    G = torch.tensor(G)
    adv = G - V
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for epoch in range({epochs}):
{perm}
            dist, v = policy(S[idx])
            logp = dist.log_prob(A[idx])
{old}
            ratio = torch.exp(logp - old)
            pg = -torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx]).mean()
            loss = pg + 0.5 * F.mse_loss(v, G[idx]) - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    print(it, sum(R))
"""
)
MB = "        for idx in torch.randperm(32).split(16):"
FULL = "        for idx in [torch.arange(32)]:"
AC = (
    HEAD
    + """
from torch.distributions import Categorical
actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
{opt}
for ep in range(12):
    s, logps, vals, rews = torch.randn(4), [], [], []
    for t in range(16):
        d = Categorical(logits=actor(s))
        a = d.sample()
        logps.append(d.log_prob(a)); vals.append(critic(s).squeeze())
        rews.append(1.0 if int(s[0] > 0) == a.item() else 0.0)
        s = 0.5 * s + torch.randn(4)
    G, g = [], 0.0
    for r in reversed(rews):
        g = r + 0.9 * g
        G.insert(0, g)
    G, V, LP = torch.tensor(G), torch.stack(vals), torch.stack(logps)
{body}
    print(sum(rews))
"""
)


def ac(
    body: str,
    opt: str = "opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)",
) -> str:
    return AC.format(opt=opt, body="\n".join("    " + row for row in body.strip("\n").split("\n")))


C: dict[str, str] = {}
C["e1"] = PPO.format(
    epochs=4,
    perm=MB,
    old="            with torch.no_grad():\n                old = policy(S[idx])[0].log_prob(A[idx])  # HERE",
)
C["e2"] = PPO.format(epochs=4, perm=FULL, old="            old = logp.detach()  # HERE")
C["r_e1"] = PPO.format(epochs=4, perm=MB, old="            old = LP[idx]")
C["r_e3"] = PPO.format(epochs=1, perm=FULL, old="            old = LP[idx]")
C["e3"] = (
    HEAD
    + """
actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
log_std = nn.Parameter(torch.zeros(1))
opt = torch.optim.Adam([*actor.parameters(), log_std], lr=1e-2)
def log_prob(x, a):
    std = log_std.exp()
    return (-0.5 * ((a - actor(x)) / std) ** 2 - log_std).squeeze(-1)
for it in range(5):
    x = torch.randn(64, 3)
    with torch.no_grad():
        a = actor(x) + log_std.exp() * torch.randn(64, 1)
    adv = -(a.squeeze(-1) - x.sum(1)) ** 2
    adv = (adv - adv.mean()) / adv.std()
    for k in range(5):
        lp_old = log_prob(x, a).detach()  # HERE
        lp = log_prob(x, a)
        r = (lp - lp_old).exp()
        loss = -torch.minimum(r * adv, r.clip(0.8, 1.2) * adv).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    print(loss.item())
"""
)
C["r_e5"] = C["e3"].replace(
    "    for k in range(5):\n        lp_old = log_prob(x, a).detach()  # HERE\n",
    "    lp_old = log_prob(x, a).detach()\n    for k in range(5):\n",
)
C["r_e6"] = (
    HEAD
    + """
from torch.distributions import Categorical
pi = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 4))
opt = torch.optim.Adam(pi.parameters(), lr=1e-2)
for it in range(12):
    x = torch.randn(64, 3)
    d = Categorical(logits=pi(x))
    a = d.sample()
    lp = d.log_prob(a)
    r = (a == (x[:, 0] > 0).long()).float()
    adv = (r - r.mean()) / (r.std() + 1e-6)
    ratio = (lp - lp.detach()).exp()
    loss = -(ratio * adv).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    print(r.mean().item())
"""
)
C["f1"] = ac(
    "adv = G - V\nactor_loss = -(LP * adv).mean()  # HERE\nloss = actor_loss + 0.5 * F.mse_loss(V, G)\nopt.zero_grad(); loss.backward(); opt.step()"
)
C["r_f1"] = ac(
    "adv = G - V.detach()\nactor_loss = -(LP * adv).mean()\nloss = actor_loss + 0.5 * F.mse_loss(V, G)\nopt.zero_grad(); loss.backward(); opt.step()"
)
TWO = "oa = torch.optim.Adam(actor.parameters(), lr=1e-2)\noc = torch.optim.Adam(critic.parameters(), lr=1e-2)"
C["f2"] = ac(
    "adv = G - V\npolicy_loss = (-LP * adv).sum()  # HERE\nvalue_loss = adv.pow(2).mean()\noa.zero_grad(); oc.zero_grad()\n(policy_loss + value_loss).backward()\noa.step(); oc.step()",
    TWO,
)
C["r_f2"] = ac(
    "adv = G - V\npolicy_loss = (-LP * adv.detach()).sum()\nvalue_loss = adv.pow(2).mean()\noa.zero_grad(); oc.zero_grad()\n(policy_loss + value_loss).backward()\noa.step(); oc.step()",
    TWO,
)
C["f3"] = ac(
    "adv = G - V\nadv = (adv - adv.mean()) / (adv.std() + 1e-6)\noa.zero_grad(); oc.zero_grad()\nF.mse_loss(V, G).backward(retain_graph=True)\n(-LP * adv).mean().backward()  # HERE\noa.step(); oc.step()",
    TWO,
)
C["r_f3"] = ac(
    "adv = G - V\noa.zero_grad()\n(-LP * adv).mean().backward(retain_graph=True)\noc.zero_grad()\nF.mse_loss(V, G).backward()\noc.step()\noa.step()",
    TWO,
).replace("oa.step()", "oa.step()")
C["f4"] = ac(
    "R = torch.tensor(rews)\nnxt = torch.cat([V[1:], torch.zeros(1)])\ndelta = R + 0.9 * nxt - V\nloss = -(LP * delta).mean() + 0.5 * (delta ** 2).mean()  # HERE\nopt.zero_grad(); loss.backward(); opt.step()"
)
C["f5"] = (
    HEAD
    + """
from torch.distributions import Categorical
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
        self.pi, self.v = nn.Linear(16, 3), nn.Linear(16, 1)
    def forward(self, s):
        h = self.body(s)
        return F.log_softmax(self.pi(h), -1), self.v(h).squeeze(-1)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for it in range(12):
    s = torch.randn(32, 4)
    logp, v = net(s)
    a = torch.multinomial(logp.detach().exp(), 1)
    r = (a.squeeze(1) == (s[:, 0] > 0).long()).float()
    adv = r - v
    pg = -(logp.gather(1, a).squeeze(1) * adv).mean()  # HERE
    vl = F.smooth_l1_loss(v, r)
    loss = pg + vl
    opt.zero_grad(); loss.backward(); opt.step()
    print(r.mean().item())
"""
)
C["r_f5"] = C["f5"].replace("r - v\n", "r - v.detach()\n").replace("  # HERE", "")
C["r_f6"] = (
    HEAD
    + """
gate = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
experts = nn.ModuleList([nn.Linear(4, 2) for _ in range(3)])
opt = torch.optim.Adam([*gate.parameters(), *experts.parameters()], lr=1e-2)
X, Y = torch.randn(64, 4), torch.randint(0, 2, (64,))
for it in range(12):
    w = gate(X).softmax(1)
    lps = torch.stack([F.cross_entropy(e(X), Y, reduction='none') for e in experts], 1)
    loss = (w * lps).sum(1).mean() + 0.01 * (w * w.log()).sum(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    print(loss.item())
"""
)
C["r_f7"] = (
    HEAD
    + """
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
s = nn.Parameter(torch.zeros(2))
opt = torch.optim.Adam([*net.parameters(), s], lr=1e-2)
X, Y = torch.randn(64, 4), torch.randn(64, 2)
for it in range(12):
    e = (net(X) - Y).pow(2).mean(0)
    loss = (torch.exp(-s) * e + s).sum()
    opt.zero_grad(); loss.backward(); opt.step()
    print(loss.item())
"""
)
SAC = (
    HEAD
    + """
actor = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))
q1, q2 = (nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(2))
t1, t2 = copy.deepcopy(q1), copy.deepcopy(q2)
log_alpha = torch.zeros(1, requires_grad=True)
oa = torch.optim.Adam(actor.parameters(), lr=1e-3)
oq = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=1e-3)
ol = torch.optim.Adam([log_alpha], lr=1e-3)
def sample(s):
    mu, ls = actor(s).chunk(2, -1)
    d = torch.distributions.Normal(mu, ls.clamp(-5, 2).exp())
    u = d.rsample()
    a = torch.tanh(u)
    return a, (d.log_prob(u) - torch.log(1 - a ** 2 + 1e-6)).sum(-1, keepdim=True)
S, A, R, S2 = torch.randn(256, 4), torch.rand(256, 2) * 2 - 1, torch.randn(256, 1), torch.randn(256, 4)
for it in range(12):
    i = torch.randint(0, 256, (32,))
    s, a, r, s2 = S[i], A[i], R[i], S2[i]
    with torch.no_grad():
        a2, lp2 = sample(s2)
        x2 = torch.cat([s2, a2], 1)
        y = r + 0.99 * (torch.min(t1(x2), t2(x2)) - log_alpha.exp() * lp2)
    x = torch.cat([s, a], 1)
    lq = F.mse_loss(q1(x), y) + F.mse_loss(q2(x), y)
    oq.zero_grad(); lq.backward(); oq.step()
    an, lp = sample(s)
    xn = torch.cat([s, an], 1)
    la = (log_alpha.exp().detach() * lp - torch.min(q1(xn), q2(xn))).mean()
    oa.zero_grad(); la.backward(); oa.step()
    ll = -(log_alpha.exp() * (lp + 2).detach()).mean()
    ol.zero_grad(); ll.backward(); ol.step()
    with torch.no_grad():
        for t, q in ((t1, q1), (t2, q2)):
            for pt, pq in zip(t.parameters(), q.parameters()):
                pt.mul_(0.99).add_(pq, alpha=0.01)
    print(lq.item(), la.item())
"""
)
C["r_f8"] = SAC


@pytest.mark.parametrize("name", C)
def test_the_line_that_is_marked_is_found_and_nothing_else(tmp_path: Path, name: str) -> None:
    only_the_marked_line(tmp_path, C[name])
