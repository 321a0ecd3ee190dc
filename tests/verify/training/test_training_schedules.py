"""Schedules whose length is in epochs and whose steps are batches, and the other way round."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.optim import lr_scheduler as s

from tests.sampling import sampled_file
from tests.verify.training.test_training_right import observed

pytestmark = sampled_file(one_in=4)

EPOCHS, BATCHES = 6, 4
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
LOADER = [X[k : k + 2] for k in range(0, 8, 2)]


def fit(model, optimizer, x):
    optimizer.zero_grad()
    F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()


def per_batch(make, epochs=EPOCHS):
    m = nn.Linear(3, 1)
    o = torch.optim.SGD(m.parameters(), 0.1)
    schedule = make(o)
    for _ in range(epochs):
        for x in LOADER:
            fit(m, o, x)
            schedule.step()


def per_epoch(make, epochs=EPOCHS, seen=EPOCHS):
    m = nn.Linear(3, 1)
    o = torch.optim.SGD(m.parameters(), 0.1)
    schedule = make(o)
    for epoch in range(epochs):
        for _, x in enumerate(LOADER):
            fit(m, o, x)
        schedule.step()
        if epoch + 1 == seen:
            return


def long_epochs(make):
    """The first epoch is not over when it is judged."""
    m = nn.Linear(3, 1)
    o = torch.optim.SGD(m.parameters(), 0.1)
    schedule = make(o)
    data = 15 * LOADER
    for _epoch in range(EPOCHS):
        for k, x in enumerate(data):
            fit(m, o, x)
            if k == 9:
                return
        schedule.step()


def late_batches(make):
    m = nn.Linear(3, 1)
    o = torch.optim.SGD(m.parameters(), 0.1)
    schedule = make(o)
    data = 15 * LOADER
    for _epoch in range(EPOCHS):
        for k, x in enumerate(data):
            fit(m, o, x)
            if k > 12:
                schedule.step()
            if k == 9:
                return


def stopped_early(make):
    """Training ends before its schedule does."""
    m = nn.Linear(3, 1)
    o = torch.optim.SGD(m.parameters(), 0.1)
    schedule = make(o)
    for epoch in range(EPOCHS):
        for x in LOADER:
            fit(m, o, x)
            schedule.step()
        if epoch == 1:
            break


def in_a_function(make):
    """The loop over batches is in a function of its own."""
    m = nn.Linear(3, 1)
    o = torch.optim.SGD(m.parameters(), 0.1)
    schedule = make(o)

    def epoch():
        for x in LOADER:
            fit(m, o, x)
            schedule.step()

    for _ in range(EPOCHS):
        epoch()


WRONG = {
    "cosine": lambda: per_batch(lambda o: s.CosineAnnealingLR(o, T_max=EPOCHS)),
    "steps": lambda: per_batch(lambda o: s.StepLR(o, 2, gamma=0.1)),
    "powers": lambda: per_batch(lambda o: s.ExponentialLR(o, 0.5)),
    "linear": lambda: per_batch(lambda o: s.LinearLR(o, 1.0, 0.1, total_iters=EPOCHS)),
    "milestones": lambda: per_batch(lambda o: s.MultiStepLR(o, [3, 5])),
    "a function": lambda: in_a_function(lambda o: s.CosineAnnealingLR(o, EPOCHS)),
    "cosine over batches": lambda: per_epoch(
        lambda o: s.CosineAnnealingLR(o, T_max=EPOCHS * BATCHES)),
    "one cycle per epoch": lambda: per_epoch(
        lambda o: s.OneCycleLR(o, 0.1, total_steps=EPOCHS * BATCHES)),
    "one cycle, an epoch seen": lambda: per_epoch(
        lambda o: s.OneCycleLR(o, 0.1, epochs=EPOCHS, steps_per_epoch=BATCHES), seen=1),
    "one cycle, no epoch seen": lambda: long_epochs(
        lambda o: s.OneCycleLR(o, 0.1, epochs=EPOCHS, steps_per_epoch=15 * BATCHES)),
}  # fmt: skip
RIGHT = {
    "cosine over all batches": lambda: per_batch(
        lambda o: s.CosineAnnealingLR(o, T_max=EPOCHS * BATCHES)),
    "warm up over some batches": lambda: per_batch(
        lambda o: s.LinearLR(o, 0.1, 1.0, total_iters=10)),
    "slow powers": lambda: per_batch(lambda o: s.ExponentialLR(o, 0.99)),
    "steps over many batches": lambda: per_batch(lambda o: s.StepLR(o, 12, gamma=0.1)),
    "a cycle that is stopped early": lambda: stopped_early(
        lambda o: s.OneCycleLR(o, 0.1, epochs=EPOCHS, steps_per_epoch=BATCHES)),
    "an epoch is long": lambda: long_epochs(lambda o: s.CosineAnnealingLR(o, EPOCHS)),
    "a late beginning": lambda: late_batches(
        lambda o: s.CosineAnnealingLR(o, EPOCHS * 15 * BATCHES)),
    "restarts": lambda: per_batch(lambda o: s.CosineAnnealingWarmRestarts(o, BATCHES)),
    "epochs": lambda: per_epoch(lambda o: s.CosineAnnealingLR(o, T_max=EPOCHS)),
    "steps of epochs": lambda: per_epoch(lambda o: s.StepLR(o, 2, gamma=0.1)),
    "a longer schedule": lambda: per_epoch(lambda o: s.CosineAnnealingLR(o, T_max=20)),
    "a function of steps": lambda: per_batch(lambda o: s.LambdaLR(o, lambda n: 1 / (1 + n))),
}  # fmt: skip


def said(loop):
    return [f.name.code for f in observed(loop)[0] if f.name.code == "schedule_unit"]


@pytest.mark.parametrize("name", WRONG)
def test_a_schedule_in_another_unit_is_found(name):
    assert said(WRONG[name]) == ["schedule_unit"]


@pytest.mark.parametrize("name", RIGHT)
def test_one_that_fits_is_fine(name):
    assert not said(RIGHT[name])
