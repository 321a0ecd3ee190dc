"""Training loops of chainrule's own tensors: mistakes found, right ones left alone."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.verify.training.watched import watching


class Net(nn.Module):
    def __init__(self):
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.b(self.a(x).tanh())


def data():
    rng = np.random.default_rng(0)
    return cr.tensor(rng.normal(size=(16, 4))), cr.tensor(rng.normal(size=(16, 1)))


def loss_of(m, x, y):
    return ((m(x) - y) ** 2).mean()


def codes(loop):
    with watching() as report:
        loop()
    assert not [s for s in report.ledger.skipped if "error of the verifier" in s.why]
    return [f.name.code for f in report.findings if f.level != "note"]


def good(steps=4, reset=True, misplaced=False, replaced=False):
    m, (x, y) = Net(), data()
    o = optim.Adam(m.parameters(), lr=1e-2)
    if replaced:
        m = Net()
    for _ in range(steps):
        if reset and not misplaced:
            o.zero_grad()
            m.zero_grad()
        loss_of(m, x, y).backward()
        if misplaced:
            o.zero_grad()
        o.step()


def test_a_loop_that_is_right():
    assert codes(good) == []


def test_not_reset():
    assert codes(lambda: good(reset=False)) == ["not_reset"]


def test_reset_misplaced():
    assert codes(lambda: good(misplaced=True)) == ["reset_misplaced"]


def test_optimizer_of_another_model():
    assert "not_optimized" in codes(lambda: good(replaced=True))


def test_first_nan():
    def loop():
        m, (x, y) = Net(), data()
        o = optim.SGD(m.parameters(), lr=0.1)
        for _ in range(3):
            o.zero_grad()
            p = m(x)
            ((p - p).sqrt() + p - y).mean().backward()
            o.step()

    assert codes(loop) == ["first_bad"]


def test_gan():
    def loop():
        g, d = Net(), Net()
        og, od = optim.Adam(g.parameters(), lr=1e-3), optim.Adam(d.parameters(), lr=1e-3)
        x, _ = data()
        for _ in range(4):
            fake = g(x) * cr.tensor(np.ones((16, 4)))
            od.zero_grad()
            (d(fake.detach()) - d(x)).mean().backward()
            od.step()
            og.zero_grad()
            (-d(fake).mean()).backward()
            og.step()

    assert codes(loop) == []


@pytest.mark.parametrize("reset", [True, False])
def test_results_are_the_same(reset):
    def run():
        m, (x, y) = Net(), data()
        for i, p in enumerate(m.parameters()):
            p.data = np.full(p.shape, 0.1 * (i + 1))
        o = optim.SGD(m.parameters(), lr=0.1)
        for _ in range(4):
            if reset:
                o.zero_grad()
            loss_of(m, x, y).backward()
            o.step()
        return [p.detach().numpy() for p in m.parameters()]

    plain = run()
    with watching():
        seen = run()
    assert all(np.array_equal(a, b) for a, b in zip(plain, seen, strict=True))
