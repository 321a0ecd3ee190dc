"""Functions and networks that give a number and its gradients in one go."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from chainrule import verify
from chainrule.errors import ConfigError
from chainrule.verify.repair.code.value_flow import statements_of_value
from chainrule.verify.trees import tree_of
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


RNG = np.random.default_rng(3)
X, Y, LABELS = RNG.normal(size=(6, 4)), RNG.normal(size=6), np.array([0, 2, 1, 2, 0, 1])


def cost(theta: Any, x: Any, y: Any) -> Any:
    r = x @ theta - y
    return 0.5 * (r @ r) / len(y), x.T @ r / len(y)


def cost_without_mean(theta: Any, x: Any, y: Any) -> Any:
    r = x @ theta - y
    return 0.5 * (r @ r) / len(y), x.T @ r


def in_order(w: Any, b: Any, x: Any, y: Any) -> Any:
    e = x @ w + b - y
    return np.sum(e**2), 2 * x.T @ e, 2 * e.sum()


def by_name(params: Any, x: Any) -> Any:
    h = np.tanh(x @ params["w"])
    return h.sum(), {"w": x.T @ (1 - h**2)}


class Softmax:
    """A classifier as courses have it."""

    def __init__(self) -> None:
        self.params = {"W": RNG.normal(size=(4, 3)), "b": RNG.normal(size=3)}
        self.reg = 0.1

    def loss(self, x: Any, y: Any) -> Any:
        w, b = self.params["W"], self.params["b"]
        scores = x @ w + b
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        loss = -np.log(p[np.arange(len(y)), y]).mean() + 0.5 * self.reg * np.sum(w * w)
        return loss, self.gradients(x, y, p, w)

    def gradients(self, x: Any, y: Any, p: Any, w: Any) -> dict[str, Any]:
        d = p.copy()
        d[np.arange(len(y)), y] -= 1
        d /= len(y)
        return {"W": x.T @ d + self.reg * w, "b": d.sum(axis=0)}


class WithoutMean(Softmax):
    def gradients(self, x: Any, y: Any, p: Any, w: Any) -> dict[str, Any]:
        d = p.copy()
        d[np.arange(len(y)), y] -= 1
        return {"W": x.T @ d + self.reg * w, "b": d.sum(axis=0)}


class Left:
    """Gradients are left in the object, and the method has a name of its own."""

    def __init__(self) -> None:
        self.w = RNG.normal(size=4)
        self.dw = np.zeros(4)

    def measure(self, x: Any, y: Any) -> Any:
        r = x @ self.w - y
        loss = np.mean(r * r)
        self.dw = 2 * x.T @ r / len(y)
        return loss


class LeftWithSign(Left):
    def measure(self, x: Any, y: Any) -> Any:
        r = x @ self.w - y
        loss = np.mean(r * r)
        self.dw = -2 * x.T @ r / len(y)
        return loss


class Noisy:
    """A mask is drawn, once for the value and its gradient."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        self.w = RNG.normal(size=(4, 3))

    def loss(self, x: Any) -> Any:
        mask = self.rng.random((len(x), 3)) < 0.5
        h = np.maximum(x @ self.w, 0) * mask
        return np.sum(h**2), {"w": x.T @ (2 * h * mask)}


@pytest.mark.parametrize(
    "args",
    [
        (cost, RNG.normal(size=4), X, Y),
        (in_order, RNG.normal(size=4), np.array(0.3), X, Y),
        (by_name, {"w": RNG.normal(size=(4, 2))}, X),
        (Softmax(), X, LABELS),
        (Softmax().loss, X, LABELS),
        (Left().measure, X, Y),
        (Noisy(), X),
    ],
    ids=["tuple", "in order", "by name", "object", "method", "left", "random"],
)
def test_what_is_right_is_certified(args: tuple[Any, ...]) -> None:
    report = verify.pair(*args)
    assert report.ok and not report.findings
    assert report.ledger.planted is not None and report.ledger.planted.caught


def test_a_factor_is_found_and_corrected_where_the_gradient_is() -> None:
    report = verify.pair(cost_without_mean, RNG.normal(size=4), X, Y)
    (finding,) = report.findings
    assert (finding.input, finding.name.code) == ("theta", "factor")
    assert finding.correction is not None and finding.correction.rechecked
    assert finding.place is not None and finding.place.text.startswith("return")
    before, after = finding.correction.before, finding.correction.after
    assert before.split(",")[0] == after.split(",")[0], "the value is as it was"


def test_a_test_fails_with_the_diagnosis() -> None:
    verify.assert_gradients(Softmax(), X, LABELS)
    with pytest.raises(AssertionError, match="factor"):
        verify.assert_gradients(WithoutMean(), X, LABELS)


def test_a_helper_of_the_method_is_corrected() -> None:
    report = verify.pair(WithoutMean(), X, LABELS)
    assert {f.input for f in report.findings} == {"W", "b"}
    for finding in report.findings:
        assert finding.correction is not None and finding.correction.rechecked


def test_a_sign_of_what_is_left_in_the_object() -> None:
    (finding,) = verify.pair(LeftWithSign().measure, X, Y).findings
    assert (finding.input, finding.name.code) == ("w", "sign")
    assert finding.place is not None and "self.dw" in finding.place.text


@pytest.mark.parametrize("f", [lambda x: x * 2, lambda x: (x.sum(), "two"), lambda x: None])
def test_what_gives_no_gradient_is_refused(f: Any) -> None:
    with pytest.raises(ConfigError, match="give its backward as well"):
        verify.pair(f, X)


def test_a_method_that_leaves_nothing_is_refused() -> None:
    class Only:
        w = np.ones(4)

        def loss(self, x: Any) -> Any:
            return float(np.sum(x @ self.w))

    with pytest.raises(ConfigError, match="let it return a number and its gradients"):
        verify.pair(Only(), X)


def test_an_object_with_neither_is_refused() -> None:
    with pytest.raises(ConfigError, match="no method that gives a loss and its gradients"):
        verify.pair(object(), X)


LOOPED = """
def loss(self, x, y):
    h, tape, total = self.h0, [], 0.0
    for t in range(len(x)):
        new = np.tanh(x[t] @ self.w + h @ self.u)
        tape.append((h, new))
        total += np.sum((new - y[t]) ** 2)
        h = new
    dw = np.zeros_like(self.w)
    dh = 0
    for t in reversed(range(len(x))):
        before, now = tape[t]
        da = (2 * (now - y[t]) + dh) * (1 - now**2)
        dw += x[t].T @ da
        dh = da @ self.u.T
    self.seen = total
    return total / len(x), {"w": dw}
"""


def test_what_computes_the_value_is_told_from_what_computes_the_gradient() -> None:
    (function,) = tree_of(LOOPED).body
    lines = {s.lineno for s in statements_of_value(function)}
    assert lines == {3, 5, 7, 8}
    for f in (cost, in_order):
        (function,) = tree_of(inspect.getsource(f)).body
        assert statements_of_value(function) == function.body[:1]
