"""A correction is right at other settings, shares and lengths as well, not where it was found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule import verify
from chainrule.verify.finding import Finding

rng = np.random.default_rng(3)
X = rng.normal(size=(6, 4))
MASK = np.array([1.0, 1, 0, 1, 1, 0])


def corrected(report: verify.Report) -> Finding:
    """The first finding, whose correction was tried."""
    finding = report.findings[0]
    assert finding.correction is not None and finding.correction.rechecked, str(report)
    return finding


def masked_mean(x: Any, mask: Any) -> Any:
    return (np.tanh(x) * mask[:, None]).sum() / mask.sum()


def masked_mean_backward(g: Any, x: Any, mask: Any) -> Any:
    return g * (1 - np.tanh(x) ** 2) * mask[:, None] / len(x)


def test_a_share_of_rows_is_no_factor() -> None:
    """Two thirds of the rows count: times 1.5 is right for this mask only."""
    finding = corrected(verify.pair(masked_mean, masked_mean_backward, X, MASK))
    assert finding.correction is not None and "mask" in finding.correction.after
    assert "1.5" not in finding.correction.after and "/ mask.sum()" in finding.correction.after


class Dropout:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def forward(self, x: Any) -> Any:
        self.kept = np.random.default_rng(1).random(x.shape) > self.rate
        return x * self.kept / (1 - self.rate)

    def backward(self, g: Any) -> Any:
        return g * self.kept


class Right(Dropout):
    def backward(self, g: Any) -> Any:
        return g * self.kept / (1 - self.rate)


@pytest.mark.parametrize("rate", [0.5, 0.25])
def test_a_rate_that_an_object_keeps_is_varied(rate: float) -> None:
    """At a rate of a half, times 2 and divided by the rate would do."""
    assert verify.pair(Right(rate), X).ok
    finding = corrected(verify.pair(Dropout(rate), X))
    assert finding.correction is not None
    assert finding.correction.after.endswith("/ (1 - self.rate)")


def softened(x: Any, temperature: Any) -> Any:
    return np.tanh(x / temperature)


def softened_backward(g: Any, x: Any, temperature: Any) -> Any:
    return g * (1 - np.tanh(x / temperature) ** 2)


def test_a_number_among_the_arguments_is_varied() -> None:
    finding = corrected(verify.pair(softened, softened_backward, X, 2.0))
    assert finding.correction is not None and "temperature" in finding.correction.after


def third(x: Any) -> Any:
    return (np.sin(x) / 3).sum(axis=1)


def third_backward(g: Any, x: Any) -> Any:
    return g[:, None] * np.cos(x)


def test_a_number_in_the_text_is_no_length_that_is_the_same_by_chance() -> None:
    finding = corrected(verify.pair(third, third_backward, X[:3]))
    assert "shape" not in finding.name.detail and "3" in finding.name.detail
    assert finding.correction is not None and finding.correction.after.endswith("/ 3")


BLOCK = 8


def blocked(x: Any) -> Any:
    out, n = np.zeros(x.shape[1]), len(x)
    for i in range(0, n - BLOCK + 1, BLOCK):
        out += np.tanh(x[i : i + BLOCK]).sum(axis=0)
    for i in range(n // BLOCK * BLOCK, n):
        out += np.tanh(x[i])
    return out


def blocked_backward(g: Any, x: Any) -> Any:
    dx, n = np.zeros_like(x), len(x)
    for i in range(0, n - BLOCK + 1, BLOCK):
        dx[i : i + BLOCK] = g * (1 - np.tanh(x[i : i + BLOCK]))
    for i in range(n // BLOCK * BLOCK, n):
        dx[i] = g * (1 - np.tanh(x[i]) ** 2)
    return dx


def test_a_loop_over_blocks_runs_at_a_length_that_enters_it() -> None:
    """Of five rows no block is whole: what is captured never enters the loop."""
    finding = corrected(verify.pair(blocked, blocked_backward, X[:5]))
    assert finding.place is not None and finding.place.text.startswith("dx[i : i + BLOCK] =")
    assert finding.correction is not None and "** 2)" in finding.correction.after
