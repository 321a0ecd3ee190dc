"""Backwards as people write them in a hurry, and what they meant: each was missed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule import verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


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


def lstm_without_tanh(dh: Any, dcn: Any, cache: Any) -> Any:
    x, h, c, w, u, i, f, o, m, cn = cache
    do = dh * np.tanh(cn)
    dcn = dcn + dh * o * (1 - cn**2)
    di, df, dm, dc = dcn * m, dcn * c, dcn * i, dcn * f
    gates = [di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dm * (1 - m**2)]
    da = np.concatenate(gates, axis=1)
    return da @ w.T, da @ u.T, dc, x.T @ da, h.T @ da


def test_a_function_that_is_missing_around_a_value_is_put_there() -> None:
    args = draw(2, 3), draw(2, 2), draw(2, 2), draw(3, 8), draw(2, 8)
    finding = found(lstm, lstm_without_tanh, *args)
    assert finding.name.code == "wrong_value"
    assert "(1 - np.tanh(cn)**2)" in finding.correction.after.replace(" ** ", "**")


def smoothed(z: Any, t: Any) -> Any:
    s = z - z.max(axis=1, keepdims=True)
    logp = s - np.log(np.exp(s).sum(axis=1, keepdims=True))
    q = np.full(z.shape, 0.1 / z.shape[1])
    q[np.arange(len(t)), t] += 0.9
    return -(q * logp).sum() / len(t), (logp, q, t)


def smoothed_backward(g: Any, cache: Any) -> Any:
    logp, q, t = cache  # noqa: RUF059 (the mistake: q is not read)
    d = np.exp(logp)
    d[np.arange(len(t)), t] -= 1
    return g * d / len(t)


def test_labels_that_were_smoothed_are_taken_as_they_are() -> None:
    finding = found(smoothed, smoothed_backward, draw(4, 5), np.array([1, 0, 3, 3]))
    assert finding.correction.after.strip() == "d -= q"


def glu(x: Any) -> Any:
    a, b = np.split(x, 2, axis=-1)
    return a * sigmoid(b)


def glu_backward(g: Any, x: Any) -> Any:
    a, b = np.split(x, 2, axis=-1)
    s = sigmoid(b)
    return np.concatenate([g * a * s * (1 - s), g * s], axis=-1)


def logsumexp(x: Any) -> Any:
    m = x.max(axis=1, keepdims=True)
    return (m + np.log(np.exp(x - m).sum(axis=1, keepdims=True)))[:, 0]


def logsumexp_backward(g: Any, x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return g[:, None] * e


def unit(x: Any) -> Any:
    n = np.sqrt((x * x).sum(axis=1, keepdims=True))
    return x / n


def unit_backward(g: Any, x: Any) -> Any:
    n = np.sqrt((x * x).sum(axis=1, keepdims=True))
    return g / n


def huber(x: Any, d: float = 0.7) -> Any:
    return np.where(abs(x) <= d, 0.5 * x**2, d * (abs(x) - 0.5 * d))


def huber_backward(g: Any, x: Any, d: float = 0.7) -> Any:
    return g * np.where(abs(x) <= d, x, d)


def totals(x: Any) -> Any:
    return np.cumsum(x, axis=-1)


def totals_backward(g: Any) -> Any:
    return g.cumsum(axis=-1)


def dropped(x: Any, w: Any) -> Any:
    kept = np.arange(x.size).reshape(x.shape) % 3 > 0
    return x * kept / 0.6 * w, (kept * 1.0, w, x)


def dropped_backward(g: Any, cache: Any) -> Any:
    kept, w, x = cache
    return g * w, g * x * kept / 0.6


@pytest.mark.parametrize(
    ("forward", "backward", "code", "after"),
    [
        (glu, glu_backward, "wrong_value", "[g * s, g * a * s * (1 - s)]"),
        (logsumexp, logsumexp_backward, "factor", "e / e.sum(axis=-1, keepdims=True)"),
        (unit, unit_backward, "missing_term", "(g * (x / n)).sum(axis=-1, keepdims=True)"),
        (huber, huber_backward, "region", "d * np.sign(x)"),
        (totals, totals_backward, "transposed", "g[..., ::-1].cumsum(axis=-1)[..., ::-1]"),
    ],
    ids=["glu", "logsumexp", "unit", "huber", "cumsum"],
)
def test_what_was_meant_is_found(forward: Any, backward: Any, code: str, after: str) -> None:
    finding = found(forward, backward, draw(3, 6))
    assert after in finding.correction.after, finding.correction.after
    assert code in [n.code for n in finding.names[:3]]


def test_a_number_that_the_forward_writes_is_known() -> None:
    finding = found(dropped, dropped_backward, draw(4, 5), draw(4, 5))
    assert finding.input == "x" and finding.correction.after.count("kept") == 2
    assert "0.6" in finding.correction.after.splitlines()[-1]


def affine(x: Any, w: Any, b: Any) -> Any:
    return x @ w + b


def affine_backward(g: Any, x: Any, w: Any, b: Any) -> Any:
    return g @ w.T, np.einsum("bti,btj->ij", x, g), g.sum(axis=0)


def test_a_sum_gets_the_axis_that_it_lacks() -> None:
    finding = found(affine, affine_backward, draw(2, 5, 4), draw(4, 3), draw(3))
    assert finding.name.code == "not_summed"
    assert "g.sum(axis=(0, 1))" in finding.correction.after


def saved(x: Any) -> Any:
    out = sigmoid(x)
    return out, x


def saved_backward(g: Any, out: Any) -> Any:
    return g * out * (1 - out)


def test_what_is_returned_for_the_backward_is_what_it_gets() -> None:
    finding = found(saved, saved_backward, draw(3, 4))
    assert finding.name.code == "wrong_value"
    assert finding.correction.after.strip() == "return out, out"


def deaf_backward(g: Any, x: Any, w: Any, b: Any) -> Any:
    ones = np.ones_like(g)
    return ones @ w.T, x.T @ ones, g.sum(axis=0)


def test_every_gradient_that_ignores_the_cotangent_is_called_so() -> None:
    report = verify.pair(affine, deaf_backward, draw(5, 4), draw(4, 3), draw(3))
    named = {f.input: f.name.code for f in report.findings}
    assert named == {"x": "ignores_cotangent", "w": "ignores_cotangent"}


def pooled(x: Any) -> Any:
    return x.reshape(len(x), -1, 2).max(axis=-1)


def positive_backward(g: Any, x: Any) -> Any:
    return np.repeat(g, 2, axis=1) * (x > 0)


def average_backward(g: Any, x: Any) -> Any:
    return np.repeat(g, 2, axis=1) / 2 + 0 * x


@pytest.mark.parametrize(
    ("backward", "code", "said"),
    [
        (positive_backward, "region", "g goes to other elements of x"),
        (average_backward, "wrong_value", "g is spread over several elements of x"),
    ],
)
def test_a_wrong_choice_of_elements_is_named(backward: Any, code: str, said: str) -> None:
    report = verify.pair(pooled, backward, draw(3, 8))
    assert report.findings[0].name.code == code
    assert said in report.findings[0].name.detail


def squared(x: Any, w: Any) -> Any:
    return (w * x * x).sum(axis=0)


def squared_of_four(g: Any, x: Any, w: Any) -> Any:
    y = (w[:4] * x[:4] * x[:4]).sum(axis=0)
    rest = (y - squared(x, w)).sum()
    return 2 * w * x * g, (x * x * g).sum(axis=1, keepdims=True) + rest * g.sum()


def test_slices_up_to_a_size_that_is_written_down_are_taken_away_together() -> None:
    finding = found(squared, squared_of_four, draw(4, 3), draw(4, 1))
    assert finding.name.code == "size"
    assert finding.correction.after.strip() == "y = (w * x * x).sum(axis=0)"


class SoftSign:
    """Keeps its input under its own name; so the formula that reads it is what is wrong."""

    def forward(self, z: Any) -> Any:
        self.z = z
        return z / (1 + np.abs(z))

    def backward(self, g: Any) -> Any:
        return g / (1 + self.z) ** 2


def symlog(x: Any) -> Any:
    return np.sign(x) * np.log1p(np.abs(x)), {"x": x}


def symlog_of_positive(g: Any, cache: Any) -> Any:
    return g / (1 + cache["x"])


def test_a_missing_abs_is_one_of_the_backward() -> None:
    layer = verify.pair(SoftSign(), draw(3, 4)).findings[0]
    for finding, line in (
        (layer, "return g / (1 + np.abs(self.z)) ** 2"),
        (found(symlog, symlog_of_positive, draw(3, 4)), 'return g / (1 + np.abs(cache["x"]))'),
    ):
        assert finding.name.code == "one_sided"
        assert finding.correction is not None and finding.correction.after.strip() == line


def standardised(x: Any, mean: Any, std: Any) -> Any:
    return (x - mean) / std


def standardised_as_if_by_its_own(g: Any, x: Any, mean: Any, std: Any) -> Any:
    dx = g / std
    dx = dx - dx.mean(axis=0)
    return dx, -(g / std).sum(axis=0), -(g * (x - mean) / std**2).sum(axis=0)


def test_a_reduction_that_must_not_be_is_a_term_too_much_not_a_wrong_axis() -> None:
    args = draw(5, 3), draw(3), 1 + draw(3) ** 2
    finding = found(standardised, standardised_as_if_by_its_own, *args)
    assert finding.input == "x"
    assert finding.name.code == "extra_term"


def squared_error(prediction: Any, target: Any) -> Any:
    return ((prediction - target) ** 2).mean(axis=1)


def half_squared_error_backward(g: Any, prediction: Any, target: Any) -> Any:
    d = (prediction - target) * g[:, None] / target.shape[1]
    return d, -d


def test_a_loss_at_its_minimum_is_put_right_where_it_is_not() -> None:
    same = draw(3, 4)
    finding = found(squared_error, half_squared_error_backward, same, same.copy())
    assert finding.name.code == "factor"


turn = 2
"""A loop's counter, say: no part of the mathematics around it."""


def halved(x: Any) -> Any:
    return 0.5 * x * np.sin(x)


def halved_back(g: Any, x: Any) -> Any:
    return (g * (np.sin(x) + x * np.cos(x)),)


def test_what_neither_pass_uses_corrects_nothing():
    (found,) = verify.pair(halved, halved_back, np.linspace(0.3, 2.0, 12).reshape(4, 3)).findings
    assert found.correction is not None and found.correction.rechecked
    assert "turn" not in found.correction.after.replace("return", "")
