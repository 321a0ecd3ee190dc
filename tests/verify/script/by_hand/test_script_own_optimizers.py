"""Optimizers that a script has written itself: held against the formulas of known ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=5),
]

LOOP = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3))
y = X @ np.array([1.0, -2.0, 0.5])
w, {state}
lr, b1, b2, eps, mu = 0.05, 0.9, 0.99, 1e-8, 0.8
for t in range(1, 30):
    e = X @ w - y
    loss = np.mean(e * e)
    g = 2 * X.T @ e / len(X)
{step}
    print(t, loss)
"""
CLASS = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3))
y = X @ np.array([[1.0], [-2.0], [0.5]]) + 0.3

class Optimizer:
    def __init__(self, params, rate=0.01, beta1=0.9, beta2=0.999):
        self.params, self.rate, self.beta1, self.beta2, self.t = params, rate, beta1, beta2, 0
        self.m = {{k: np.zeros_like(p) for k, p in params.items()}}
        self.s = {{k: np.zeros_like(p) for k, p in params.items()}}

    def step(self, grads):
        self.t += 1
        for k, p in self.params.items():
{step}

p = {{"w": rng.normal(size=(3, 1)), "b": np.zeros(1)}}
opt = Optimizer(p)
while opt.t < 20:
    e = X @ p["w"] + p["b"] - y
    loss = np.mean(e * e)
    d = 2 * e / len(X)
    opt.step({{"w": X.T @ d, "b": d.sum(0)}})
    print(loss)
"""
ADAM = """
m = b1 * m + (1 - b1) * g
s = b2 * s + (1 - b2) * g * g
mh = m / (1 - b1 ** t)
sh = s / (1 - b2 ** t)
w -= lr * mh / (np.sqrt(sh) + eps)
"""
OWN = """
self.m[k] = self.beta1 * self.m[k] + (1 - self.beta1) * grads[k]
self.s[k] = self.beta2 * self.s[k] + (1 - self.beta2) * grads[k] ** 2
mh = self.m[k] / (1 - self.beta1 ** self.t)
sh = self.s[k] / (1 - self.beta2 ** self.t)
p -= self.rate * mh / (np.sqrt(sh) + 1e-7)
"""
ZERO, TWO = "v = np.zeros(3), np.zeros(3)", "m, s = np.zeros(3), np.zeros(3), np.zeros(3)"


def loop(step: str, state: str = TWO) -> str:
    lines = ["    " + line for line in step.strip().splitlines()]
    return LOOP.format(state=state, step="\n".join(lines))


def own(step: str = OWN) -> str:
    lines = ["            " + line for line in step.strip().splitlines()]
    return CLASS.format(step="\n".join(lines))


WRONG = {
    "a velocity that turns": (loop("v = -mu * v + g\nw -= lr * v", ZERO), "mu * v + g"),
    "squares that are none": (
        loop(ADAM.replace("(1 - b2) * g * g", "(1 - b2) * g")), "s = b2 * s"),
    "the other rate": (loop(ADAM.replace("s / (1 - b2", "s / (1 - b1")), "b2 ** t"),
    "no power": (loop(ADAM.replace("(1 - b1 ** t)", "(1 - b1)")), "b1 ** t"),
    "a mean for another": (loop(ADAM.replace("lr * mh", "lr * m")), "lr * mh"),
    "in a class": (own(OWN.replace("(1 - self.beta2 ** self.t)", "(1 - self.beta1 ** self.t)")),
                   "self.beta2 ** self.t"),
    "a rate of the wrong mean": (
        own(OWN.replace("self.s[k] = self.beta2 *", "self.s[k] = self.beta1 *")), "self.beta2"),
}  # fmt: skip
RIGHT = {
    "adam": loop(ADAM),
    "adam in a class": own(),
    "without its bias": loop(ADAM.replace(" / (1 - b1 ** t)", "").replace(" / (1 - b2 ** t)", "")),
    "momentum": loop("v = mu * v + g\nw -= lr * v", ZERO),
    "a mean": loop("v = mu * v + (1 - mu) * g\nw = w - lr * v", ZERO),
    "a step that is kept": loop("v = mu * v - lr * g\nw += v", ZERO),
    "nesterov": loop("v = mu * v + g\nw -= lr * (g + mu * v)", ZERO),
    "rmsprop": loop("s = b2 * s + (1 - b2) * g ** 2\nw -= lr * g / (np.sqrt(s) + eps)"),
    "adagrad": loop("s += g * g\nw -= lr * g / np.sqrt(s + eps)"),
    "a falling rate": loop("rate = lr / (1 + 0.1 * t)\nv = mu * v + g\nw -= rate * v", ZERO),
    "a falling rate in the step": loop("v = mu * v + g\nw -= lr / (1 + 0.1 * t) * v", ZERO),
    "a rate by the root of the count": loop("v = mu * v + g\nw -= lr / np.sqrt(t) * v", ZERO),
    "warming momentum": loop("mu = min(0.9, 1 - 1 / t)\nv = mu * v + g\nw -= lr * v", ZERO),
    "clipped": loop("g = np.clip(g, -1, 1)\nv = mu * v + g\nw -= lr * v", ZERO),
    "decoupled decay": loop(ADAM + "w -= lr * 0.01 * w"),
    "yogi": loop(ADAM.replace("s = b2 * s + (1 - b2) * g * g",
                              "s = s - (1 - b2) * np.sign(s - g * g) * g * g")),
    "lion": loop("u = np.sign(b1 * m + (1 - b1) * g)\nm = b2 * m + (1 - b2) * g\nw -= lr * u"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_step_that_is_nearly_a_known_one_is_corrected(tmp_path: Path, name: str) -> None:
    text, after = WRONG[name]
    found = [f for f in observed(tmp_path, text)[0] if f.name.code == "wrong_update"]
    assert len(found) == 1
    assert found[0].correction is not None and after in found[0].correction.after


@pytest.mark.parametrize("name", RIGHT)
def test_a_known_one_is_right(tmp_path: Path, name: str) -> None:
    found, _, _ = observed(tmp_path, RIGHT[name])
    assert not [f for f in found if f.name.code == "wrong_update"]


BY_INDEX = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(25, 4))
y = X @ np.array([0.5, -1.0, 2.0, 0.1]) + 0.2
params = [np.zeros(4), np.zeros(1)]
first, second = [[np.zeros_like(p) for p in params] for _ in range(2)]
for t in range(1, 30):
    e = X @ params[0] + params[1] - y
    loss = (e ** 2).mean()
    grads = [2 * X.T @ e / 25, np.array([2 * e.mean()])]
    for i in range(2):
        first[i] = 0.9 * first[i] + 0.1 * grads[i]
        second[i] = 0.99 * second[i] + 0.01 * grads[i] ** 2
        rate = 0.02 * (1 - 0.99 ** t) ** 0.5 / (1 - 0.9 ** t)
        params[i] -= rate * first[i] / (np.sqrt(second[i]) + 1e-8)
print(loss)
"""


@pytest.mark.parametrize("slip", ["", "slip"])
def test_a_loss_that_a_loop_within_does_not_move_is_none_of_its_own(tmp_path: Path, slip: str):
    """The inner loop computes no gradient; that of the outer one is judged."""
    text = BY_INDEX.replace("2 * X.T @ e / 25", "X.T @ e / 25") if slip else BY_INDEX
    found, _, _ = observed(tmp_path, text)
    assert [f.place.text for f in found if f.level == "error" and f.place] == (
        ["grads = [X.T @ e / 25, np.array([2 * e.mean()])]"] if slip else []
    )
