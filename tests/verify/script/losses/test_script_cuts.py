"""Cuts of the graph in losses that belong together: samples, and networks with losses of their own.

What is said has to name the line of the mistake, and a correction that counts as tried must be
that of this line: opening a cut that is meant gives gradients as well.
"""

from __future__ import annotations

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

GAN = """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
judge = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
a = torch.optim.Adam(maker.parameters(), lr=1e-3)
b = torch.optim.Adam(judge.parameters(), lr=1e-3)
"""
IN_TURNS = """
for _ in range(6):
    made = maker(torch.randn(16, 3))
    b.zero_grad()
    (F.softplus(judge(made.detach())) + F.softplus(-judge(torch.randn(16, 2)))).mean().backward()
    b.step()
    a.zero_grad()
    F.softplus(-judge({made})).mean().backward()
    a.step()
"""
MAKER_FIRST = """
for _ in range(6):
    made = maker(torch.randn(16, 3))
    a.zero_grad()
    F.softplus(-judge({made})).mean().backward()
    a.step()
    b.zero_grad()
    (F.softplus(judge(made.detach())) + F.softplus(-judge(torch.randn(16, 2)))).mean().backward()
    b.step()
"""
TOGETHER = """
for _ in range(6):
    made = maker(torch.randn(16, 3))
    a.zero_grad()
    b.zero_grad()
    (F.softplus(judge(made.detach())) + F.softplus(-judge(torch.randn(16, 2)))).mean().backward()
    F.softplus(-judge({made})).mean().backward()
    a.step()
    b.step()
"""
VAE = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal, kl_divergence
torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 4), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6))
probe = nn.Linear(2, 3)
m = nn.ModuleList([encoder, decoder, probe])
o = torch.optim.Adam(m.parameters(), lr=1e-3)
for _ in range(5):
    x = torch.randn(16, 6)
    mu, spread = encoder(x).chunk(2, 1)
    q = Normal(mu, F.softplus(spread))
    {draw}
    prior = kl_divergence(q, Normal(0.0, 1.0)).sum(1).mean()
    loss = F.mse_loss(decoder({z}), x) + 0.1 * prior
    loss = loss + F.cross_entropy(probe({seen}), torch.randint(0, 3, (16,)))
    o.zero_grad()
    loss.backward()
    o.step()
"""
BY_HAND = "z = mu + F.softplus(spread) * torch.randn_like(mu)"
SLOWLY = "e = torch.randn(16, 2); s = q.stddev * e; z = (q.mean + s).detach()"


def vae(draw: str, z: str = "z", seen: str = "z.detach()") -> str:
    return VAE.replace("{draw}", draw).replace("{z}", z).replace("{seen}", seen)


@pytest.mark.parametrize("loop", [IN_TURNS, MAKER_FIRST], ids=["in_turns", "maker_first"])
def test_the_cut_is_in_the_loss_whose_network_gets_nothing(tmp_path, loop):
    found, _, _ = observed(tmp_path, GAN + loop.replace("{made}", "made.detach()"))
    (cut,) = [f for f in found if f.name.code == "detached"]
    assert cut.place.text == "F.softplus(-judge(made.detach())).mean().backward()"
    assert cut.correction.rechecked
    assert cut.correction.after.strip() == "F.softplus(-judge(made)).mean().backward()"


def test_where_two_losses_could_be_meant_no_correction_counts_as_right(tmp_path):
    found, _, _ = observed(tmp_path, GAN + TOGETHER.replace("{made}", "made.detach()"))
    cuts = [f for f in found if f.name.code == "detached"]
    assert len(cuts) == 2
    assert not any(f.correction.rechecked for f in cuts)
    assert all("one of the two may be meant" in f.evidence[-1] for f in cuts)


@pytest.mark.parametrize("loop", [IN_TURNS, MAKER_FIRST, TOGETHER])
def test_a_network_that_is_trained_elsewhere_may_be_cut_off(tmp_path, loop):
    text = (GAN + loop.replace("{made}", "made")).replace(".backward()", ".backward({})", 1)
    text = text.replace("backward({})", "backward(retain_graph=True)")
    assert observed(tmp_path, text)[0] == []


@pytest.mark.parametrize(
    ("text", "line", "after"),
    [
        (vae(BY_HAND, seen="mu.detach()", z="z.detach()"), "loss = F.mse", "decoder(z)"),
        (vae(SLOWLY, z="z", seen="mu.detach()"), "e = torch", "z = (q.mean + s)"),
        (vae("z = q.sample()", seen="mu.detach()"), "z = q.sample()", "z = q.rsample()"),
        (vae("z = q.rsample().detach()", seen="z"), "z = q.rsample()", "z = q.rsample()"),
    ],
    ids=["by_hand", "slowly", "sample", "rsample"],
)
def test_a_sample_that_trains_nothing_behind_it(tmp_path, text, line, after):
    (cut,) = observed(tmp_path, text)[0]
    assert cut.name.code == "partly_detached"
    assert cut.place.text.startswith(line)
    assert "parameters go on with the sample" in cut.evidence[-1]
    assert cut.correction.rechecked
    assert after in cut.correction.after


@pytest.mark.parametrize("draw", [BY_HAND, SLOWLY.replace(".detach()", ""), "z = q.rsample()"])
def test_a_sample_may_be_cut_off_from_a_part_beside(tmp_path, draw):
    assert observed(tmp_path, vae(draw))[0] == []


def test_a_number_in_the_loss_is_a_tensor_again(tmp_path):
    text = vae("z = q.rsample()").replace("sum(1).mean()", "sum(1).mean().item()")
    (cut,) = observed(tmp_path, text)[0]
    assert cut.place.text.startswith("prior =")
    assert cut.correction.rechecked
    assert ".item()" not in cut.correction.after


HOOKED = """
import torch
from torch import nn
torch.manual_seed(0)

class Outside(nn.Module):
    def forward(self, x):
        a = x.detach().numpy()
        slope = torch.from_numpy(1 - a * 0)
        y = x.clone()
        {hook}
        return y + torch.from_numpy(a * a) / 8

net = nn.Sequential(nn.Linear(3, 8), Outside(), nn.Linear(8, 1))
o = torch.optim.SGD(net.parameters(), lr=1e-3)
for _ in range(5):
    o.zero_grad()
    net(torch.randn(16, 3)).square().mean().backward()
    o.step()
"""


@pytest.mark.parametrize("hooked", [True, False])
def test_what_a_hook_gives_is_not_missing(tmp_path, hooked):
    hook = "y.register_hook(slope.mul) if y.requires_grad else None" if hooked else "pass"
    found = observed(tmp_path, HOOKED.replace("{hook}", hook), steps=3)[0]
    codes = [f.name.code for f in found if f.level != "note"]
    assert codes == ([] if hooked else ["partly_detached"])
