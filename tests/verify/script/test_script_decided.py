"""The line that is named where a mistake shows elsewhere than it was made."""

from __future__ import annotations

import pytest

from chainrule.verify import trees
from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

CHECKPOINTED = """
import random
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.calls = nn.Linear(4, 4), 0
    def forward(self, h):
        self.calls += 1
        {first}
            {inside}
        h = torch.tanh(self.lin(h) * scale)
        return h * 0.5
block = Block()
o = torch.optim.SGD(block.parameters(), 0.01)
for i in range(5):
    o.zero_grad()
    h = torch.randn(8, 4, requires_grad=True)
    for _ in range(3):
        h = checkpoint(block, h, use_reentrant={reentrant})
    h.square().mean().backward()
    o.step()
"""


def checkpointed(first: str, inside: str, reentrant: bool = True) -> str:
    text = CHECKPOINTED.replace("{first}", first).replace("{inside}", inside)
    return text.replace("{reentrant}", str(reentrant))


@pytest.mark.parametrize(
    ("first", "inside", "line"),
    [
        ("if True:", "scale = 1 / (1 + 0.1 * self.calls)", "scale = 1"),
        ("scale = 1 + random.random()\n        if True:", "pass", "scale = 1"),
        ("scale = 1\n        if self.calls % 2 == i % 2:", "h = h * 2 + torch.sin(h)", "if self.c"),
    ],
)
def test_what_decided_that_a_recomputation_differs(tmp_path, first, inside, line):
    found = observed(tmp_path, checkpointed(first, inside), steps=3)[0]
    assert found[0].name.code == "recomputed"
    assert found[0].place.text.startswith(line)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize(
    ("first", "inside"),
    [
        ("scale = 1\n        if self.calls < 0:", "scale = self.calls"),
        ("scale = 1\n        if torch.rand(()) < 0.5:", "scale = 2"),
        ("scale, count = 1, self.calls\n        if i % 2:", "h = h * 2"),
    ],
)
def test_a_count_that_nothing_reads_and_a_stream_that_is_put_back(
    tmp_path, first, inside, reentrant
):
    assert observed(tmp_path, checkpointed(first, inside, reentrant), steps=3)[0] == []


DEEP = """
import torch
from torch import nn
torch.manual_seed(0)
layers = []
for _ in range(12):
    layers += [nn.Linear(32, 32), nn.{kind}()]
m = nn.Sequential(*layers, nn.Linear(32, 1))
for part in m:
    if isinstance(part, nn.Linear):
        nn.init.{fill}(part.weight)
o = torch.optim.SGD(m.parameters(), {lr})
for _ in range(4):
    o.zero_grad()
    m(torch.randn(64, 32)).square().mean().backward()
    o.step()
"""


@pytest.mark.parametrize(
    ("kind", "fill", "lr", "code", "line"),
    [
        ("Sigmoid", "xavier_normal_", 0.01, "vanishing", "layers += "),
        ("ReLU", "normal_", 1e-30, "exploding", "nn.init."),
        ("ReLU", "normal_", 1.0, "exploding", "nn.init."),  # before it ends in NaN
        ("ReLU", "kaiming_normal_", 0.01, "", ""),
    ],
)
def test_where_gradients_begin_to_vanish_or_explode(
    tmp_path, monkeypatch, kind, fill, lr, code, line
):
    monkeypatch.setattr(trees, "users_files", lambda: list(map(str, tmp_path.glob("*.py"))))
    text = DEEP.replace("{kind}", kind).replace("{fill}", fill).replace("{lr}", str(lr))
    found = observed(tmp_path, text, steps=3)[0]
    assert [f.name.code for f in found][:1] == [code][: len(code)]
    assert all(f.place.text.startswith(line) for f in found[:1])
