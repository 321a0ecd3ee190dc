"""Equal lengths that are equal by chance: images that are square, as many rows as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule.verify.evidence import NOTES
from tests.verify.measure.measured import codes, measured, normal


def pooled_back(x: Any, g: Any, n: int) -> Any:
    return np.broadcast_to(g[..., None, None] / n, x.shape)


WRONG = {
    "the mean of square images": (
        lambda x: x.mean((2, 3)),
        lambda x, g: pooled_back(x, g, x.shape[3] ** 2),
        normal(2, 3, 4, 4),
    ),
    "the mean over rows, of as many columns": (
        lambda x: x.mean(0),
        lambda x, g: np.broadcast_to(g / x.shape[1], x.shape),
        normal(5, 5),
    ),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_right_for_equal_lengths_only(name: str):
    f, b, x = WRONG[name]
    evidence = measured(f, b, x)
    assert codes(evidence) == {"size"}
    assert any("other proportions" in x.says for x in evidence.behaviours)


RIGHT = {
    "images": (
        lambda x: x.mean((2, 3)),
        lambda x, g: pooled_back(x, g, x.shape[2] * x.shape[3]),
        normal(2, 3, 4, 4),
    ),
    "the trace, which is of square matrices": (
        lambda x: np.trace(x),
        lambda x, g: g * np.eye(x.shape[0]),
        normal(5, 5),
    ),
    "a symmetric part": (
        lambda x: x + np.swapaxes(x, 0, 1),
        lambda x, g: g + np.swapaxes(g, 0, 1),
        normal(4, 4),
    ),
    "a lower triangle that is inverted": (
        lambda x: np.linalg.inv(np.tril(x) + 5 * np.eye(len(x))),
        lambda x, g: np.tril(_inverse_back(np.tril(x) + 5 * np.eye(len(x)), g)),
        normal(4, 4),
    ),
    "the upper triangle of distances": (
        lambda x: x[np.triu_indices(len(x), 1)] ** 2,
        lambda x, g: _scattered(x, 2 * x[np.triu_indices(len(x), 1)] * g),
        normal(5, 5),
    ),
}


def _inverse_back(a: Any, g: Any) -> Any:
    inverse = np.linalg.inv(a)
    return -inverse.T @ g @ inverse.T


def _scattered(x: Any, values: Any) -> Any:
    """For square x only, as its forward: the last columns of others are read by nobody."""
    bar = np.zeros((len(x), len(x)))
    bar[np.triu_indices(len(x), 1)] = values
    return bar


@pytest.mark.parametrize("name", list(RIGHT))
def test_what_is_right_or_square_by_what_it_is(name: str):
    f, b, x = RIGHT[name]
    evidence = measured(f, b, x)
    assert not codes(evidence) - set(NOTES)
    assert not evidence.wrong


SINGLE = {
    "the sum over a batch of one": (lambda x, w: x @ w, lambda x, w, g: (g @ w.T, x.T @ g)),
    "the first row of a batch of one": (
        lambda x, w: x @ w,
        lambda x, w, g: (g @ w.T, np.outer(x[0], g[0])),
    ),
}


@pytest.mark.parametrize("name", list(SINGLE))
def test_a_batch_of_one_is_one_by_chance(name: str):
    f, b = SINGLE[name]
    evidence = measured(f, b, normal(1, 4), normal(4, 3))
    assert codes(evidence) == ({"size"} if "first row" in name else set())


def test_what_is_spread_over_a_batch_of_one_stays_alone():
    def back(x: Any, b: Any, g: Any) -> Any:
        return g * (x + b > 0), (g * (x + b > 0)).sum(0, keepdims=True)

    evidence = measured(lambda x, b: np.maximum(x + b, 0), back, normal(1, 5), normal(1, 5))
    assert not codes(evidence) - set(NOTES)


def test_covariances_stay_symmetric_and_definite():
    def f(k: Any, y: Any) -> Any:
        return 0.5 * y @ np.linalg.solve(k, y) + 0.5 * np.linalg.slogdet(k)[1]

    def b(k: Any, y: Any, g: Any) -> Any:
        a = np.linalg.solve(k, y)
        return 0.5 * g * (np.linalg.inv(k) - np.outer(a, a)), g * a

    x = np.arange(9) / 2
    k = np.exp(-0.5 * (x[:, None] - x) ** 2) + 0.1 * np.eye(9)
    evidence = measured(f, b, k, normal(9))
    assert not codes(evidence) - set(NOTES)
    assert not evidence.wrong
    assert any(len(t.point) > 12 and "other sizes" in t.point for t in evidence.trials)


def test_lengths_of_which_all_multiples_are_taken_are_left_alone():
    """Nothing is left that an axis could be longer by."""
    lengths = (3, 5, 7, 2, 9, 11)
    xs = [np.ones((n, n)) + normal(n, n) for n in lengths]

    def total(*xs: Any) -> Any:
        return sum(x.sum() for x in xs)

    evidence = measured(total, lambda *a: tuple(a[-1] * np.ones(x.shape) for x in a[:-1]), *xs)
    assert not evidence.wrong
    assert not [why for _, why in evidence.skipped if "the verifier failed" in why]
