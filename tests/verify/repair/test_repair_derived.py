"""What a backward lacks, written by the derivatives of the forward's own statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import verify
from chainrule.verify.repair.code.slopes import OF_FUNCTIONS, slopes
from tests.sampling import sampled_file
from tests.verify.script.by_hand.by_hand import looked_at

STATEMENTS = (
    "y = -a * x",
    "y = a * x * (b - x) ** 3",
    "y = (a - x) / (b + x)",
    "y = np.exp(-x * a) * np.log(x)",
    "y = a ** 2 * np.sqrt(b + x)",
    "y = x ** a / b",
    "y = 0.5 * x * x * a",
    "y = np.tanh(x) * np.sin(a * x) - np.cos(b * x)",
    "y = np.log1p(x) * np.square(x)",
    "y = 2 * a - b * np.clip(x, 0, 9)",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_derivative_has_the_slope_of_its_statement(statement: str) -> None:
    names: dict[str, Any] = {"a": 1.3, "b": 2.1, "x": 0.7, "np": np}
    every = {s.by: s for s in slopes(statement)}
    assert "x" in every
    for by, slope in [(k, s) for k, s in every.items() if k != "np"]:
        ends = list[float]()
        for step in (1e-5, -1e-5):
            moved = {**names, by: names[by] + step}
            exec(statement, moved)
            ends.append(float(moved["y"]))
        exec(statement, names)
        assert eval(slope.whole, names) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-7)
        assert sum([eval(t, names) for t in slope.terms]) == pytest.approx(eval(slope.whole, names))


@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_the_text_of_a_derivative_says_what_the_table_of_ops_says(name: str) -> None:
    ours = {"arctan": cr.atan, "arcsin": cr.asin}.get(name) or getattr(cr, name)
    x = cr.tensor([0.3, 0.7], dtype="float64", requires_grad=True)
    ours(x).sum().backward()
    grad = x.grad
    [slope] = slopes(f"y = np.{name}(x)")
    x = x.detach()
    y = ours(x).numpy()
    assert np.allclose(eval(slope.whole, {"np": np, "x": x.numpy(), "y": y}), grad, rtol=1e-14)


def test_what_has_a_name_is_not_computed_again() -> None:
    assert [s.whole for s in slopes("std = np.exp(0.5 * lv)")] == ["0.5 * std"]


def pulse(x: Any, k: Any) -> Any:
    y = x**k * np.exp(-x)
    return y, (x, k)


def pulse_back(g: Any, cache: Any) -> Any:
    x, k = cache
    dx = -(x**k) * np.exp(-x)
    return g * dx, None


def test_a_term_of_the_product_rule_is_written() -> None:
    rng = np.random.default_rng(0)
    report = verify.pair(pulse, pulse_back, 1 + rng.random((3, 4)), 2.5)
    [finding] = report.findings
    assert finding.name.code == "missing_term", str(finding)
    assert finding.correction is not None and finding.correction.after is not None
    assert "k * x ** (k - 1)" in finding.correction.after


TRACKING = """
import numpy as np

def track(theta, y):
    q, r = np.exp(theta)
    p, dp = 2.0, np.zeros(2)
    dq, dr = np.array([q, 0.0]), np.array([0.0, r])
    value, grad = 0.0, np.zeros(2)
    for v in y:
        s, ds = p + r, dp + dr
        value += np.log(s) + v * v / s
        grad += ds / s - v * v * ds / s ** 2
        k = p / s
        dk = dp / s - p * ds / s ** 2
        m = (1 - k) * p
        dm = (1 - k) * dp - dk * p
        p = m + q
        dp = dm + dq
    return value, grad
"""
CHAIN = """
import numpy as np

def total(a, axis):
    m = a.max(axis=axis, keepdims=True)
    return (m + np.log(np.exp(a - m).sum(axis=axis, keepdims=True))).squeeze(axis)

def track(theta, y):
    n = len(y)
    f, b = np.zeros_like(y), np.zeros_like(y)
    f[0] = y[0]
    for t in range(1, n):
        f[t] = y[t] + total(f[t - 1][:, None] + theta, 0)
    for t in range(n - 2, -1, -1):
        b[t] = total(theta + (y[t + 1] + b[t + 1])[None, :], 1)
    z = total(f[-1], 0)
    grad = np.zeros_like(theta)
    for t in range(n - 1):
        pair = f[t][:, None] + theta + (y[t + 1] + b[t + 1])[None, :] - z
        grad += np.exp(pair)
    return z, grad
"""
LEFT_OUT = {
    "a tangent that goes forward": (TRACKING, " - dk * p\n", "\n", (2,), (6,)),
    "as it stands elsewhere": (
        CHAIN,
        "theta + (y[t + 1] + b[t + 1])[None, :] - z",
        "theta + b[t + 1][None, :] - z",
        (3, 3),
        (5, 3),
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_term_that_is_left_out_is_written(name: str, tmp_path: Path) -> None:
    text, right, wrong, *shapes = LEFT_OUT[name]
    assert text.count(right) == 1
    script = text.replace(right, wrong) + (
        "\nrng = np.random.default_rng(1)\n"
        f"w, y = rng.normal(size={shapes[0]}), rng.normal(size={shapes[1]})\n"
        "for i in range(4):\n    loss, g = track(w, y)\n    w = w - 0.01 * g\n    print(loss)\n"
    )
    finding = looked_at(tmp_path, script)[1].report.findings[0]
    changed = finding.correction
    assert changed is not None and changed.after is not None, str(finding)
    [line] = [line for line in text.splitlines() if right.strip() in line]
    assert changed.after.strip() == line.strip()


def gram(x: Any) -> Any:
    s = x @ x.T
    y = np.exp(-s)
    return y, (x, y)


def gram_back(g: Any, cache: Any) -> Any:
    x, y = cache
    ds = -g * y
    return ds @ x


def test_what_is_read_as_a_row_and_as_a_column_gets_both_parts() -> None:
    [finding] = verify.pair(
        gram, gram_back, 0.5 * np.random.default_rng(2).normal(size=(4, 3))
    ).findings
    changed = finding.correction
    assert changed is not None and changed.after is not None and ".T" in changed.after, str(finding)


def sample(grid: Any, size: Any) -> Any:
    h, w = np.shape(size)
    px = (grid[:, 0] + 1) * 0.5 * (w - 1)
    py = (grid[:, 1] + 1) * 0.5 * (h - 1)
    return np.sin(px) * py, (px, py, h, w)


def sample_back(g: Any, cache: Any) -> Any:
    px, py, h, w = cache
    assert h * w
    gx = g * np.cos(px) * py
    gy = g * np.sin(px)
    return np.stack([gx, gy], axis=1), None


def test_one_factor_that_two_values_lack_is_written_at_both() -> None:
    rng = np.random.default_rng(3)
    report = verify.pair(sample, sample_back, rng.random((6, 2)), np.zeros((4, 7), int))
    [finding] = report.findings
    changed = finding.correction
    assert changed is not None and changed.after is not None, str(finding)
    assert "(w - 1) / 2" in changed.after and "(h - 1) / 2" in changed.after


pytestmark = sampled_file(one_in=4)
