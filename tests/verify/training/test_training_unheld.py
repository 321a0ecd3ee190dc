"""Whole models that no optimizer has: the correction is tried, and what was trained is meant."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import corrected
from tests.verify.script.test_script_again import observed as observed_script
from tests.verify.training.programs.training_models import batch, mlp
from tests.verify.training.test_training_right import observed

pytestmark = sampled_file(one_in=12)


START = """
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
X = torch.randn(64, 6)
Y = X.sum(1, keepdim=True).sin()
"""
ADAPTER = """
student = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
adapter = nn.Linear(12, 64)
opt = torch.optim.AdamW(student.parameters(), lr=1e-3)
for step in range(5):
    opt.zero_grad()
    F.mse_loss(adapter(student(X)), Y.expand(-1, 64)).backward()
    opt.step()
"""
LATE = """
class Trainer:
    def __init__(self, student):
        self.student = student
        self.opt = torch.optim.AdamW(self.student.parameters(), lr=1e-3)
        self.adapter = nn.Linear(12, 64)

    def step(self, x, y):
        self.opt.zero_grad()
        F.mse_loss(self.adapter(self.student(x)), y.expand(-1, 64)).backward()
        self.opt.step()


trainer = Trainer(nn.Sequential(nn.Linear(6, 12), nn.ReLU()))
for step in range(5):
    trainer.step(X, Y)
"""
GROUPED = """
def main():
    student, adapter = nn.Linear(6, 12), nn.Linear(12, 64)
    opt = torch.optim.SGD([{"params": student.parameters(), "lr": 0.1}])
    for step in range(5):
        opt.zero_grad()
        F.mse_loss(adapter(student(X)), Y.expand(-1, 64)).backward()
        opt.step()


main()
"""
TAUGHT = """
teacher = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 1))
first = torch.optim.Adam(teacher.parameters(), lr=1e-2)
for step in range(8):
    first.zero_grad()
    F.mse_loss(teacher(X), Y).backward()
    first.step()
student, head = nn.Sequential(nn.Linear(6, 12), nn.ReLU()), nn.Linear(12, 1)
adapter = nn.Linear(12, 64)
second = torch.optim.AdamW([*student.parameters(), *head.parameters()], lr=1e-3)
for step in range(8):
    second.zero_grad()
    h = student(X)
    with torch.no_grad():
        t = teacher[:2](X)
    (F.mse_loss(head(h), Y) + F.mse_loss(adapter(h), t)).backward()
    second.step()
"""
TRAINED = """
encoder = nn.Sequential(nn.Linear(6, 64), nn.Tanh())
decoder = nn.Linear(64, 6)
first = torch.optim.Adam([encoder[0].weight, encoder[0].bias, *decoder.parameters()], lr=1e-2)
for step in range(8):
    first.zero_grad()
    F.mse_loss(decoder(encoder(X)), X).backward()
    first.step()
generator = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6))
second = torch.optim.AdamW(generator.parameters(), lr=1e-3)
for step in range(8):
    second.zero_grad()
    encoder(generator(X)).sub(1).square().mean().backward()
    second.step()
"""


RESET = """
student = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
head = nn.Linear(12, 4)
opt = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
for step in range(5):
    student.zero_grad()
    head.zero_grad()
    F.mse_loss(head(student(X)), Y.expand(-1, 4)).backward()
    opt.step()
"""


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
@pytest.mark.parametrize(
    ("text", "after"),
    [
        (RESET, "[*student.parameters(), *head.parameters()]"),
        (ADAPTER, "[*student.parameters(), *adapter.parameters()]"),
        (LATE, 'add_param_group({"params": self.adapter.parameters()})'),
        (TAUGHT, "*head.parameters(), *adapter.parameters()]"),
        (GROUPED, "{'params': adapter.parameters()}]"),
    ],
)
def test_a_correction_is_tried_and_right(tmp_path, text, after):
    corrected(tmp_path, START + text, "not_optimized", after)


def test_what_was_trained_in_an_earlier_phase_is_meant(tmp_path):
    found, _, _ = observed_script(tmp_path, START + TRAINED)
    assert not [f.name.code for f in found]


def test_steps_by_hand_that_forget_to_reset_are_one_mistake():
    def loop():
        student, hand = mlp(4, 12), nn.Linear(12, 40)
        o = torch.optim.SGD(student.parameters(), 0.1)
        for _ in range(4):
            o.zero_grad()
            hand(student(batch()[0])).square().mean().backward()
            o.step()
            for p in (hand.weight, hand.bias):
                p.data.add_(p.grad, alpha=-0.01)

    assert [f.name.code for f in observed(loop)[0] if f.level != "note"] == ["not_reset"]
