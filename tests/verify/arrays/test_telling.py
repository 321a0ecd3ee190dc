"""Inputs that are 0 or 1 all over, as they are at first: what is wrong by them shows elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import verify

rng = np.random.default_rng(9)


def test_a_factor_is_missed_where_the_last_matrix_is_zero() -> None:
    """The last factor of an adapter begins as 0, and with it the gradient of the one before."""

    def forward(x: Any, a: Any, b: Any) -> Any:
        return 2.0 * (x @ a) @ b

    def backward(g: Any, x: Any, a: Any, b: Any) -> Any:
        d = g @ b.T
        return 2 * d @ a.T, x.T @ d, 2 * (x @ a).T @ g

    args = rng.normal(size=(4, 5)), rng.normal(size=(5, 3)), np.zeros((3, 5))
    (finding,) = verify.pair(forward, backward, *args).findings
    assert finding.input == "a" and finding.name.code == "factor"
    assert finding.correction is not None and finding.correction.rechecked


def test_the_gradient_of_a_recurrent_matrix_is_seen_though_the_state_begins_with_zeros() -> None:
    def forward(x: Any, h: Any, w: Any, u: Any) -> Any:
        return np.tanh(x @ w + h @ u)

    def backward(g: Any, x: Any, h: Any, w: Any, u: Any) -> Any:
        d = g * (1 - forward(x, h, w, u) ** 2)
        return d @ w.T, d @ u.T, x.T @ d, -h.T @ d

    args = [rng.normal(size=s) for s in ((4, 5), (4, 3), (5, 3), (3, 3))]
    args[1][:] = 0
    (finding,) = verify.pair(forward, backward, *args).findings
    assert finding.input == "u" and finding.name.code == "sign"


def test_a_gain_of_ones_that_is_left_out_is_no_mistake_of_sizes() -> None:
    def forward(x: Any, gain: Any) -> Any:
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True)) * gain

    def backward(g: Any, x: Any, gain: Any) -> Any:
        r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True))
        n, d = x * r, g
        return r * (d - n * (d * n).mean(axis=-1, keepdims=True)), (g * n).sum(axis=0)

    (finding,) = verify.pair(forward, backward, rng.normal(size=(4, 6)), np.ones(6)).findings
    assert finding.input == "x" and finding.name.code != "size"
    assert finding.correction is not None and "g * gain" in finding.correction.after


def test_a_temperature_of_one_hides_nothing() -> None:
    def forward(x: Any, t: Any) -> Any:
        return x / t

    def backward(g: Any, x: Any, t: Any) -> Any:
        return g, -(g * x).sum() / t**2

    (finding,) = verify.pair(forward, backward, rng.normal(size=(4, 6)), np.array(1.0)).findings
    assert finding.input == "x"


def test_a_residual_block_that_begins_as_nothing() -> None:
    """Its path around is put in beside the path through it, which is 0 as captured."""

    def forward(x: Any, w: Any, a: Any) -> Any:
        return x + a * np.tanh(x @ w)

    def backward(g: Any, x: Any, w: Any, a: Any) -> Any:
        h = np.tanh(x @ w)
        d = g * a * (1 - h * h)
        return d @ w.T, x.T @ d, (g * h).sum()

    args = rng.normal(size=(4, 5)), rng.normal(size=(5, 5)), np.array(0.0)
    (finding,) = verify.pair(forward, backward, *args).findings
    assert finding.correction is not None and "d @ w.T + g" in finding.correction.after


def test_right_backwards_of_zeros_and_ones_are_right() -> None:
    def forward(x: Any, gain: Any, bias: Any) -> Any:
        return np.maximum(x * gain + bias, 0)

    def backward(g: Any, x: Any, gain: Any, bias: Any) -> Any:
        d = g * (x * gain + bias > 0)
        return d * gain, (d * x).sum(axis=0), d.sum(axis=0)

    assert verify.pair(forward, backward, rng.normal(size=(4, 6)), np.ones(6), np.zeros(6)).ok
