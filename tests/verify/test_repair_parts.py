"""What is a part of something: numbers of a turn of a loop, one of two bounds, one of two slices,
one of two sums that are called alike, a gradient in a dict that nobody fills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import chainrule as cr
from chainrule import tensor, verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


Array = Any


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def repaired(report: Any, line: str) -> None:
    """The first finding has a correction that puts `line` into the code, and was tried."""
    finding = report.findings[0]
    assert finding.correction is not None and finding.correction.rechecked
    assert line in (finding.correction.after or ""), str(report)


def charged(places: Array, charges: Array) -> Any:
    n, energy, grad = len(places), 0.0, np.zeros_like(places)
    for i in range(n):
        for j in range(i):
            d = places[i] - places[j]
            r2 = d @ d
            r = np.sqrt(r2)
            energy += charges[i] * charges[j] / r + r2 * r2
            slope = 4 * r2
            slope -= charges[i] * charges[j] / r2
            grad[i] += slope * d
            grad[j] -= slope * d
    return energy, grad


def test_a_factor_that_each_turn_has_as_a_number() -> None:
    places = np.array([[0, 0, 0], [1.3, 0, 0], [0, 1.4, 0], [0, 0, 1.5], [1.3, 1.3, 1.2]])
    charges = np.array([1.0, -1.0, 0.5, -0.8, 0.6])
    repaired(verify.pair(charged, places + 0.1 * draw(5, 3), charges), "/ r2 / r")


def rotated(x: Array, angle: Array) -> Any:
    y = np.empty_like(x)
    c, s = np.cos(angle), np.sin(angle)
    y[:, 0::2] = x[:, 0::2] * c - x[:, 1::2] * s
    y[:, 1::2] = x[:, 0::2] * s + x[:, 1::2] * c
    return y


def rotated_back(g: Array, x: Array, angle: Array) -> Any:
    y, c, s = rotated(x, angle), np.cos(angle), np.sin(angle)
    dx = np.empty_like(g)
    dx[:, 0::2] = g[:, 0::2] * c + g[:, 1::2] * s
    dx[:, 1::2] = g[:, 1::2] * c - g[:, 0::2] * s
    even, odd = g[:, 0::2], g[:, 1::2]
    return dx, (odd * y[:, 1::2] - even * y[:, 0::2]).sum(0)


def test_two_parts_of_an_array_that_change_places() -> None:
    report = verify.pair(rotated, rotated_back, draw(5, 6), draw(3, seed=1))
    repaired(report, "odd * y[:, 0::2] - even * y[:, 1::2]")


class Bound(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Any, low: float, high: float) -> Any:
        ctx.save_for_backward(u)
        ctx.low, ctx.high = low, high
        return u.clamp(low, high)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (u,) = ctx.saved_tensors
        inside = u < ctx.high
        return g * inside, None, None


def test_one_of_two_bounds_is_missing_in_the_backward_not_in_what_is_kept() -> None:
    u = torch.tensor(2 * draw(5, 3), requires_grad=True)
    repaired(verify.function(Bound, u, -1.0, 1.0), "(u < ctx.high) & (u > ctx.low)")


def huber(x: Array, delta: float) -> Any:
    a = np.abs(x)
    return np.where(a <= delta, 0.5 * x * x, delta * (a - 0.5 * delta))


def huber_back(g: Array, x: Array, delta: float) -> Any:
    slope = np.minimum(x, delta)
    return g * slope


def test_a_value_that_is_cut_off_at_one_end_only() -> None:
    report = verify.pair(huber, huber_back, 2 * draw(5, 3), 1.0)
    repaired(report, "np.clip(x, -delta, delta)")


class Huber(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, delta: float) -> Any:
        ctx.save_for_backward(x)
        ctx.delta = delta
        return torch.where(x.abs() <= delta, 0.5 * x * x, delta * (x.abs() - 0.5 * delta))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.clamp(max=ctx.delta), None


def test_a_tensor_that_is_clamped_at_one_end_only() -> None:
    x = torch.tensor(2 * draw(5, 3), requires_grad=True)
    repaired(verify.function(Huber, x, 1.0), "x.clip(-ctx.delta, ctx.delta)")


def gated(x: Array) -> Any:
    d = x.shape[1] // 2
    return x[:, :d] * np.tanh(x[:, d:])


def gated_back(g: Array, x: Array) -> Any:
    d = x.shape[1] // 2
    t = np.tanh(x[:, d:])
    return np.concatenate([g * t, g * x[:, d:] * (1 - t * t)], axis=1)


def test_the_other_half_is_read() -> None:
    repaired(verify.pair(gated, gated_back, draw(5, 6)), "g * x[:, :d] * (1 - t * t)")


def pooled(x: Array) -> Any:
    return np.concatenate([x.mean(1), x[:, 0], x[:, -1]], axis=1)


def pooled_back(g: Array, x: Array) -> Any:
    d = x.shape[2]
    mean, first = g[:, :d], g[:, d : 2 * d]
    last = g[:, d : 2 * d]
    dx = np.repeat(mean[:, None], x.shape[1], axis=1) / x.shape[1]
    dx[:, 0] += first
    dx[:, -1] += last
    return dx


def test_the_slice_after_the_one_that_is_read() -> None:
    repaired(verify.pair(pooled, pooled_back, draw(5, 4, 3)), "last = g[:, 2 * d:]")


def tied(x: Array, w: Array) -> Any:
    return np.tanh(x @ w.T) @ w


def tied_back(g: Array, x: Array, w: Array) -> Any:
    h = np.tanh(x @ w.T)
    dw_dec = h.T @ g  # noqa: F841
    dz = (g @ w.T) * (1 - h * h)
    dw_enc = dz.T @ x
    dx = dz @ w
    return dx, dw_enc


def test_two_sums_that_are_called_parts_of_one_are_added_where_one_is_returned() -> None:
    report = verify.pair(tied, tied_back, draw(5, 3), draw(4, 3, seed=1))
    repaired(report, "return dx, dw_enc + dw_dec")
    assert report.findings[0].place is not None
    assert report.findings[0].place.text.strip() == "return dx, dw_enc"


def log_softmax(z: Array) -> Any:
    moved = z - z.max(1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(1, keepdims=True))


def log_softmax_back(g: Array, z: Array) -> Any:
    p = np.exp(log_softmax(z))
    total = g.sum(1, keepdims=True)
    inner = (g * p).sum(1, keepdims=True)
    return g - p * (total - inner)


def test_what_is_subtracted_is_no_wrong_sign() -> None:
    repaired(verify.pair(log_softmax, log_softmax_back, draw(5, 3)), "return g - p * total")


class Places:
    """Gradients are left in a dict; that of b is not."""

    def __init__(self) -> None:
        self.params = {"W": draw(4, 3), "b": draw(4, seed=1)}
        self.grads: dict[str, Any] = {}

    def forward(self, x: Array) -> Any:
        self.x = x
        return x @ self.params["W"].T + self.params["b"]

    def backward(self, g: Array) -> Any:
        self.grads = {"W": g.T @ self.x}
        return g @ self.params["W"]


def test_a_dropped_gradient_is_put_where_the_others_are() -> None:
    report = verify.pair(Places(), draw(5, 3))
    repaired(report, '"b": g.sum(axis=0)}')
    assert report.findings[0].place is not None
    assert "self.grads = " in report.findings[0].place.text


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


def test_a_layer_whose_backward_raises_is_mended() -> None:
    report = verify.pair(Broken(), draw(5, 3))
    repaired(report, "self.dW = dz.T @ self.x")
    assert report.findings[0].name.code == "raises"


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


def spread_power(x: Array) -> Any:
    return (x**2).mean(axis=1)


def spread_power_back(g: Array, x: Array) -> Any:
    n = len(x)
    coef = (2.0 / n) * g
    return coef[:, None] * x


def test_another_length_is_written_where_it_gets_its_name() -> None:
    finding = verify.pair(spread_power, spread_power_back, draw(5, 3)).findings[0]
    assert finding.place is not None and finding.place.text.strip() == "n = len(x)"


class Sharp(torch.autograd.Function):
    """Both x and y are kept, and y is read where x belongs."""

    @staticmethod
    def forward(ctx: Any, x: Any, sharp: float) -> Any:
        bx = sharp * x
        y = torch.logaddexp(bx, torch.zeros_like(bx)) / sharp
        ctx.save_for_backward(x, y)
        ctx.sharp = sharp
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors  # noqa: RUF059
        return g * torch.sigmoid(ctx.sharp * y), None


def test_of_two_kept_values_the_other_one_is_read() -> None:
    x = torch.tensor(draw(5, 3), requires_grad=True)
    repaired(verify.function(Sharp, x, 3.0), "torch.sigmoid(ctx.sharp * x)")
