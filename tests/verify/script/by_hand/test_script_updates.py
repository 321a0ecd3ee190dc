"""Which statements are updates, and what gradient they claim."""

from __future__ import annotations

import ast

import pytest

from chainrule.verify.script.byhand.updates import LEAVE, handing_on, rewritten, updates_in

UPDATES = {
    "W -= lr * dW": "dW",
    "b = b - learning_rate * np.sum(d, axis=0)": "np.sum(d, axis=0)",
    "p[k] -= lr * g[k]": "g[k]",
    "self.W -= self.lr * self.dW / n": "self.dW / n",
    "theta = theta - (alpha / m) * X.T @ (h - y)": "1.0 / m * X.T @ (h - y)",
    "W += -eta * dW": "dW",
    "W += lr * X.T @ error": "-(X.T @ error)",
    "slope = slope - L * d_slope": "d_slope",
    "W -= lr * (dW + decay * W)": "dW + decay * W",
    "W -= lr * dW + lr * decay * W": "dW + decay * W",
    "v = mu * v - lr * dW\nW += v": "dW",
    "v[k] = mu * v[k] - lr * g[k]\np[k] += v[k]": "g[k]",
    "v = mu * v + (1 - mu) * dW\nW -= lr * v": "dW",
    "m = b1 * m + (1 - b1) * g\nh = m / (1 - b1 ** t)\nW -= lr * h / (np.sqrt(s) + e)": "g",
    "mem += dp * dp\np += -learning_rate * dp / np.sqrt(mem + 1e-8)": "dp",
    "dW = dW / n + decay * W\nW -= lr * dW": "dW",
    "np.add.at(E, rows, -lr * dE)": "dE",
    "W.data -= lr * g": "g",
    "W.sub_(lr * dW)": "dW",
    "W.add_(dW, alpha=-lr)": "dW",
    "new = [p - lr * g for p, g in zip(ps, gs)]": "g",
    "setattr(self, name, getattr(self, name) - lr * g)": "g",
}
NONE = [
    "dx -= dx.mean()",
    "logits -= logits.max()",
    "loss -= np.log(p)",
    "lr -= 0.5 * lr",
    "count += 1",
    "h = np.tanh(x @ W + b)",
    "mean = 0.9 * mean + 0.1 * x.mean(0)",
]


@pytest.mark.parametrize(("text", "gradient"), UPDATES.items())
def test_the_gradient_is_what_is_taken_off_without_its_rate(text: str, gradient: str) -> None:
    (update,) = updates_in(ast.parse(text))
    assert ast.unparse(update.gradient) == gradient


@pytest.mark.parametrize("text", NONE)
def test_other_arithmetic_is_none(text: str) -> None:
    tree = ast.parse(text)
    assert not [*updates_in(tree)]
    assert ast.unparse(rewritten(tree)) == text


def test_a_rewritten_update_hands_over_and_leaves_its_parameter() -> None:
    handed = list[object]()

    class Leave:
        def value(self, written: str, x: object, gradient: object) -> object:
            handed.append((written, gradient))
            return x

    scope = {LEAVE: Leave(), "W": 3.0, "lr": 0.1, "dW": 2.0}
    exec(compile(rewritten(ast.parse("W -= lr * dW\nW = W - lr * dW")), "", "exec"), scope)
    assert handed == [("W", 2.0), ("W", 2.0)]
    assert scope["W"] == 3.0


def test_only_some_targets_are_rewritten() -> None:
    text = ast.unparse(rewritten(ast.parse("W -= lr * dW\nz -= lr * dz"), {"W"}))
    assert text.splitlines()[1] == "z -= lr * dz" and LEAVE in text


def test_a_momentum_that_goes_down_hands_a_gradient_on() -> None:
    text = "v = mu * v - lr * dW\nW += v"
    assert [ast.unparse(n) for n in handing_on(ast.parse(text))] == [
        "W += v",
        "v = mu * v - lr * dW",
    ]
    up = ast.parse(text.replace("- lr", "+ lr"))  # its own sign may be what is wrong
    assert [ast.unparse(n) for n in handing_on(up)] == ["W += v"]
