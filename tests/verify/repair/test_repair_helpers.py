"""Functions that a backward calls: what the forward calls as well is not changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule import verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def spread(d: Any, u: Any) -> Any:
    return np.einsum("bi,bj->bij", u, u * u) + np.exp(d)[:, :, None] * np.eye(d.shape[1])


def logdet(d: Any, u: Any) -> Any:
    return np.linalg.slogdet(spread(d, u))[1]


def logdet_back(g: Any, d: Any, u: Any) -> Any:
    m = g[:, None, None] * np.linalg.inv(spread(d, u))
    du = np.einsum("bij,bj->bi", m, u * u) + 2 * u * np.einsum("bij,bi->bj", m, u)
    return np.exp(d) * np.einsum("bii->bi", m), du


def test_what_the_forward_calls_as_well_is_not_changed() -> None:
    finding = verify.pair(logdet, logdet_back, draw(2, 4) + 1, 0.5 * draw(2, 4, seed=1)).findings[0]
    assert finding.place is not None and finding.place.function == "logdet_back"


class LogCosh:
    @staticmethod
    def ratio(z: Any) -> Any:
        e = np.exp(z)
        return e / np.cosh(z)

    def forward(self, x: Any) -> Any:
        self.x = x
        return np.logaddexp(x, -x)

    def backward(self, g: Any) -> Any:
        return g * (self.ratio(self.x) - 1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_line_that_makes_a_nan_is_told_in_what_the_backward_calls() -> None:
    x = draw(3, 4)
    x[1, 2] = 800.0
    finding = verify.pair(LogCosh(), x).findings[0]
    assert finding.name.code == "nan" and finding.place is not None
    assert finding.place.text.strip() == "return e / np.cosh(z)"
