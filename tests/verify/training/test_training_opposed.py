"""Losses that work against each other: what one leaves in the gradients of the other's step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import chainrule as cr
from chainrule import nn as own_nn
from chainrule import optim
from chainrule.verify.script.sandbox.fork import can_fork
from chainrule.verify.training.watching import watching
from tests.verify.script.test_script_again import observed


def codes(loop):
    with watching() as report:
        loop()
    assert not [s for s in report.ledger.skipped if "error of the verifier" in s.why]
    return [f.name.code for f in report.findings if f.level != "note"]


def against(score, target):
    return nn.functional.binary_cross_entropy_with_logits(score, torch.full_like(score, target))


def hinge(score, target):
    return nn.functional.relu(1 - score).mean() if target else nn.functional.relu(1 + score).mean()


def distance(score, target):
    return -score.mean() if target else score.mean()


class Gan:
    """A generator and a discriminator, each with its optimizer, and how they are trained."""

    def __init__(self, loss=against, make=torch.optim.Adam):
        torch.manual_seed(0)
        self.made = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.seen = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
        self.a, self.b = [make(m.parameters(), lr=1e-3) for m in (self.made, self.seen)]
        self.loss = loss

    def fake(self):
        return self.made(torch.randn(32, 4))

    def judges(self, fake):
        real = self.loss(self.seen(torch.randn(32, 2)), 1.0)
        (real + self.loss(self.seen(fake), 0.0)).backward(retain_graph=True)
        self.b.step()

    def makes(self, fake):
        self.loss(self.seen(fake), 1.0).backward()
        self.a.step()


def reset_at_the_top(gan):
    for _ in range(4):
        gan.a.zero_grad()
        gan.b.zero_grad()
        gan.judges(gan.fake())
        gan.makes(gan.fake())


def reset_behind_the_step(gan):
    for _ in range(4):
        gan.b.zero_grad()
        gan.judges(gan.fake())
        gan.makes(gan.fake())
        gan.a.zero_grad()


def often(gan):
    for _ in range(4):
        gan.a.zero_grad()
        for _ in range(3):
            gan.b.zero_grad()
            gan.judges(gan.fake())
        gan.makes(gan.fake())


@pytest.mark.parametrize("loss", [against, hinge, distance])
@pytest.mark.parametrize("loop", [reset_at_the_top, reset_behind_the_step, often])
def test_a_generator_takes_the_gradient_of_the_discriminators_loss(loop, loss):
    assert codes(lambda: loop(Gan(loss))) == ["not_reset"]


def detached(gan):
    for _ in range(4):
        gan.a.zero_grad()
        gan.b.zero_grad()
        gan.judges(gan.fake().detach())
        gan.makes(gan.fake())


def reset_between(gan):
    for _ in range(4):
        gan.b.zero_grad()
        gan.judges(gan.fake())
        gan.a.zero_grad()
        gan.makes(gan.fake())


def reset_by_hand(gan):
    for _ in range(4):
        gan.b.zero_grad()
        gan.judges(gan.fake())
        for p in gan.made.parameters():
            p.grad = None
        gan.makes(gan.fake())


def generator_first(gan):
    for _ in range(4):
        fake = gan.fake()
        gan.a.zero_grad()
        gan.makes(fake)
        gan.b.zero_grad()
        gan.judges(gan.fake())


def together(gan):
    """One game that both want to win: what the first loss leaves is meant."""
    for _ in range(4):
        gan.a.zero_grad()
        gan.b.zero_grad()
        for optimizer in (gan.b, gan.a):
            (gan.seen(gan.fake()) - 1.0).square().mean().backward()
            optimizer.step()


@pytest.mark.parametrize(
    "loop", [detached, reset_between, reset_by_hand, generator_first, together]
)
def test_what_is_reset_or_meant_is_no_mistake(loop):
    assert "not_reset" not in codes(lambda: loop(Gan()))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_two_heads_on_one_body_are_no_mistake(sign):
    """Each of the losses is used by all whom it reaches, even if they disagree."""

    def loop():
        torch.manual_seed(0)
        body, one, two = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
        two.load_state_dict({k: sign * v for k, v in one.state_dict().items()})
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (body, one, two)]
        x = torch.randn(16, 4)
        for _ in range(4):
            for optimizer in optimizers:
                optimizer.zero_grad()
            h = body(x).tanh()
            one(h).mean().backward(retain_graph=True)
            optimizers[1].step()
            two(h).mean().backward()
            optimizers[2].step()
            optimizers[0].step()

    assert codes(loop) == []


@pytest.mark.parametrize("detached", [False, True])
def test_in_chainrule(detached):
    class Net(own_nn.Module):
        def __init__(self, n, m):
            self.a, self.b = own_nn.Linear(n, 8), own_nn.Linear(8, m)

        def forward(self, x):
            return self.b(self.a(x).tanh())

    def loop():
        cr.manual_seed(0)
        rng = np.random.default_rng(0)
        made, seen = Net(4, 2), Net(2, 1)
        a, b = [optim.Adam(m.parameters(), lr=1e-3) for m in (made, seen)]
        draw = lambda n: cr.tensor(rng.normal(size=(32, n)), dtype=cr.float32)
        for _ in range(4):
            a.zero_grad()
            b.zero_grad()
            fake = made(draw(4))
            fake = fake.detach() if detached else fake
            (seen(fake).mean() - seen(draw(2)).mean()).backward()
            b.step()
            (-seen(made(draw(4))).mean()).backward()
            a.step()

    assert codes(loop) == ([] if detached else ["not_reset"])


SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
made = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
seen = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
a = torch.optim.Adam(made.parameters(), lr=1e-3)
b = torch.optim.Adam(seen.parameters(), lr=1e-3)
loss = nn.BCEWithLogitsLoss()
one, zero = torch.ones(32, 1), torch.zeros(32, 1)
for _ in range(5):
    a.zero_grad()
    b.zero_grad()
    fake = made(torch.randn(32, 4))
    judged = loss(seen(torch.randn(32, 2)), one) + loss(seen(fake), zero)
    judged.backward()
    b.step()
    won = loss(seen(made(torch.randn(32, 4))), one)
    won.backward()
    a.step()
"""


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
def test_the_reset_is_tried(tmp_path):
    found, _, _ = observed(tmp_path, SCRIPT)
    (one,) = [f for f in found if f.level != "note"]
    assert one.place.text == "won.backward()"
    assert one.correction.after.splitlines()[0].strip() == "a.zero_grad()"
    assert one.correction.rechecked
