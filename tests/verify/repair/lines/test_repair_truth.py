"""Of many places at which one edit could end a mistake, the one where the values go wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule import verify
from chainrule.verify.arrays.pair import subject_of_pair
from chainrule.verify.measure.examine import examine
from chainrule.verify.repair import repairs
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


rng = np.random.default_rng(11)
Q, K = rng.standard_normal((4, 3)), rng.standard_normal((5, 3))


def scores(q: Any, k: Any) -> Any:
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s)
    p = e / e.sum(axis=1, keepdims=True)
    return p * p


def first(g: Any, q: Any, k: Any) -> Any:
    p = np.sqrt(scores(q, k))
    dp = -2 * g * p
    ds = p * (dp - (dp * p).sum(axis=1, keepdims=True))
    dz = ds / np.sqrt(q.shape[1])
    return dz @ k, dz.T @ q


def second(g: Any, q: Any, k: Any) -> Any:
    p = np.sqrt(scores(q, k))
    dp = 2 * g * p
    ds = p * ((dp * p).sum(axis=1, keepdims=True) - dp)
    dz = ds / np.sqrt(q.shape[1])
    return dz @ k, dz.T @ q


def third(g: Any, q: Any, k: Any) -> Any:
    p = np.sqrt(scores(q, k))
    dp = 2 * g * p
    ds = p * (dp - (dp * p).sum(axis=1, keepdims=True))
    dz = -ds / np.sqrt(q.shape[1])
    return dz @ k, dz.T @ q


def unscaled(g: Any, q: Any, k: Any) -> Any:
    p = np.sqrt(scores(q, k))
    dp = g * p
    ds = p * (dp - (dp * p).sum(axis=1, keepdims=True))
    dz = ds / np.sqrt(q.shape[1])
    return dz @ k, dz.T @ q


@pytest.mark.parametrize(
    ("backward", "line"),
    [
        (first, "dp = -2 * g * p"),
        (second, "ds = p * ((dp * p).sum(axis=1, keepdims=True) - dp)"),
        (third, "dz = -ds / np.sqrt(q.shape[1])"),
        (unscaled, "dp = g * p"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_factor_is_mended_where_values_go_wrong(backward: Any, line: str) -> None:
    best = repairs(examine(subject_of_pair(scores, backward, [Q, K])))[0]
    assert best.whole and len(best.codes) == 1
    assert best.correction.before.strip() == line


def error(pred: Any, target: Any) -> Any:
    diff = pred - target
    return np.mean(diff**2)


def error_backward(g: Any, pred: Any, target: Any) -> Any:
    diff = target - pred
    dpred = 2.0 * diff / diff.size
    return g * dpred, -g * dpred


def test_a_value_that_the_forward_has_by_the_same_name_is_mended_where_it_is_made() -> None:
    best = repairs(examine(subject_of_pair(error, error_backward, [Q, Q[::-1] * 2])))[0]
    assert best.correction.after.strip() == "diff = pred - target"


def masked(q: Any, k: Any) -> Any:
    t = len(q)
    s = q @ k.T
    s = np.where(np.tril(np.ones((t, t))) > 0, s, -1e9)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def unmasked_backward(g: Any, q: Any, k: Any) -> Any:
    s = q @ k.T
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    ds = p * (g - (g * p).sum(axis=-1, keepdims=True))
    return ds @ k, ds.T @ q


def test_without_a_repair_the_line_is_where_values_differ_from_the_forward() -> None:
    report = verify.pair(masked, unmasked_backward, Q, Q[::-1] * 0.5)
    assert not report.ok
    for finding in report.findings:
        assert finding.place is not None and finding.place.text == "s = q @ k.T"
        assert finding.place.function == "unmasked_backward"
        assert "`s` has not the value that `s` has in the forward" in finding.evidence
