"""Sums and their terms: a factor that a term lacks, in a loop as well; where what gives a value and
its gradients is wrong; values that calls share."""

# pyright: reportPrivateUsage=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import verify
from chainrule.verify.finding import Finding
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


rng = np.random.default_rng(21)


def only(report: verify.Report) -> Finding:
    (finding,) = report.findings
    assert finding.correction is not None and finding.correction.rechecked
    return finding


class Logistic:
    """With a penalty on the weights; `grad` says how."""

    def __init__(self) -> None:
        self.params = {"W": rng.normal(size=(4, 3)), "V": rng.normal(size=(3, 2))}
        self.decay = 0.35

    def loss(self, x: Any) -> Any:
        W, V = self.params["W"], self.params["V"]
        h = np.tanh(x @ W)
        y = np.sin(h @ V)
        loss = y.sum() + self.decay * (np.sum(W**2) + np.sum(V**2))
        dy = np.cos(h @ V)
        dh = dy @ V.T * (1 - h**2)
        grads = {"V": h.T @ dy + 2 * self.decay * V, "W": x.T @ dh + 2 * self.decay * W}
        return loss, grads


class Halved(Logistic):
    """The penalty's part of one gradient is half of what it should be."""

    def loss(self, x: Any) -> Any:
        W, V = self.params["W"], self.params["V"]
        h = np.tanh(x @ W)
        y = np.sin(h @ V)
        loss = y.sum() + self.decay * (np.sum(W**2) + np.sum(V**2))
        dy = np.cos(h @ V)
        dh = dy @ V.T * (1 - h**2)
        grads = {}
        grads["V"] = h.T @ dy + self.decay * V
        grads["W"] = x.T @ dh + 2 * self.decay * W
        return loss, grads


def test_a_factor_of_a_term_is_a_factor_there() -> None:
    x = rng.normal(size=(5, 4))
    assert verify.pair(Logistic(), x).ok
    finding = only(verify.pair(Halved(), x))
    assert finding.name.code == "factor"
    assert finding.correction is not None
    assert "self.decay * 2 * V" in finding.correction.after


class Leaky(cr.Function):
    """x' = -sin(w x), in small steps."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, b: Any, dt: float) -> Any:
        x, ctx.w, ctx.dt = x.numpy(), w.numpy(), dt
        ctx.xs = list[Any]()
        for _ in range(3):
            ctx.xs.append(x)
            x = x - dt * np.sin(x * ctx.w + b.numpy())
        ctx.b = b.numpy()
        return cr.tensor(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        d = g.numpy().copy()
        dw, db = np.zeros_like(ctx.w), np.zeros_like(ctx.b)
        for x in reversed(ctx.xs):
            s = -d * np.cos(x * ctx.w + ctx.b)
            dw += ctx.dt * (s * x).sum(axis=0)
            db += ctx.dt * s.sum(axis=0)
            d = d + ctx.dt * s * ctx.w
        return cr.tensor(d), cr.tensor(dw), cr.tensor(db), None


class LeakyWithoutStep(Leaky):
    """A step's length is missing in one of the gradients."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        d = g.numpy().copy()
        dw, db = np.zeros_like(ctx.w), np.zeros_like(ctx.b)
        for x in reversed(ctx.xs):
            s = -d * np.cos(x * ctx.w + ctx.b)
            dw += ctx.dt * (s * x).sum(axis=0)
            db += s.sum(axis=0)
            d = d + ctx.dt * s * ctx.w
        return cr.tensor(d), cr.tensor(dw), cr.tensor(db), None


class Series(cr.Function):
    """A power series in a variable."""

    @staticmethod
    def forward(ctx: Any, x: Any, a: Any) -> Any:
        ctx.save_for_backward(x, a)
        y, power = cr.zeros_like(x), cr.ones_like(x)
        for n in range(a.shape[0]):
            y = y + a[n] * power
            power = power * x
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, a = ctx.saved_tensors
        slope, power, of_a = cr.zeros_like(x), cr.ones_like(x), [g.sum()]
        for n in range(1, a.shape[0]):
            slope = slope + n * a[n] * power
            power = power * x
            of_a.append((g * power).sum())
        return g * slope, cr.stack(of_a)


class SeriesWithoutPower(Series):
    """The power's own factor is missing."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, a = ctx.saved_tensors
        slope, power, of_a = cr.zeros_like(x), cr.ones_like(x), [g.sum()]
        for n in range(1, a.shape[0]):
            slope = slope + a[n] * power
            power = power * x
            of_a.append((g * power).sum())
        return g * slope, cr.stack(of_a)


class Gap(cr.Function):
    """The squares of what lies above the row's mean, half of them, of a scaled input."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        p = cr.softmax(x)
        mean = (p * x).sum(axis=-1)
        ctx.save_for_backward(x, p, mean)
        return mean

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, p, mean = ctx.saved_tensors
        dx = p * (1 + x - mean[:, None])
        return g[:, None] * dx


class GapWithoutMean(Gap):
    """What the mean itself brings is missing."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, p, mean = ctx.saved_tensors  # noqa: RUF059  # pyright: ignore[reportUnusedVariable]
        dx = p * (1 + x)
        return g[:, None] * dx


def tensor(*shape: int) -> cr.Tensor:
    return cr.tensor(rng.normal(size=shape), requires_grad=True)


@pytest.mark.parametrize(
    ("right", "wrong", "args", "code", "after"),
    [
        (
            Leaky,
            LeakyWithoutStep,
            (tensor(4, 3), tensor(3), tensor(3), 0.15),
            "factor",
            "db += s.sum(axis=0) * ctx.dt",
        ),
        (
            Series,
            SeriesWithoutPower,
            (tensor(3, 4), tensor(5)),
            "factor",
            "slope = slope + n * a[n] * power",
        ),
        (Gap, GapWithoutMean, (tensor(3, 5),), "missing_term", "dx = p * (1 + x - mean[:, None])"),
    ],
    ids=["beside", "turns", "kept"],
)
def test_an_edit_stands_where_the_value_is_computed(
    right: Any, wrong: Any, args: tuple[Any, ...], code: str, after: str
) -> None:
    assert verify.function(right, *args).ok
    finding = only(verify.function(wrong, *args))
    assert finding.name.code == code
    assert finding.correction is not None
    assert finding.correction.after.strip() == after


class Windows(cr.Function):
    """Sums over windows of an image's rows that overlap."""

    @staticmethod
    def forward(ctx: Any, x: Any, step: int, wide: int) -> Any:
        x = x.numpy()
        ctx.shape, ctx.step, ctx.wide = x.shape, step, wide
        count = (x.shape[1] - wide) // step + 1
        return cr.tensor(np.stack([x[:, i * step :][:, :wide].sum(1) for i in range(count)], 1))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        g, step, wide = g.numpy(), ctx.step, ctx.wide
        dx = np.zeros(ctx.shape)
        for j in range(wide):
            dx[:, j : j + step * g.shape[1] : step][:, : g.shape[1]] += g
        return cr.tensor(dx), None, None


class WindowsOfStep(Windows):
    """Only as many elements of a window as a step has get a gradient."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        g, step, wide = g.numpy(), ctx.step, ctx.wide
        assert wide >= step
        dx = np.zeros(ctx.shape)
        for j in range(step):
            dx[:, j : j + step * g.shape[1] : step][:, : g.shape[1]] += g
        return cr.tensor(dx), None, None


def test_turns_that_are_left_out_leave_a_region_out() -> None:
    x = tensor(2, 13)
    assert verify.function(Windows, x, 2, 5).ok
    finding = only(verify.function(WindowsOfStep, x, 2, 5))
    assert finding.name.code == "region"
    assert finding.correction is not None
    assert finding.correction.after.strip() == "for j in range(wide):"


class Shared(cr.Function):
    """It keeps what it computes for all calls."""

    slope: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = cr.tanh(x)
        Shared.slope = 1 - y * y
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        del ctx
        return g * Shared.slope


def test_what_calls_share_is_told_where_it_is_kept() -> None:
    (finding,) = verify.function(Shared, tensor(4, 3)).findings
    assert finding.name.code == "stale"
    assert finding.place is not None
    assert finding.place.text == "Shared.slope = 1 - y * y"


class Hinge:
    """The class of the label should be ahead of the others."""

    def __init__(self) -> None:
        self.params = {"W": rng.normal(size=(5, 4)), "b": rng.normal(size=4)}

    def loss(self, x: Any, label: Any) -> Any:
        rows = np.arange(len(x))
        s = x @ self.params["W"] + self.params["b"]
        behind = np.maximum(0, s - s[rows, label][:, None] + 1.2)
        behind[rows, label] = 0
        loss = behind.sum()
        ds = np.where(behind > 0, 1.0, 0.0)
        grads = {
            "W": x.T @ ds,
            "b": ds.sum(axis=0),
        }
        return loss, grads


def test_without_an_edit_the_line_is_one_of_the_gradients() -> None:
    x, label = rng.normal(size=(7, 5)), rng.integers(0, 4, size=7)
    found = verify.pair(Hinge(), x, label).findings
    assert [f.name.code for f in found] == ["missing_term"] * 2
    for f in found:
        assert f.place is not None
        assert "ds" in f.place.text
