"""Where a mistake was made, and not where its effect is seen: a leaf, a scale, a divisor."""

from __future__ import annotations

import pytest

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
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
o = torch.optim.SGD(net.parameters(), lr=0.01)
"""

LEAF = """
for _ in range(5):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    out = torch.autograd.Variable(net(x).data / 2, requires_grad=True)
    o.zero_grad()
    F.cross_entropy(out, y).backward()
    o.step()
"""


DIVISOR = """
batches = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(12)]
for _ in range(3):
    o.zero_grad()
    for i, (x, y) in enumerate(batches):
        loss = F.cross_entropy(net(x), y)
        loss = loss / {by}
        loss.backward()
        if (i + 1) % 4 == 0:
            o.step()
            o.zero_grad()
"""


def test_a_leaf_that_was_made_of_an_output(tmp_path):
    (slip,) = observed(tmp_path, START + LEAF, steps=3)[0]
    assert slip.name.code == "no_gradient"
    assert slip.place is not None and "torch.optim.SGD" in slip.place.text


def test_a_divisor_that_is_no_number_of_passes(tmp_path):
    assert observed(tmp_path, START + DIVISOR.replace("{by}", "4"), steps=3)[0] == []
    (slip,) = observed(tmp_path, START + DIVISOR.replace("{by}", "len(batches)"), steps=3)[0]
    assert slip.name.code == "accumulation"
    assert slip.place is not None and slip.place.text == "loss.backward()"


LISTED = """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, h):
        return torch.tanh(self.inner(h))


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.cells = [Cell() for _ in range(2)]

    def forward(self, x):
        h = self.first(x)
        for cell in self.cells:
            h = cell(h)
        return self.last(h)


deep = Deep()
o = torch.optim.SGD(deep.parameters(), lr=0.1)
for _ in range(4):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    o.zero_grad()
    F.cross_entropy(deep(x), y).backward()
    o.step()
"""


def test_a_list_of_modules_that_hold_others(tmp_path):
    (slip,) = observed(tmp_path, START + LISTED, steps=3)[0]
    assert slip.name.code == "not_optimized"
    assert slip.place is not None and slip.place.text.startswith("self.cells = [")
    assert slip.correction is not None and slip.correction.rechecked


TAUGHT = """
import numpy as np
import chainrule as cr
from chainrule import nn, optim

rng = np.random.default_rng(0)
X = cr.tensor(rng.normal(size=(16, 4)), dtype=cr.float32)
teacher, student = nn.Linear(4, 3), nn.Linear(4, 3)
o = optim.Adam(teacher.parameters(), lr=0.01)
for _ in range(4):
    with cr.no_grad():
        aim = cr.softmax(teacher(X))
    student.zero_grad()
    loss = cr.mean(cr.square(cr.softmax(student(X)) - aim))
    loss.backward()
    o.step()
"""


def test_who_was_given_to_the_optimizer_goes_before_a_cut_that_may_be_meant(tmp_path):
    first, *_ = observed(tmp_path, TAUGHT, steps=3)[0]
    assert first.name.code == "not_optimized"
    assert first.place is not None and "Adam(teacher.parameters()" in first.place.text
