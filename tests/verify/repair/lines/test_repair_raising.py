"""A backward that raises, gradients in a dict that nobody fills, and where signs are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import tensor, verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)

Array = Any


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def repaired(report: Any, line: str) -> None:
    """The first finding has a correction that puts `line` into the code, and was tried."""
    finding = report.findings[0]
    assert finding.correction is not None and finding.correction.rechecked
    assert line in (finding.correction.after or ""), str(report)


class Scaled(cr.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, gain: Any, shift: Any) -> Any:
        ctx.x, ctx.gain = x.numpy(), gain.numpy()
        return ctx.x * ctx.gain + shift.numpy()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        g = g.numpy()
        grads = {"gain": np.zeros_like(ctx.gain), "shift": np.zeros_like(ctx.gain)}
        grads["gain"] += (g * ctx.x).sum(0)
        dx = g * ctx.gain
        return dx, grads["gain"], grads["shift"]


class Distilled(cr.Function):
    """Nothing is derived by the temperature, and it is not plain what that would be."""

    @staticmethod
    def forward(ctx: Any, z: Any, temperature: Any) -> Any:
        t = temperature.numpy()
        e = np.exp(z.numpy() / t)
        ctx.p, ctx.t = e / e.sum(-1, keepdims=True), t
        return tensor(np.log(ctx.p).std(axis=-1) * ctx.p.max(axis=-1))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        p, n = ctx.p, ctx.p.shape[-1]
        logs = np.log(p)
        centred = logs - logs.mean(-1, keepdims=True)
        sd = logs.std(axis=-1, keepdims=True)
        top = p == p.max(-1, keepdims=True)
        g = g.numpy()[..., None]
        most = p.max(-1, keepdims=True)
        dl = g * (centred / (n * sd) * most + sd * most * top)
        return (dl - p * dl.sum(-1, keepdims=True)) / ctx.t, None


@pytest.fixture
def leaves() -> Any:
    return lambda *shapes: [
        cr.tensor(draw(*s, seed=k), requires_grad=True) for k, s in enumerate(shapes)
    ]


def test_a_dict_of_gradients_is_filled_beside_the_others(leaves: Any) -> None:
    repaired(
        verify.function(Scaled, *leaves((5, 3), (3,), (3,))), 'grads["shift"] += g.sum(axis=0)'
    )


def test_a_function_of_arrays_is_derived_all_the_same(leaves: Any) -> None:
    z, _ = leaves((4, 3), ())
    report = verify.function(Distilled, z, cr.tensor(np.array(1.8), requires_grad=True))
    [finding] = [f for f in report.findings if f.input == "temperature"]
    assert finding.correction is not None and finding.correction.rechecked
    assert "without numpy()" in finding.correction.formula or finding.correction.after


class Broken:
    """Its backward raises, where the second parameter's gradient is computed."""

    def __init__(self) -> None:
        self.W, self.V = draw(4, 3), draw(2, 4, seed=1)

    def forward(self, x: Array) -> Any:
        self.x, self.h = x, np.tanh(x @ self.W.T)
        return self.h @ self.V.T

    def backward(self, g: Array) -> Any:
        self.dV = g.T @ self.h
        dz = (g @ self.V) * (1 - self.h**2)
        self.dW = dz @ self.x
        return dz @ self.W


class Unmendable(Broken):
    def backward(self, g: Array) -> Any:
        self.dV = g.T @ self.h
        raise ValueError("no idea")


def test_the_line_that_raises_is_told() -> None:
    [finding] = verify.pair(Unmendable(), draw(5, 3)).findings
    assert finding.name.code == "raises"
    assert finding.place is not None and "no idea" in finding.place.text


def pinball(pred: Array, target: Array) -> Any:
    u = target[:, None] - pred
    return np.where(np.abs(u) <= 1, 0.5 * u * u, np.abs(u) - 0.5)


def pinball_back(g: Array, pred: Array, target: Array) -> Any:
    slope = np.minimum(target[:, None] - pred, 1.0)
    return -g * slope, (g * slope).sum(1)


def test_what_is_positive_is_tried_larger_where_signs_are_asked_for() -> None:
    rng = np.random.default_rng(4)
    report = verify.pair(pinball, pinball_back, rng.uniform(0.2, 1, (4, 3)), rng.uniform(1, 2, 4))
    repaired(report, "np.clip(target[:, None] - pred, -1.0, 1.0)")
