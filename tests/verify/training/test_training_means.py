"""Passes that are added up, each of a mean over as many elements as it happens to have."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.verify.script.test_script_again import observed

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are not copied here")

START = """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def parts(short=(1, 4, 9), rows=2):
    for n in short:
        x = torch.randint(1, 9, (rows, 10))
        y = (x + 1) % 9
        y[:, n:] = -100
        yield x, y
def left(y):
    return (y != -100).sum()
"""
LOOP = """
for step in range(6):
    chunks = list(parts())
    for i, (x, y) in enumerate(chunks):
        z = net(x)
        {loss}
        loss.backward()
    opt.step()
    opt.zero_grad()
"""
EVERY = """
for step in range(18):
    for x, y in parts(short=(1 + 4 * (step % 3),)):
        (F.cross_entropy(net(x).flatten(0, 1), y.flatten()) / 3).backward()
    if step % 3 == 2:
        opt.step()
        opt.zero_grad()
"""
OBJECT = "measure = nn.NLLLoss()\n" + LOOP.format(
    loss="loss = measure(z.log_softmax(-1).transpose(1, 2), y) / len(chunks)"
)
FUNCTION = LOOP.format(loss="loss = F.cross_entropy(z.transpose(1, 2), y) / len(chunks)")
BY_HAND = LOOP.format(
    loss="each = F.cross_entropy(z.transpose(1, 2), y, reduction='none')\n"
    "        loss = each.sum() / left(y) / len(chunks)"
)
WRONG = {"object": OBJECT, "function": FUNCTION, "by hand": BY_HAND, "without a list": EVERY}
RIGHT = {
    "of all": LOOP.format(
        loss="loss = F.cross_entropy(z.transpose(1, 2), y, reduction='sum') / "
        "sum(left(y) for _, y in chunks)"
    ),
    "weighted": LOOP.format(
        loss="loss = F.cross_entropy(z.transpose(1, 2), y) * left(y) / "
        "sum(left(y) for _, y in chunks)"
    ),
    "of equal counts": FUNCTION.replace("parts()", "parts((4, 4, 4))"),
    "of nearly equal counts": FUNCTION.replace("parts()", "parts((9, 9, 10))"),
    "of one example each": FUNCTION.replace("parts()", "parts(rows=1)"),
    "of another kind": LOOP.format(loss="loss = z[:, : 3 + i].square().mean() / 3"),
    "divided before the step": LOOP.format(
        loss="loss = F.cross_entropy(z.transpose(1, 2), y, reduction='sum')"
    ).replace(
        "    opt.step()", "    for p in net.parameters():\n        p.grad /= 28\n    opt.step()"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mean_of_means_is_told(tmp_path: Path, name: str) -> None:
    findings, _, _ = observed(tmp_path, START + WRONG[name])
    (finding,) = findings
    assert finding.name.code == "accumulation"
    assert finding.place is not None and ".backward()" in finding.place.text
    assert "2, 8, 18" in finding.name.because or name == "without a list"


@pytest.mark.parametrize("name", RIGHT)
def test_counts_that_are_right_or_do_not_matter(tmp_path: Path, name: str) -> None:
    findings, exit_code, _ = observed(tmp_path, START + RIGHT[name])
    assert [f.name.because for f in findings] == []
    assert exit_code == 0
