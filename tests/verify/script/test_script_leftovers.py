"""What piles up from step to step, what is no copy, and logarithms of determinants in a loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.script.by_hand.test_script_gradients_at_hand import reported
from tests.verify.script.losses.loss_scripts import HEAD, MARKS

pytestmark = MARKS

GAN = """
G, D = nn.Linear(3, 4), nn.Linear(4, 1)
og = torch.optim.SGD(G.parameters(), 0.1)
od = torch.optim.SGD(D.parameters(), 0.1)
for step in range(5):
    og.zero_grad()
    od.zero_grad()
    fake = G(torch.randn(8, 3))
    F.softplus(-D(fake)).mean().backward()
    {generator}
    {between}
    loss = F.softplus(-D(torch.randn(8, 4))).mean() + F.softplus(D(fake{cut})).mean()
    loss.backward()
    od.step()
    {later}
"""
STEP, RESET = "og.step()", "od.zero_grad()"
PASSES = {
    "what the generator's pass has left": ("not_reset", STEP, "pass", ".detach()", "pass"),
    "reset between": ("", STEP, RESET, ".detach()", "pass"),
    "both with all gradients": ("", "fake = G(torch.randn(8, 3))", "pass", "", STEP),
}


def codes(folder: Path, text: str) -> list[str]:
    report = reported(folder, HEAD + text)
    assert not [s for s in report.ledger.skipped if "failed" in s.why], str(report)
    return [f.name.code for f in report.findings if f.level != "note"]


@pytest.mark.parametrize("name", PASSES)
def test_gradients_that_another_pass_has_left(tmp_path: Path, name: str) -> None:
    code, generator, between, cut, later = PASSES[name]
    text = GAN.format(generator=generator, between=between, cut=cut, later=later)
    assert codes(tmp_path, text) == ([code] if code else [])


HOOKS = """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)
def halve(by):
    return net.weight.register_hook(lambda g: g * by)
{before}
for epoch in range(3):
    {first}
    for step in range(2):
        opt.zero_grad()
        net(torch.randn(8, 3)).square().mean().backward()
        opt.step()
    {last}
"""


@pytest.mark.parametrize(("before", "first", "last", "expected"), [
    ("pass", "halve(0.5)", "pass", ["hooked"]),
    ("halve(0.5)", "pass", "pass", []),
    ("pass", "handle = halve(0.5)", "handle.remove()", []),
    ("halve(0.5); halve(0.9)", "pass", "pass", []),
])  # fmt: skip
def test_hooks_that_pile_up(tmp_path: Path, before, first, last, expected) -> None:
    text = HOOKS.format(before=before, first=first, last=last)
    assert codes(tmp_path, text) == expected


MEAN = """
net = nn.Linear(3, 1)
slow = {{k: p.detach(){copy} for k, p in net.named_parameters()}}
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(4):
    opt.zero_grad()
    net(torch.randn(8, 3)).square().mean().backward()
    opt.step()
    with torch.no_grad():
        for k, p in net.named_parameters():
            slow[k].lerp_(p, 0.1)
"""


@pytest.mark.parametrize(("copy", "expected"), [("", ["idle_load"]), (".clone()", [])])
def test_a_mean_of_weights_and_themselves(tmp_path: Path, copy: str, expected: list[str]) -> None:
    assert codes(tmp_path, MEAN.format(copy=copy)) == expected


FLOW = """
class Layer(nn.Module):
    def __init__(self, turned):
        super().__init__()
        self.net, self.turned = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2)), turned
    def forward(self, x):
        a, b = x.chunk(2, 1)
        a, b = (b, a) if self.turned else (a, b)
        s, t = self.net(a).chunk(2, 1)
        b = b * s.exp() + t
        return torch.cat([b, a] if self.turned else [a, b], 1), {number}

layers = nn.ModuleList([Layer(False), Layer(True)])
opt = torch.optim.Adam(layers.parameters(), 1e-2)
for step in range(4):
    x = torch.randn(16, 2) * 2 + 1
    total = torch.zeros(16)
    for layer in layers:
        x, one = layer(x)
        total = total {sign} one
    loss = ({base}).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
BASE = "0.5 * (x * x).sum(1) {} total"
FLOWS = {
    "right": ([], "s.sum(1)", "+", BASE.format("-")),
    "the inverse's, taken off": ([], "-s.sum(1)", "-", BASE.format("-")),
    "the inverse's, added": (["sign", "sign"], "-s.sum(1)", "+", BASE.format("-")),
    "taken off": (["sign"], "s.sum(1)", "-", BASE.format("-")),
    "of all examples": (["axes_mixed"], "s.sum()", "+", BASE.format("-")),
    "something else": ([], "s.sum(1) * 0.1 + x.sum(1)", "-", BASE.format("-")),
}


@pytest.mark.parametrize("name", FLOWS)
def test_logarithms_of_determinants(tmp_path: Path, name: str) -> None:
    expected, number, sign, base = FLOWS[name]
    found = codes(tmp_path, FLOW.format(number=number, sign=sign, base=base))
    assert set(found) == set(expected)


POLICY = """
from torch.distributions import {kind}
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), 0.1, maximize={up})
for step in range(4):
    {dist}
    a = dist.sample()
    gain = torch.randn(8)
    entropy = dist.entropy().reshape(8, -1).sum(1)
    pg = -(dist.log_prob(a).reshape(8, -1).sum(1) * gain).mean()
    loss = {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
KINDS = {
    "Categorical": "dist = Categorical(logits=net(torch.randn(8, 3)))",
    "Normal": "dist = Normal(net(torch.randn(8, 3)), net(torch.randn(8, 3)).exp())",
}
LOSSES = {
    "pg + 0.01 * entropy.mean()": ["sign"],
    "pg - -0.01 * entropy.mean()": ["sign"],
    "pg - 0.01 * entropy.mean()": [],
    "pg + -0.01 * entropy.mean()": [],
    "pg": [],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_sign_of_an_entropy(tmp_path: Path, kind: str, loss: str) -> None:
    found = codes(tmp_path, POLICY.format(kind=kind, dist=KINDS[kind], loss=loss, up=False))
    assert found == LOSSES[loss]


@pytest.mark.parametrize("sign", "+-")
def test_the_sign_of_an_entropy_where_the_objective_is_made_large(tmp_path: Path, sign: str):
    text = POLICY.replace("pg = -(", "pg = (")
    loss, dist = f"pg {sign} 0.01 * entropy.mean()", KINDS["Normal"]
    found = codes(tmp_path, text.format(kind="Normal", dist=dist, loss=loss, up=True))
    assert found == (["sign"] if sign == "-" else [])
