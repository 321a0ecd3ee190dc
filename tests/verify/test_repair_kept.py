"""Repairs of forwards that keep the wrong thing, of loops, and of factors that are sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.verify.arrays.pair import subject_of_pair
from chainrule.verify.measure.examine import examine
from chainrule.verify.repair import Repaired, repairs

rng = np.random.default_rng(5)


def repaired(forward: Any, backward: Any, *shapes: tuple[int, ...]) -> Repaired:
    args = [rng.standard_normal(s) for s in shapes]
    return repairs(examine(subject_of_pair(forward, backward, args)))[0]


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return y, e


def softmax_backward(g: Any, cache: Any) -> Any:
    p = cache
    return p * (g - (g * p).sum(axis=-1, keepdims=True))


def test_what_is_kept_is_mended_in_the_forward() -> None:
    best = repaired(softmax, softmax_backward, (3, 5))
    assert best.whole
    assert best.correction.after.strip() == "return y, y"
    assert best.correction.place is not None and best.correction.place.function == "softmax"


def scaled(x: Any) -> Any:
    y = np.tanh(x)
    cache = (y,)
    y *= 3.0
    return y, cache


def scaled_backward(g: Any, cache: Any) -> Any:
    (y,) = cache
    return 3.0 * g * (1 - y**2)


def test_what_is_changed_after_it_was_kept_is_copied_or_left_alone() -> None:
    best = repaired(scaled, scaled_backward, (3, 5))
    assert best.whole and best.codes == ("stale",)
    assert best.correction.rechecked


def scan(x: Any, w: Any, u: Any) -> Any:
    h = np.zeros((x.shape[1], u.shape[0]))
    for t in range(x.shape[0]):
        h = np.tanh(x[t] @ w + h @ u)
    return h


def scan_backward(g: Any, x: Any, w: Any, u: Any) -> Any:
    hs = [np.zeros((x.shape[1], u.shape[0]))]
    for t in range(x.shape[0]):
        hs.append(np.tanh(x[t] @ w + hs[t] @ u))
    dx, dw, du = np.zeros_like(x), np.zeros_like(w), np.zeros_like(u)
    for t in reversed(range(x.shape[0])):
        a = g * (1 - hs[t + 1] ** 2)
        dw = x[t].T @ a
        du += hs[t].T @ a
        dx[t] = a @ w.T
        g = a @ u.T
    return dx, dw, du


def test_names_of_a_tuple_are_added_up_in_a_loop() -> None:
    best = repaired(scan, scan_backward, (3, 2, 3), (3, 4), (4, 4))
    assert best.whole and best.codes == ("overwritten",)
    assert best.correction.after.strip() == "dw += x[t].T @ a"


def scores(q: Any, k: Any) -> Any:
    return q @ k.T / np.sqrt(q.shape[-1])


def scores_backward(g: Any, q: Any, k: Any) -> Any:
    s = g / q.shape[-1]
    return s @ k, s.T @ q


def test_a_size_that_fits_by_chance_is_not_taken() -> None:
    best = repaired(scores, scores_backward, (4, 4), (4, 4))
    assert best.whole and best.codes == ("factor",)
    assert best.correction.after.strip() == "s = g / np.sqrt(q.shape[-1])"
