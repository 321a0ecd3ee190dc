"""How hand-written backwards are called: caches, several cotangents, labels, losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)

rng = np.random.default_rng(23)


def draw(*shape: int) -> Any:
    return rng.standard_normal(shape)


def found(forward: Any, backward: Any, *args: Any) -> Any:
    """The first finding, whose correction was run and is right."""
    report = verify.pair(forward, backward, *args)
    assert not report.ok, "nothing was found"
    finding = report.findings[0]
    assert finding.correction is not None and finding.correction.after, str(report)
    assert finding.correction.rechecked
    return finding


def sigmoid(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


def lstm(x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
    n = h.shape[1]
    a = x @ w + h @ u
    i, f, o = sigmoid(a[:, :n]), sigmoid(a[:, n : 2 * n]), sigmoid(a[:, 2 * n : 3 * n])
    m = np.tanh(a[:, 3 * n :])
    cn = f * c + i * m
    return o * np.tanh(cn), cn, (x, h, c, w, u, i, f, o, m, cn)


def lstm_backward(dh: Any, dcn: Any, cache: Any) -> Any:
    x, h, c, w, u, i, f, o, m, cn = cache
    t = np.tanh(cn)
    do = dh * t
    dcn = dcn + dh * o * (1 - t**2)
    di, df, dm, dc = dcn * m, dcn * c, dcn * i, dcn * f
    gates = [di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dm * (1 - m**2)]
    da = np.concatenate(gates, axis=1)
    return da @ w.T, da @ u.T, dc, x.T @ da, h.T @ da


def test_two_cotangents_and_a_cache_are_understood() -> None:
    args = draw(2, 3), draw(2, 2), draw(2, 2), draw(3, 8), draw(2, 8)
    assert verify.pair(lstm, lstm_backward, *args).ok


def saved(x: Any) -> Any:
    out = sigmoid(x)
    return out, x


def saved_backward(g: Any, out: Any) -> Any:
    return g * out * (1 - out)


def test_what_is_returned_for_the_backward_is_what_it_gets() -> None:
    finding = found(saved, saved_backward, draw(3, 4))
    assert finding.name.code == "wrong_value"
    assert finding.correction.after.strip() == "return out, out"


def squared_error(prediction: Any, target: Any) -> Any:
    return ((prediction - target) ** 2).mean(axis=1)


def half_squared_error_backward(g: Any, prediction: Any, target: Any) -> Any:
    d = (prediction - target) * g[:, None] / target.shape[1]
    return d, -d


def test_a_loss_at_its_minimum_is_put_right_where_it_is_not() -> None:
    same = draw(3, 4)
    finding = found(squared_error, half_squared_error_backward, same, same.copy())
    assert finding.name.code == "factor"


"""A loop's counter, say: no part of the mathematics around it."""


def halved(x: Any) -> Any:
    return 0.5 * x * np.sin(x)


def halved_back(g: Any, x: Any) -> Any:
    return (g * (np.sin(x) + x * np.cos(x)),)


def test_what_neither_pass_uses_corrects_nothing():
    (found,) = verify.pair(halved, halved_back, np.linspace(0.3, 2.0, 12).reshape(4, 3)).findings
    assert found.correction is not None and found.correction.rechecked
    assert "turn" not in found.correction.after.replace("return", "")
