"""Slips of training scripts that leave every single gradient right: optimizers made again, memory
that two parameters share, updates of a loop's own name; and losses shown when a loop is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled
from tests.verify.script.test_script_again import observed

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are not copied here")

EPOCHS = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
X, Y = torch.randn(30, 4), torch.randn(30, 1)
{first}
for epoch in range(8):
{each}
    for k in range(0, 30, 15):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(X[k : k + 15]), Y[k : k + 15])
        loss.backward()
        optimizer.step()
    print(loss.item())
"""
ADAM = "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)"
PLAIN = "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)"
TEACHER = """
import copy
import torch
from torch import nn
torch.manual_seed(0)
student = nn.Linear(4, 2)
teacher = copy.deepcopy(student)
{share}
for p in teacher.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
X = torch.randn(20, 4)
for step in range(12):
    optimizer.zero_grad()
    loss = ((student(X) - teacher(X + 0.1)) ** 2).mean() + student(X).pow(2).mean()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for q, p in zip(teacher.parameters(), student.parameters()):
            q.mul_(0.9).add_(p, alpha=0.1)
    print(loss.item())
"""
SHARE = "for q, p in zip(teacher.parameters(), student.parameters()):\n    q.data = p.data"
COPY = SHARE.replace("p.data", "p.data.clone()")
TIED = """
import torch
from torch import nn
torch.manual_seed(0)
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.take = nn.Embedding(9, 6)
        self.give = nn.Linear(6, 9, bias=False)
        {tie}
    def forward(self, x):
        return self.give(torch.tanh(self.take(x)))
model = Words()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
X = torch.randint(0, 9, (40,))
for step in range(12):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(X), (X + 1) % 9)
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
BEST = """
import copy
import torch
from torch import nn
torch.manual_seed(0)
model, best = nn.Linear(4, 1), None
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
X, Y = torch.randn(30, 4), torch.randn(30, 1)
for step in range(12):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(X), Y)
    loss.backward()
    optimizer.step()
    if step == 0:
        best = {kept}
    if step == 1:
        model.load_state_dict(best)
    print(loss.item())
"""
TARGET = """
import copy
import torch
from torch import nn
torch.manual_seed(0)
online = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
target = {target}
optimizer = torch.optim.Adam(online.parameters(), lr=0.02)
X, R = torch.randn(30, 4), torch.randn(30)
for step in range(12):
    q = online(X)[:, 0]
    with torch.no_grad():
        wanted = R + 0.9 * target(X.roll(1, 0)).max(1).values
    loss = nn.functional.smooth_l1_loss(q, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 2 == 1:
        target.load_state_dict(online.state_dict())
    print(loss.item())
"""
BATCHES = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
data = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(6)]
{first}
def train(batches):
    for x, y in batches:
        {each}
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
for epoch in range(3):
    train(data)
"""
NAMES = """
import numpy as np
rng = np.random.default_rng(0)
X, w, b = rng.normal(size=(20, 3)), np.zeros(3), np.zeros(1)
y = X @ np.array([1.0, -2.0, 0.5]) + 0.3
for step in range(20):
    e = X @ w + b - y
    for p, g in ((w, 2 * X.T @ e / 20), (b, np.array([2 * e.mean()]))):
        {update}
    print(np.mean(e * e))
"""
AFTER = """
import numpy as np
rng = np.random.default_rng(0)
X, w = rng.normal(size=(20, 3)), np.zeros(3)
y = X @ np.array([1.0, -2.0, 0.5])
for step in range(20):
    loss = np.mean((X @ w - y) ** 2)
    g = {gradient}
    w -= 0.1 * g
print(loss)
"""
EARLY = """
import numpy as np
rng = np.random.default_rng(0)
X, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
W1, W2 = rng.normal(size=(3, 4)), rng.normal(size=(4, 1))
for step in range(20):
    h = np.tanh(X @ W1)
    e = h @ W2 - y
    g2 = 2 * h.T @ e / 20
{early}
    g1 = X.T @ ((2 * e / 20) @ W2.T * (1 - h * h))
    W1 -= 0.1 * g1
{late}
    print(np.mean(e * e))
"""

CASES: dict[str, tuple[str, str, str]] = {
    "made in each epoch": (EPOCHS.format(first="", each="    " + ADAM), "state_lost", ADAM),
    "made once": (EPOCHS.format(first=ADAM, each=""), "", ""),
    "made in each epoch, and keeps nothing": (
        EPOCHS.format(first="", each="    " + PLAIN), "", "",
    ),
    "a teacher in its student's memory": (
        TEACHER.format(share=SHARE), "unseen_change", "q.data = p.data",
    ),
    "a teacher with memory of its own": (TEACHER.format(share=COPY), "", ""),
    "two trained parameters in one memory": (
        TIED.format(tie="self.give.weight.data = self.take.weight.data"), "unseen_change",
        "self.give.weight.data = self.take.weight.data",
    ),
    "one parameter twice": (TIED.format(tie="self.give.weight = self.take.weight"), "", ""),
    "the best values, which are the latest": (
        BEST.format(kept="model.state_dict()"), "idle_load", "best = model.state_dict()",
    ),
    "the best values, copied": (BEST.format(kept="copy.deepcopy(model.state_dict())"), "", ""),
    "a target that is the network": (
        TARGET.format(target="online"), "idle_load", "target.load_state_dict(online.state_dict())",
    ),
    "a target of its own": (TARGET.format(target="copy.deepcopy(online)"), "", ""),
    "made for each batch": (BATCHES.format(first="", each=ADAM), "state_lost", ADAM),
    "made before all batches": (BATCHES.format(first=ADAM, each="pass"), "", ""),
    "made for each batch, of a model that begins anew": (
        BATCHES.format(
            first="import copy\nfirst = copy.deepcopy(model.state_dict())",
            each=f"model.load_state_dict(first); {ADAM}",
        ), "", "",
    ),
    "made, and not used": (
        BATCHES.format(
            first=f"{ADAM}\nothers = [torch.optim.Adam(model.parameters()) for _ in range(5)]",
            each="pass",
        ), "", "",
    ),
    "made for each batch, and keeps nothing": (BATCHES.format(first="", each=PLAIN), "", ""),
    "a name of the loop's": (
        NAMES.format(update="p = p - 0.1 * g"), "lost_updates", "p = p - 0.1 * g",
    ),
    "the array itself": (NAMES.format(update="p -= 0.1 * g"), "", ""),
    "a loss shown behind the loop": (
        AFTER.format(gradient="2 * X.T @ (X @ w + y) / 20"), "sign",
        "g = 2 * X.T @ (X @ w + y) / 20",
    ),
    "a right one behind the loop": (AFTER.format(gradient="2 * X.T @ (X @ w - y) / 20"), "", ""),
    "an update before it is read": (
        EARLY.format(early="    W2 -= 0.1 * g2", late=""), "stale", "W2 -= 0.1 * g2",
    ),
    "an update behind what reads it": (EARLY.format(early="", late="    W2 -= 0.1 * g2"), "", ""),
}  # fmt: skip
"""By name: the script, the code of the only finding, and the text of its line."""


@sampled(one_in=2)
@pytest.mark.parametrize("name", CASES)
def test_it_is_found_at_its_line(tmp_path: Path, name: str) -> None:
    text, code, line = CASES[name]
    found, _, _ = observed(tmp_path, text)
    assert len(found) == bool(code), found
    for f in found:
        assert f.name.code == code
        assert f.place is not None and f.place.text.strip() == line
