"""Sums of later rewards, in the order of the choices that they weigh and in the reversed one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.script.by_hand.test_script_gradients_at_hand import reported
from tests.verify.script.losses.loss_scripts import MARKS

pytestmark = MARKS

SCRIPT = """
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.Adam(policy.parameters(), 1e-2)

def returns_of(rewards):
    R, found = 0.0, []
    for r in reversed(rewards):
        R = r + 0.9 * R
        {keep}
    found = torch.tensor(found)
    return {given}

def update(log_probs, rewards):
    {weights}
    {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()

for _ in range(3):
    log_probs, rewards, s = [], [], torch.randn(5)
    for t in range(9):
        dist = Categorical(logits=policy(s))
        a = dist.sample()
        {collect}
        rewards.append({reward})
        s = torch.randn(5)
    update(log_probs, rewards)
"""
USUAL = {
    "keep": "found.append(R)", "given": "found", "weights": "G = returns_of(rewards)",
    "loss": "loss = -(torch.stack(log_probs) * G).sum()",
    "collect": "log_probs.append(dist.log_prob(a))",
    "reward": "float(s[0]) + (1.0 if t == 8 else -0.05)",
}  # fmt: skip
ONE_BY_ONE = "loss = torch.stack([-p * g for p, g in zip(log_probs, G)]).sum()"
SCALED = "(found - found.mean()) / (found.std() + 1e-8)"
WRONG = {
    "appended": {},
    "one by one": {"loss": ONE_BY_ONE},
    "as numbers": {"loss": ONE_BY_ONE, "given": "found.tolist()"},
    "shifted and scaled": {"given": SCALED},
    "a reward for each step": {"reward": "1.0"},
    "less a baseline, a reward for each step": {"reward": "-0.05", "given": "found - 0.3"},
    "a column": {"loss": "loss = -(torch.stack(log_probs).unsqueeze(1) * G[:, None]).mean()"},
}
RIGHT = {
    "in front": {"keep": "found.insert(0, R)"},
    "in front, one by one": {"keep": "found.insert(0, R)", "loss": ONE_BY_ONE},
    "turned round": {"given": "found.flip(0)"},
    "turned round and scaled": {"keep": "found.insert(0, R)", "given": SCALED},
    "in front, a reward for each step": {"keep": "found.insert(0, R)", "reward": "1.0"},
    "in front, less a baseline, a reward for each step": {
        "keep": "found.insert(0, R)", "reward": "-0.05", "given": "found - 0.3"},
    "choices turned round as well": {"collect": "log_probs.insert(0, dist.log_prob(a))"},
    "powers of a share": {
        "weights": "G = 0.9 ** torch.arange(9)", "reward": "1.0 if t == 8 else 0.0"},
    "powers of a share, a reward for each step": {
        "weights": "G = 0.9 ** torch.arange(9)", "reward": "1.0"},
    "the rewards alone": {"weights": "G = torch.tensor(rewards)"},
    "one sum for all": {"weights": "G = torch.full((9,), sum(rewards))"},
    "sums of all until then": {"weights": "G = torch.tensor(rewards).cumsum(0)"},
}  # fmt: skip


def codes(tmp_path: Path, changes: dict[str, str]) -> list[str]:
    report = reported(tmp_path, SCRIPT.format(**{**USUAL, **changes}))
    assert not [s for s in report.ledger.skipped if "failed" in s.why], str(report)
    return [f.name.code for f in report.findings if f.level != "note"]


@pytest.mark.parametrize("name", WRONG)
def test_returns_in_reversed_order(tmp_path: Path, name: str) -> None:
    assert codes(tmp_path, WRONG[name]) == ["wrong_value"]


@pytest.mark.parametrize("name", RIGHT)
def test_returns_in_their_order(tmp_path: Path, name: str) -> None:
    assert not codes(tmp_path, RIGHT[name])


ADVANTAGES = """
import torch
from torch import nn

torch.manual_seed(0)
policy, critic = nn.Linear(3, 1), nn.Linear(3, 1)
opt = torch.optim.Adam([*policy.parameters(), *critic.parameters()], 1e-2)

def gae(R, V, D, last):
    A, gae = torch.zeros(len(R)), 0.0
    for t in reversed(range(len(R))):
        later = last if t == len(R) - 1 else V[t + 1]
        left = 1.0 - D[t]
        delta = R[t] + 0.9 * later * {delta} - V[t]
        gae = delta + 0.8 * {over}gae
        A[t] = gae
    return A

for _ in range(3):
    S, R = torch.randn(40, 3), torch.randn(40)
    D = (torch.arange(40) % 9 == 8).float()
    with torch.no_grad():
        V = critic(S).squeeze(-1)
    A = gae(R, V, D, 0.1)
    target = A + V
    A = (A - A.mean()) / A.std()
    some = torch.randperm(40)[:20]
    logp = -(policy(S[some]).squeeze(-1) - 0.5).square()
    loss = -(logp * A[some]).mean() + (critic(S[some]).squeeze(-1) - target[some]).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(("delta", "over", "expected"), [
    ("left", "", ["wrong_value"]),
    ("left", "left * ", []),
    ("1.0", "", []),
])  # fmt: skip
def test_sums_over_the_ends_of_episodes(tmp_path: Path, delta, over, expected) -> None:
    report = reported(tmp_path, ADVANTAGES.format(delta=delta, over=over))
    found = [f for f in report.findings if f.level != "note"]
    assert [f.name.code for f in found] == expected, str(report)
    assert all("(left * gae)" in f.correction.after for f in found if f.correction), str(report)
