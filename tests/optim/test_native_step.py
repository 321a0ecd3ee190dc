"""Steps of optimizers that are kernels, on long vectors: the same as the rules in NumPy."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.optim import native_step
from chainrule.optim.update_rule import NotNegative
from tests.optim.optimizers import ROWS

SHAPES = [(70, 80), (31,), (4100,), (5, 6)]
"""Two that stand alone where vectors of 4,096 numbers are large, and two that share a bucket."""


def trained(name: str, dtype: Any, steps: int = 5) -> list[Any]:
    """Parameters and all that is remembered after some steps, in which the rate changes."""
    kind, settings = ROWS[name]
    rng = np.random.default_rng(3)
    params = [cr.tensor(rng.normal(size=s).astype(dtype), requires_grad=True) for s in SHAPES]
    optimizer = getattr(cr.optim, kind)(params, **settings)
    for k in range(steps):
        for p in params:
            p.grad = cr.asarray(rng.normal(size=p.shape).astype(dtype))
        optimizer.param_groups[0]["lr"] *= 1 - 0.1 * k
        optimizer.step()
    states = [v for s in optimizer.state_dict()["state"].values() for v in s.values()]
    return [np.asarray(cr.asarray(x).detach()) for x in (*params, *states)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [n for n in ROWS if ROWS[n][0] not in ("Muon", "Adafactor")])
def test_a_kernel_does_what_the_rule_does(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(native_step, "LEAST", 1)
    ours, again = trained(name, dtype), trained(name, dtype)
    monkeypatch.setattr(native_step, "LEAST", 1 << 60)
    near = 50 * np.finfo(dtype).eps
    for a, b, plain in zip(ours, again, trained(name, dtype), strict=True):
        assert a.tobytes() == b.tobytes() and a.dtype == plain.dtype
        np.testing.assert_allclose(a, plain, rtol=near, atol=near)


def test_what_is_too_small_becomes_0(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(native_step, "LEAST", 1)
    p = cr.tensor(np.ones(40, np.float32), requires_grad=True)
    optimizer = cr.optim.Adam([p], lr=1e-3)
    p.grad = cr.asarray(np.full(40, 1e-18, np.float32))
    optimizer.step()
    assert not np.asarray(optimizer.state_dict()["state"][0]["exp_avg_sq"]).any()
    assert np.asarray(optimizer.state_dict()["state"][0]["exp_avg"]).all()


def test_whoever_sees_an_array_keeps_its_numbers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(native_step, "LEAST", 1)
    p = cr.tensor(np.ones(40, np.float32), requires_grad=True)
    optimizer = cr.optim.SGD([p], lr=0.5)
    for _ in range(3):
        before, gradient = p.detach(), cr.asarray(np.full(40, 2, np.float32))
        copy = np.array(before)
        p.grad = gradient
        optimizer.step()
        np.testing.assert_array_equal(before, copy)
        np.testing.assert_array_equal(gradient, np.full(40, 2, np.float32))
        np.testing.assert_array_equal(p.detach(), copy - 1)


class Signs(cr.optim.UpdateRule):
    """A rule that is not of this package."""

    _: KW_ONLY
    lr: NotNegative = 0.1

    def follow(self, group: Any, step: int, p: Any, g: Any, state: Any) -> None:
        """A step of one size."""
        assert isinstance(p, np.ndarray)
        p -= group["lr"] * np.sign(g)


def test_rules_of_users_run_in_numpy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(native_step, "LEAST", 1)
    p = cr.tensor(np.ones(40, np.float32), requires_grad=True)
    p.grad = cr.asarray(np.ones(40, np.float32))
    Signs([p]).step()
    np.testing.assert_allclose(p.detach(), np.full(40, 0.9), rtol=1e-6)
