"""One edit in several places, one wrong name among many, a term of a constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule import verify
from tests.sampling import sampled

rng = np.random.default_rng(8)
TABLE = rng.normal(size=(6, 2))


def corrected(report: verify.Report) -> str:
    """What the code becomes; all findings are mended."""
    assert report.findings, str(report)
    for finding in report.findings:
        assert finding.correction is not None and finding.correction.rechecked, str(report)
    correction = report.findings[0].correction
    assert correction is not None
    return correction.after


def forked(x: Any, a: Any, b: Any) -> Any:
    s = np.tanh(x)
    u = s * s
    return u * a, u * b


def forked_backward(g1: Any, g2: Any, x: Any, a: Any, b: Any) -> Any:
    s = np.tanh(x)
    u = s * s
    dx = g1 * a * 2 * u * (1 - s * s)
    dx += g2 * b * 2 * u * (1 - s * s)
    return dx, g1 * u, g2 * u


def test_one_wrong_name_in_two_lines() -> None:
    after = corrected(verify.pair(forked, forked_backward, *rng.normal(size=(3, 3, 4))))
    assert after.count("2 * s * (1 - s * s)") == 2


def cell(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    n = h.shape[1]
    a = x @ w + h @ u + b
    i, f = 1 / (1 + np.exp(-a[:, :n])), 1 / (1 + np.exp(-a[:, n : 2 * n]))
    o, z = 1 / (1 + np.exp(-a[:, 2 * n : 3 * n])), np.tanh(a[:, 3 * n :])
    new = f * c + i * z
    return o * np.tanh(new), new


LSTM = """
import numpy as np

def backward(dh, dnew, x, h, c, w, u, b):
    n = h.shape[1]
    a = x @ w + h @ u + b
    a_i = a[:, :n]
    a_f = a[:, n : 2 * n]
    a_o = a[:, 2 * n : 3 * n]
    a_z = a[:, 3 * n :]
    i = 1 / (1 + np.exp(-a_i))
    f = 1 / (1 + np.exp(-a_f))
    o = 1 / (1 + np.exp(-a_o))
    z = np.tanh(a_z)
    new = f * c + i * z
    t = np.tanh(new)
    do = dh * t
    dt = dh * o
    dc = dnew + dt * (1 - t**2)
    di = dc * z
    df = dc * c
    dz = dc * i
    dc_before = dc * f
    da_i = di * i * (1 - i)
    da_f = df * f * (1 - f)
    da_o = do * o * (1 - o)
    da_z = dz * (1 - z**2)
    da = np.concatenate([da_i, da_f, da_o, da_z], axis=1)
    dx = da @ w.T
    dh_before = da @ u.T
    dw = x.T @ da
    du = h.T @ da
    db = da.sum(axis=0)
    return dx, dh_before, dc_before, dw, du, db
"""


@pytest.mark.sweep
@sampled(one_in=2)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [("df = dc * c", "df = dc * z"), ("da_o = do * o * (1 - o)", "da_o = do * f * (1 - f)")],
)
def test_one_wrong_name_in_a_long_backward(right: str, wrong: str, tmp_path: Any) -> None:
    from tests.verify.repair.repair_cases import module

    made = module(LSTM.replace(right, wrong), tmp_path, 91_000 + len(wrong))
    args = [rng.normal(size=s) for s in ((3, 4), (3, 2), (3, 2), (4, 8), (2, 8), (8,))]
    assert corrected(verify.pair(cell, made.backward, *args)).strip() == right


def shifted(x: Any, table: Any) -> Any:
    return x + table[: x.shape[1]]


def shifted_backward(g: Any, x: Any, table: Any) -> Any:
    n = x.shape[1]
    d = np.zeros(table.shape)
    d[: n - 1] = g[:, : n - 1].sum(0)
    return g, d


def test_a_length_that_is_one_too_small_on_both_sides() -> None:
    after = corrected(verify.pair(shifted, shifted_backward, rng.normal(size=(3, 4, 2)), TABLE))
    assert after.strip() == "d[: n] = g[:, : n].sum(0)"


def smoothed(z: Any, t: Any) -> Any:
    k = z.shape[1]
    q = (1 - 0.1) * t + 0.1 / k
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return -(q * np.log(e / e.sum(axis=1, keepdims=True))).sum() / len(z)


def smoothed_backward(g: Any, z: Any, t: Any) -> Any:
    k = z.shape[1]  # noqa: F841 (the mistake: it is not read)
    q = (1 - 0.1) * t
    e = np.exp(z - z.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return g * (p - q) / len(z), None


def test_labels_that_are_not_smoothed() -> None:
    labels = np.eye(4)[[0, 2, 1]]
    after = corrected(verify.pair(smoothed, smoothed_backward, rng.normal(size=(3, 4)), labels))
    assert after.strip() == "q = (1 - 0.1) * t + 0.1 / k"
