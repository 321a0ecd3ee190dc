"""Clipping, schedules and what applies them, looking for a learning rate: PyTorch's numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from tests.optim.optimizer_twins import Twins, leaf, one_step

torch = pytest.importorskip("torch")

# --- Clipping ------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 1e6, 0.0])
def test_clipping_is_pytorchs(max_norm: float, norm_type: float) -> None:
    twins = Twins()
    twins.gradients(skip=(1,))
    ours = optim.clip_grad_norm(twins.ours, max_norm, norm_type)
    theirs = torch.nn.utils.clip_grad_norm_(twins.theirs, max_norm, norm_type)
    assert ours == pytest.approx(theirs.item(), rel=1e-13)
    for a, b in zip(twins.ours, twins.theirs, strict=True):
        if a.grad is None:
            assert b.grad is None
        else:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)
            assert a.grad.dtype == a.dtype


def test_clipping_of_what_is_not_finite() -> None:
    p = leaf(2)
    p.grad = cr.tensor([math.inf, 1.0])
    with pytest.raises(cr.GradientError, match="norm of the gradients is inf"):
        optim.clip_grad_norm(p, 1.0, error_if_nonfinite=True)
    assert optim.clip_grad_norm([p], 1.0) == math.inf
    assert p.grad is not None
    assert math.isnan(p.grad.tolist()[0])
    assert p.grad.tolist()[1] == 0
    assert optim.clip_grad_norm([leaf(2)], 1.0) == 0


def test_clipping_of_float32_does_not_overflow() -> None:
    p = leaf(2)
    p.grad = cr.tensor([3e30, 4e30])
    assert optim.clip_grad_norm(p, 1.0) == pytest.approx(5e30)
    assert p.grad is not None
    np.testing.assert_allclose(p.grad.numpy(), [0.6, 0.8], rtol=1e-6)


# --- Schedules -----------------------------------------------------------------------------------


def _torch_rates(make: Any, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


T = torch.optim.lr_scheduler
SCHEDULES = {
    "linear": (optim.Linear(10, 0.5, 0.1), lambda o: T.LinearLR(o, 0.5, 0.1, 10)),
    "warm-up": (optim.WarmUp(5), lambda o: T.LambdaLR(o, lambda s: min((s + 1) / 5, 1))),
    "constant": (optim.Constant(0.5), lambda o: T.ConstantLR(o, 0.5, 1000)),
    "then": (
        optim.WarmUp(4).then(optim.Linear(8), after=4),
        lambda o: T.LambdaLR(o, lambda s: (s + 1) / 4 if s < 4 else max(1 - (s - 4) / 8, 0)),
    ),
    "step": (optim.Step(7, 0.3), lambda o: T.StepLR(o, 7, 0.3)),
    "multi-step": (optim.MultiStep((3, 11, 12), 0.4), lambda o: T.MultiStepLR(o, [3, 11, 12], 0.4)),
    "exponential": (optim.Exponential(0.9), lambda o: T.ExponentialLR(o, 0.9)),
    "restarts": (
        optim.CosineRestarts(6, end=0.2),
        lambda o: T.CosineAnnealingWarmRestarts(o, 6, eta_min=0.06),
    ),
    "restarts, longer": (
        optim.CosineRestarts(3, 2),
        lambda o: T.CosineAnnealingWarmRestarts(o, 3, 2),
    ),
    "one cycle": (optim.OneCycle(26), lambda o: T.OneCycleLR(o, 0.3, 26)),
    "one cycle, lines": (
        optim.OneCycle(26, 1 / 10, 1 / 1000, 0.4, "linear"),
        lambda o: T.OneCycleLR(
            o, 0.3, 26, pct_start=0.4, anneal_strategy="linear", div_factor=10, final_div_factor=100
        ),
    ),
    "one cycle, three phases": (
        optim.OneCycle(26, three_phase=True),
        lambda o: T.OneCycleLR(o, 0.3, 26, three_phase=True),
    ),
    "product": (
        optim.WarmUp(4) * optim.Linear(20),
        lambda o: T.LambdaLR(o, lambda s: min((s + 1) / 4, 1) * max(1 - s / 20, 0)),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_pytorchs(name: str) -> None:
    schedule, make = SCHEDULES[name]
    p = leaf(1)
    optimizer = optim.SGD([p], lr=0.3)
    scheduler = optim.Scheduler(optimizer, schedule)
    rates = []
    for _ in range(25):
        rates.append(optimizer.param_groups[0]["lr"])
        one_step(optimizer, p)
        scheduler.step()
    np.testing.assert_allclose(rates, _torch_rates(make, 25), rtol=1e-12, atol=1e-15)


def test_cosine_is_pytorchs_until_its_end_and_then_stays() -> None:
    ours = [0.3 * optim.Cosine(12, 0.1)(s) for s in range(20)]
    theirs = _torch_rates(lambda o: T.CosineAnnealingLR(o, 12, eta_min=0.03), 13)
    np.testing.assert_allclose(ours[:13], theirs, rtol=1e-12)
    np.testing.assert_allclose(ours[13:], 0.03, rtol=1e-12)


def test_the_momentum_of_one_cycle_is_pytorchs() -> None:
    p, q = leaf(1), torch.zeros(1, requires_grad=True)
    cycle = optim.OneCycle(20, 1, end=1, peak=0.85 / 0.95)
    sgd = optim.SGD([p], 0.1, momentum=0.95)
    adam = optim.Adam([p], 0.1, betas=(0.95, 0.9))
    mine = [optim.Scheduler(sgd, cycle, "momentum"), optim.Scheduler(adam, cycle, "betas")]
    theirs = torch.optim.SGD([q], 0.1, momentum=0.95)
    scheduler = T.OneCycleLR(theirs, 0.1, 20)
    for _ in range(19):
        theirs.step()
        scheduler.step()
        for s in mine:
            s.step()
        wanted = pytest.approx(theirs.param_groups[0]["momentum"], rel=1e-12)
        assert sgd.param_groups[0]["momentum"] == wanted
        assert adam.param_groups[0]["betas"] == (wanted, 0.9)
    with pytest.raises(cr.ConfigError, match="SGD has no setting 'betas'; it has lr, momentum"):
        optim.Scheduler(sgd, cycle, "betas")


PLATEAUS: list[dict[str, Any]] = [
    {},
    {"mode": "max", "patience": 2, "factor": 0.5},
    {"patience": 1, "threshold": 0.05, "threshold_mode": "abs", "cooldown": 2},
    {"patience": 0, "min_lr": 0.02, "factor": 0.3},
]


@pytest.mark.parametrize("settings", PLATEAUS, ids=str)
def test_a_plateau_is_pytorchs(settings: dict[str, Any]) -> None:
    mine, theirs = optim.SGD([leaf(1)], 0.3), torch.optim.SGD([torch.zeros(1)], 0.3)
    a, b = optim.ReduceLROnPlateau(mine, **settings), T.ReduceLROnPlateau(theirs, **settings)
    for i, x in enumerate(np.random.default_rng(0).normal(size=60) + 3):
        if i == 30:
            saved = a.state_dict()
            a = optim.ReduceLROnPlateau(mine, **settings)
            a.load_state_dict(saved)
        a.step(cr.tensor(x))
        b.step(x)
        assert mine.param_groups[0]["lr"] == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-12)
    assert mine.param_groups[0]["lr"] < 0.3


def test_a_scheduler_continues_where_it_was() -> None:
    def make() -> tuple[optim.SGD, optim.Scheduler]:
        groups = [{"params": [leaf(1)]}, {"params": [leaf(1)], "lr": 0.5}]
        optimizer = optim.SGD(groups, lr=0.1)
        return optimizer, optim.Scheduler(optimizer, optim.Cosine(10))

    a, scheduler = make()
    for _ in range(4):
        scheduler.step()
    b, other = make()
    other.load_state_dict(scheduler.state_dict())
    scheduler.step()
    other.step()
    assert [g["lr"] for g in a.param_groups] == [g["lr"] for g in b.param_groups]
    assert a.param_groups[1]["lr"] == pytest.approx(5 * a.param_groups[0]["lr"])
    with pytest.raises(cr.ConfigError, match="1 groups"):
        other.load_state_dict({"step_count": 0, "base_lrs": [0.1]})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: optim.Linear(0), "positive integer"),
        (lambda: optim.Step(0), "Step: steps is a positive integer"),
        (lambda: optim.CosineRestarts(3, 0), "CosineRestarts: steps is a positive integer"),
        (lambda: optim.OneCycle(9, rise=2.0), "OneCycle: rise"),
        (lambda: optim.clip_grad_norm([leaf(2)], -1.0), "max_norm"),
        (lambda: optim.ReduceLROnPlateau(optim.SGD([leaf(1)]), factor=1.0), "factor"),
        (lambda: optim.lr_find(optim.SGD([leaf(1)]), lambda: 0.0, low=2.0), "low < high"),
    ],
)
def test_settings_that_make_no_sense(make: Any, words: str) -> None:
    with pytest.raises(cr.ConfigError, match=words):
        make()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_learning_rate_is_found_and_everything_put_back(compiled: bool) -> None:
    rng = np.random.default_rng(0)
    x, model = cr.tensor(rng.normal(size=(32, 4))), nn.Linear(4, 1, dtype=np.float64)
    optimizer = optim.SGD(model.parameters(), lr=0.3, momentum=0.5)

    def train() -> Any:
        optimizer.zero_grad()
        loss = ((model(x) - 3.0) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    before, saved = model.state_dict(), optimizer.state_dict()
    found = optim.lr_find(optimizer, cr.jit(train) if compiled else train, low=1e-4, high=100.0)
    assert 1e-3 < found.lr < 1
    assert len(found.lrs) == len(found.losses) < 100
    assert found.losses[-1] > 4 * min(found.losses)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name].numpy())
    assert str(optimizer.state_dict()) == str(saved)
