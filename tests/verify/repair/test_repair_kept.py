"""Repairs of forwards that keep the wrong thing, of loops, of constants and factors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from chainrule import verify
from chainrule.verify.arrays.objects import subject_of_layer
from chainrule.verify.arrays.pair import subject_of_pair
from chainrule.verify.measure.examine import examine
from chainrule.verify.repair import repairs
from chainrule.verify.repair.checks import Repaired
from chainrule.verify.repair.code.draft import Draft
from chainrule.verify.repair.presentation import correction
from chainrule.verify.subject import Source
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)

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


def gated(a: Any, u: Any) -> Any:
    s = 1 / (1 + np.exp(-a))
    act = a * s
    cache = (a, u, s, act)
    out = act
    out *= u
    return out, cache


def gated_backward(g: Any, cache: Any) -> Any:
    a, u, s, act = cache
    return g * u * (s + a * s * (1 - s)), g * act


def test_what_is_changed_by_another_name_is_left_alone() -> None:
    """Not undone in the backward (`g * act / u`), which is right, too."""
    best = repaired(gated, gated_backward, (3, 5), (3, 5))
    assert best.whole and best.codes == ("stale",)
    assert "out = out * u" in best.correction.after


def scores(q: Any, k: Any) -> Any:
    return q @ k.T / np.sqrt(q.shape[-1])


def scores_backward(g: Any, q: Any, k: Any) -> Any:
    s = g / q.shape[-1]
    return s @ k, s.T @ q


def test_a_size_that_fits_by_chance_is_not_taken() -> None:
    best = repaired(scores, scores_backward, (4, 4), (4, 4))
    assert best.whole and best.codes == ("factor",)
    assert best.correction.after.strip() == "s = g / np.sqrt(q.shape[-1])"


def wavy(x: Any, w: Any) -> Any:
    s = x * w
    p = np.sin(s)
    return p * s, (x, w, s, s)


def wavy_backward(g: Any, cache: Any) -> Any:
    x, w, s, p = cache
    ds = g * (p + s * np.cos(s))
    return ds * w, ds * x


def test_another_value_is_kept() -> None:
    best = repaired(wavy, wavy_backward, (3, 5), (3, 5))
    assert best.whole and best.codes == ("wrong_value",)
    assert best.correction.place is not None and best.correction.place.function == "wavy"


def normed(x: Any) -> Any:
    c = x - x.mean(axis=0)
    inv = 1.0 / np.sqrt((c * c).mean(axis=0) + 1e-5)
    kept = c
    c = c * inv
    return c, (kept, inv)


def normed_backward(g: Any, cache: Any) -> Any:
    hat, inv = cache
    return inv * (g - g.mean(axis=0) - hat * (g * hat).mean(axis=0))


def test_what_is_kept_too_early_is_mended_in_the_forward() -> None:
    best = repaired(normed, normed_backward, (5, 3))
    assert best.whole and best.codes == ("wrong_value",)
    assert best.correction.place is not None and best.correction.place.function == "normed"


def gate(x: Any) -> Any:
    on = x < 0
    return x * (x > 0), on


def gate_backward(g: Any, cache: Any) -> Any:
    on = cache
    return g * on


def test_a_mask_is_mended_where_it_is_made() -> None:
    best = repaired(gate, gate_backward, (4, 5))
    assert best.whole and best.correction.before.strip() == "on = x < 0"


def squares(x: Any) -> Any:
    c = x - x.mean(axis=0)
    v = (c * c).mean(axis=0)
    return c / np.sqrt(v)


def squares_backward(g: Any, x: Any) -> Any:
    n = len(x)
    c = x - x.mean(axis=0)
    v = (c * c).mean(axis=0)
    dv = (g * c).sum(axis=0) * -0.5 / v**1.5  # noqa: F841 (the mistake: it is not read)
    dc = g / np.sqrt(v)
    return dc - dc.sum(axis=0) / n


def test_what_was_computed_for_a_term_and_is_not_read_makes_the_term() -> None:
    best = repaired(squares, squares_backward, (5, 3))
    assert best.whole and best.codes == ("missing_term",)
    assert "dv" in best.correction.after and "dv" not in best.correction.before
    assert best.correction.after.count("2 / n") == 1


def test_a_sum_within_a_term_is_found() -> None:
    def forward(x: Any) -> Any:
        y = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
        return y, y

    def backward(g: Any, cache: Any) -> Any:
        y = cache
        d = y * g
        d -= y * d
        return d

    best = repaired(forward, backward, (3, 5))
    assert best.whole and best.codes == ("missing_term",)
    assert best.correction.after.strip() == "d -= y * d.sum(axis=-1, keepdims=True)"


def test_changes_that_are_close_together_are_shown_in_one_piece() -> None:
    correction = repaired(normed, normed_backward, (5, 3)).correction
    assert "..." not in correction.before + correction.after


def test_a_line_that_goes_is_where_the_correction_stands() -> None:
    def forward(x: Any) -> Any:
        return np.sin(x)

    def backward(g: Any, x: Any) -> Any:
        slope = np.cos(x)
        g = np.clip(g, -0.7, 0.7)
        return g * slope

    shown = repaired(forward, backward, (3, 5)).correction
    assert shown.place is not None
    assert shown.place.text == "g = np.clip(g, -0.7, 0.7)"
    assert shown.before.splitlines()[0].strip() == shown.place.text
    assert shown.after.strip() == "return g * slope"


def test_changes_that_are_far_apart_show_no_line_twice() -> None:
    lines = [f"    a{i} = {i}" for i in range(20)]
    text = "\n".join(["def f():", *lines, ""])
    changed = "\n".join(
        ["def f():", *lines[1:2], "    b = 1", *lines[2:18], "    c = 1", *lines[18:], ""]
    )
    first = Draft(Source("f.py", 1, text, lambda: None, lambda _: None), "", text, "", False)
    shown = correction(first, replace(first, body=changed), (), 0.0)
    assert shown.before == "    a0 = 0\n    a1 = 1\n    ...\n    a17 = 17"
    assert shown.after == "    a1 = 1\n    b = 1\n    ...\n    a17 = 17\n    c = 1"


def test_the_sigmoid_of_a_size_is_that_of_one_sign() -> None:
    def forward(z: Any, t: Any) -> Any:
        e = np.exp(-np.abs(z))
        return (np.maximum(z, 0) - z * t + np.log1p(e)).sum(), e

    def backward(g: Any, z: Any, t: Any, e: Any) -> Any:
        p = e / (1 + e)
        return g * (p - t), -g * z

    best = repaired(forward, backward, (3, 5), (3, 5))
    assert best.codes == ("one_sided",)
    expected = "p = np.where(z >= 0, 1 - e / (1 + e), e / (1 + e))"
    assert best.correction.after.strip() == expected


def test_a_value_that_nobody_has_read_is_added_to_not_thrown_away() -> None:
    def forward(h: Any, u: Any, z: Any) -> Any:
        return z * h + np.tanh(h @ u)

    def backward(g: Any, h: Any, u: Any, z: Any) -> Any:
        da = g * (1 - np.tanh(h @ u) ** 2)
        dh = g * z
        du = h.T @ da
        dh = da @ u.T
        return dh, du, g * h

    best = repaired(forward, backward, (3, 4), (4, 4), (3, 4))
    assert best.codes == ("overwritten",)
    assert best.correction.after.strip() == "dh += da @ u.T"


class Head:
    """The logarithm of a softmax, with gradients in a dictionary of the layer's."""

    def __init__(self) -> None:
        self.params = {"W": rng.standard_normal((4, 5))}
        self.grads: dict[str, Any] = {}

    def forward(self, x: Any) -> Any:
        s = x @ self.params["W"]
        out = s - np.log(np.exp(s).sum(axis=-1, keepdims=True))
        self.cache = (x, out)
        return out

    def backward(self, dy: Any) -> Any:
        x, out = self.cache
        ds = dy - np.exp(out)
        self.grads["W"] = x.T @ ds
        return ds @ self.params["W"].T


def test_what_a_layer_keeps_is_not_made_of_the_cotangent_that_it_puts_there_later() -> None:
    evidence = examine(subject_of_layer(Head(), (rng.standard_normal((3, 4)),)))
    best = repairs(evidence)[0]
    expected = "ds = dy - np.exp(out) * dy.sum(axis=-1, keepdims=True)"
    assert best.whole and best.correction.after.strip() == expected


class Norm:
    """Keeps running statistics, and takes them for those of the batch."""

    def __init__(self) -> None:
        self.running = np.ones(3)

    def forward(self, x: Any) -> Any:
        mean, var = x.mean(0), x.var(0)
        self.z = (x - mean) / np.sqrt(var + 1e-5)
        self.running = 0.9 * self.running + 0.1 * var
        self.inv = 1 / np.sqrt(self.running + 1e-5)
        return self.z

    def backward(self, dy: Any) -> Any:
        return self.inv * (dy - dy.mean(0) - self.z * (dy * self.z).mean(0))


def test_what_a_call_leaves_is_no_mistake_of_the_first_one() -> None:
    finding = verify.pair(Norm(), 3 * rng.standard_normal((6, 3))).findings[0]
    assert finding.name.code == "wrong_value" and finding.correction is not None
    assert finding.correction.after.strip() == "self.inv = 1 / np.sqrt(var + 1e-5)"
