"""Lines of mistakes that no edit of the code undoes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from chainrule import verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


rng = np.random.default_rng(6)


@pytest.mark.sweep
def test_the_last_value_that_is_made_of_no_cotangent_is_blamed() -> None:
    """The exact function, and the derivative of its approximation: no edit makes that right."""

    def forward(x: Any, w: Any) -> Any:
        z = x @ w
        return 0.5 * z * (1 + np.vectorize(math.erf)(z / np.sqrt(2)))

    def backward(g: Any, x: Any, w: Any) -> Any:
        z = x @ w
        t = np.tanh(0.7978845608 * (z + 0.044715 * z**3))
        slope = 0.5 * (1 + t) + 0.5 * z * (1 - t**2) * 0.7978845608 * (1 + 0.134145 * z**2)
        dz = g * slope
        return dz @ w.T, x.T @ dz

    finding = verify.pair(forward, backward, *(rng.standard_normal(s) for s in ((3, 4), (4, 2))))
    place = finding.findings[0].place
    assert place is not None and place.text.startswith("slope =")


def test_a_plain_value_is_not_blamed_for_the_formula_that_reads_it() -> None:
    """A weight of positives that is given to both: `p` could be anything, but is right."""

    def softplus(z: Any) -> Any:
        return np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))

    def forward(z: Any, t: Any, w: Any) -> Any:
        return (w * t * softplus(-z) + (1 - t) * softplus(z)).mean()

    def backward(g: Any, z: Any, t: Any, w: Any) -> Any:
        p = 1 / (1 + np.exp(-z))
        return g * w * (p - t) / t.size, None, None

    t = (rng.standard_normal((5, 3)) > 0).astype(int)
    report = verify.pair(forward, backward, rng.standard_normal((5, 3)), t, np.array([2, 3, 4]))
    place = report.findings[0].place
    assert place is not None and place.text.startswith("return g * w")


def test_one_value_is_blamed_for_all_gradients_that_it_spoils() -> None:
    """The pointwise part of a cell: what comes back through the output is left out of `dct`."""

    def forward(a: Any, c: Any) -> Any:
        i, o = 1 / (1 + np.exp(-a[:, :2])), 1 / (1 + np.exp(-a[:, 2:]))
        cell = c + i * i
        return o * np.tanh(cell), cell

    def backward(dh: Any, dc: Any, a: Any, c: Any) -> Any:
        i, o = 1 / (1 + np.exp(-a[:, :2])), 1 / (1 + np.exp(-a[:, 2:]))
        t = np.tanh(c + i * i)
        dct = dc
        di = 2 * dct * i * i * (1 - i)
        do = dh * t * o * (1 - o)
        return np.concatenate([di, do], axis=1), dct

    args = rng.standard_normal((3, 4)), rng.standard_normal((3, 2))
    findings = verify.pair(forward, backward, *args).findings
    lines = [f.place.text for f in findings if f.place is not None]
    assert lines and all(line.startswith("dct = dc") for line in lines)
