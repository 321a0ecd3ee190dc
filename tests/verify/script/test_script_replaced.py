"""Parts of a model that were put there after its optimizer was made: found, and given to it."""

from __future__ import annotations

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.by_hand.test_script_functional import run
from tests.verify.script.test_script_again import observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

START = """
import torch
from torch import nn
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.body(x))


def batch(classes=5):
    return torch.randn(32, 4), torch.randint(0, classes, (32,))
"""
LOOP = """
for step in range(5):
    x, y = batch()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
MOVED = """
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model.head = nn.Linear(16, 5)
"""
GROUPS = """
model = Net()
optimizer = torch.optim.Adam(
    [{"params": model.body.parameters(), "lr": 1e-4}, {"params": model.head.parameters()}], lr=1e-3
)
model.head = nn.Linear(16, 5)
"""
WITHIN = """
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
"""
AGAIN = LOOP.replace("):\n", "):\n    if step == 1:\n        model[2] = nn.Linear(16, 5)\n", 1)
TRAINER = """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.model.head = nn.Linear(16, 5)

    def fit(self):
        for step in range(5):
            x, y = batch()
            self.opt.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.opt.step()


Trainer(Net()).fit()
"""
APART = """
def made():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return model, optimizer


def adapted(model, classes):
    model.head = nn.Linear(16, classes)


def main():
    model, optimizer = made()
    adapted(model, 5)
    for step in range(5):
        x, y = batch()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


main()
"""
WRONG = {
    "moved": (MOVED + LOOP, "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)"),
    "groups": (GROUPS + LOOP, ")"),
    "within": (WITHIN + AGAIN, 'optimizer.add_param_group({"params": model[2].parameters()})'),
    "trainer": (TRAINER, 'self.opt.add_param_group({"params": self.model.head.parameters()})'),
    "apart": (APART, 'optimizer.add_param_group({"params": model.head.parameters()})'),
}
NEW = 'optimizer.add_param_group({"params": model.head.parameters()})\n'
RIGHT = {
    "built_last": MOVED.replace("optimizer = ", "other = ") + "optimizer = torch.optim.Adam("
    "model.parameters(), lr=1e-3)\n" + LOOP,
    "added": MOVED + NEW + LOOP,
    "same_values": MOVED.replace("model.head = nn.Linear(16, 5)", "model.head.weight.data *= 0.1")
    + LOOP.replace("batch()", "batch(3)"),
    "moved_to": MOVED.replace("model.head = nn.Linear(16, 5)", "model = model.double().float()")
    + LOOP.replace("batch()", "batch(3)"),
}


@pytest.mark.parametrize(("text", "line"), WRONG.values(), ids=WRONG)
def test_the_new_part_is_found_and_given_to_the_optimizer(tmp_path, text, line):
    found, _, _ = observed(tmp_path, START + text)
    (one,) = [f for f in found if f.level != "note"]
    assert one.name.code == "not_optimized"
    assert one.correction.rechecked
    added = set(one.correction.after.splitlines()) - set(one.correction.before.splitlines())
    assert line in {a.strip() for a in added} or one.correction.after.splitlines()[-1] == line


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_the_optimizer_has_is_no_mistake(tmp_path, text):
    found, code, _ = observed(tmp_path, START + text)
    assert ([f.name for f in found if f.level != "note"], code) == ([], 0)


OWN = """
import numpy as np
import chainrule as cr
from chainrule import nn, optim


class Net(nn.Module):
    def __init__(self):
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x).tanh())


cr.manual_seed(0)
rng = np.random.default_rng(0)
x = cr.tensor(rng.normal(size=(16, 4)), dtype=cr.float32)
y = cr.tensor(rng.normal(size=(16, 2)), dtype=cr.float32)
model = Net()
{lines}
for _ in range(5):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
"""
LINES = ["optimizer = optim.Adam(model.parameters(), lr=1e-2)", "model.head = nn.Linear(8, 2)"]


@pytest.mark.parametrize("wrong", [True, False])
def test_in_chainrule(tmp_path, wrong):
    lines = LINES if wrong else LINES[::-1]
    outcome, _ = run(tmp_path, OWN.replace("{lines}", "\n".join(lines)))
    found = [f for f in outcome.report.findings if f.level != "note"]
    assert [f.name.code for f in found] == ["not_optimized"] * wrong
    assert all(f.correction.rechecked and f.correction.place.line == 20 for f in found)
