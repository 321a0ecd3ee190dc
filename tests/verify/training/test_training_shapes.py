"""Shapes that broadcast by accident in a difference: said, with both shapes and the line."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import chainrule as cr
from chainrule import nn as own
from chainrule import optim
from chainrule.verify.training.watching import watching

LOSSES = [
    (lambda out, y: ((out - y) ** 2).mean(), 1),
    (lambda out, y: ((out[:, 0] - y) ** 2).mean(), 0),
    (lambda out, y: ((out - y[:, None]) ** 2).mean(), 0),
    (lambda out, y: ((y - out) ** 2).sum(), 1),
]


@pytest.mark.parametrize(("loss", "count"), LOSSES)
def test_in_pytorch(loss, count):
    net, y = nn.Linear(4, 1), torch.randn(8)
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    with watching(sgd) as report:
        for _ in range(3):
            sgd.zero_grad()
            loss(net(torch.randn(8, 4)), y).backward()
            sgd.step()
    check(report, count)


@pytest.mark.filterwarnings("ignore:the difference of shapes")
@pytest.mark.parametrize(("loss", "count"), LOSSES)
def test_in_chainrule(loss, count):
    rng = np.random.default_rng(0)
    net, y = own.Linear(4, 1), cr.tensor(rng.normal(size=8))
    sgd = optim.SGD(net.parameters(), lr=0.01)
    with watching(sgd) as report:
        for _ in range(3):
            sgd.zero_grad()
            loss(net(cr.tensor(rng.normal(size=(8, 4)))), y).backward()
            sgd.step()
    check(report, count)


def check(report, count):
    found = [f for f in report.findings if f.name.code == "broadcast"]
    assert [f.level for f in found] == ["warning"] * count
    for f in found:
        assert "(8, 1)" in f.name.because
        assert "(8,)" in f.name.because
        assert f.place.file == __file__


def pairs(out, y):
    """How far all are from all others, as a distance of two samples has it."""
    p = out.squeeze(1)
    near = (p.unsqueeze(1) - y).abs().mean()
    return near - 0.5 * (p[:, None] - p[None, :]).abs().mean()


MEANT = [
    (pairs, 0),
    (lambda out, y: torch.exp(-((out - y) ** 2)).mean(), 1),
    (lambda out, y: (out.view(8, 1) - y).square().mean(), 1),
    (lambda out, y: (out - y).softmax(1).diagonal().log().mean(), 1),
]


@pytest.mark.parametrize(("loss", "notes"), MEANT)
def test_what_may_be_meant_is_a_note_at_most(loss, notes):
    net, y = nn.Linear(4, 1), torch.randn(8)
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    with watching(sgd) as report:
        for _ in range(3):
            sgd.zero_grad()
            loss(net(torch.randn(8, 4)), y).backward()
            sgd.step()
    found = [f.level for f in report.findings if f.name.code == "broadcast"]
    assert found in ([], ["note"] * notes, ["note"])


def test_centres_are_no_prediction():
    """As many as there are data, by chance."""
    centres = nn.Parameter(torch.randn(8))
    sgd = torch.optim.SGD([centres], 0.01)
    with watching(sgd) as report:
        for _ in range(3):
            sgd.zero_grad()
            ((torch.randn(8, 1) - centres) ** 2).min(1).values.mean().backward()
            sgd.step()
    assert not [f for f in report.findings if f.level != "note" and f.name.code == "broadcast"]
