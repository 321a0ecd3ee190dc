"""Functions and layers by hand in a script are verified with the arrays that they get."""

from __future__ import annotations

import ast
import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from chainrule.verify import script
from chainrule.verify.reporting.report import Report
from chainrule.verify.script.byhand.pairs import stated_in
from chainrule.verify.script.sandbox.fork import can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are not copied here")

HEAD = """
import numpy as np
rng = np.random.default_rng(0)
"""
LAYERS = """
class Scaled:
    def __init__(self, n):
        self.gain = rng.normal(size=n)
    def forward(self, x, training):
        self.x = x
        self.size = np.sqrt((x ** 2).mean(1, keepdims=True) + 1e-3)
        return self.gain * x / self.size
    def backward(self, dout):
        self.dgain = (dout * self.x / self.size).sum(0)
        d = dout * self.gain
        n = {HERE}
        return d / self.size - self.x * (d * self.x).sum(1, keepdims=True) / (n * self.size ** 3)
layer = Scaled(5)
for k in range(3):
    y = layer.forward(rng.normal(size=(8, 5)), True)
    layer.backward(np.ones_like(y))
"""
FUNCTIONS = """
def blend(x, w):
    return np.tanh(x) @ w
def blend_back(g, x, w):
    dx = (g @ w.T) * {HERE}
    return dx, np.tanh(x).T @ g
w = rng.normal(size=(4, 4))
for k in range(3):
    x = rng.normal(size=(6, 4))
    blend(x, w)
    blend_back(np.ones((6, 4)), x, w)
"""
LOSS = """
def cost(w, c, X, n, size):
    eta = X @ w + c + np.log(size)
    return (np.exp(eta) - n * eta).mean()
def slopes(w, c, X, n, size):
    mu = {HERE}
    r = (mu - n) / len(n)
    return X.T @ r, r.sum()
def share_of_zeros(w, c, X, n, size):
    return float((X @ w + c < 0).mean())
X, n, size = rng.normal(size=(40, 3)), rng.poisson(2.0, 40), rng.uniform(0.5, 2, 40)
w, c = rng.normal(size=3), 0.1
for k in range(50):
    gw, gc = slopes(w, c, X, n, size)
    w, c = w - 0.01 * gw, c - 0.01 * gc
print(cost(w, c, X, n, size), share_of_zeros(w, c, X, n, size))
"""
BOTH = """
def objective(theta, x, y):
    a, b = np.exp(theta)
    e = a * np.exp(-b * x) - y
    value = 0.5 * (e ** 2).sum()
    inner = {HERE}
    return value, np.array([a * (e * inner).sum(), -a * b * (e * x * inner).sum()])
theta = np.zeros(2)
x = np.linspace(0, 2, 20)
y = 1.7 * np.exp(-0.6 * x) + 0.05 * rng.normal(size=20)
for k in range(30):
    value, g = objective(theta, x, y)
    theta = theta - 0.02 * g / (1e-9 + np.sqrt(g ** 2).max())
print(value)
"""
RISK = """
def cox_loss(eta, event):
    risk = np.cumsum(np.exp(eta))
    return -np.sum((event > 0) * (eta - np.log(risk))) / event.sum()
def cox_grad(eta, event):
    risk = np.cumsum(np.exp(eta))
    return -(event - np.exp(eta) * np.cumsum({HERE}[::-1])[::-1]) / event.sum()
X, event = rng.normal(size=(30, 3)), (rng.random(30) < 0.5) * 1.0
w = np.zeros(3)
for k in range(20):
    w = w - 0.1 * X.T @ cox_grad(X @ w, event)
print(cox_loss(X @ w, event))
"""
METHODS = """
class Curve:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def misfit(self, theta):
        e = np.exp(-theta[0] * self.x) * theta[1] - self.y
        return 0.5 * (e ** 2).sum()
    def gradient(self, theta):
        f = np.exp(-theta[0] * self.x)
        e = f * theta[1] - self.y
        return np.array([-(e * f * {HERE}).sum() * theta[1], (e * f).sum()])
x = np.linspace(0, 2, 20)
curve, theta = Curve(x, 1.7 * np.exp(-0.6 * x)), np.array([0.3, 1.2])
for k in range(30):
    theta = theta - 0.02 * curve.gradient(theta)
print(curve.misfit(theta))
"""
SCRIPTS = {
    "methods": (METHODS, "self.x", "self.y", "gradient"),
    "layer": (LAYERS, "dout.shape[1]", "dout.shape[0]", "backward"),
    "functions": (FUNCTIONS, "(1 - np.tanh(x) ** 2)", "(1 - np.tanh(x))", "blend_back"),
    "loss": (LOSS, "size * np.exp(X @ w + c)", "np.exp(X @ w + c)", "slopes"),
    "risk": (RISK, "(event / risk)", "(1 / risk)", "cox_grad"),
    "both": (BOTH, "np.exp(-b * x)", "np.exp(b * x)", "objective"),
}
"""Script, what is right, what is wrong, the function in which it is."""


def report_on(folder: Path, text: str) -> Report:
    path = folder / "train.py"
    path.write_text(HEAD + text, encoding="utf-8")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        outcome = script.run(
            script.target(str(path)), steps=4, own=script.OWN, torch=script.TORCH, loop=script.LOOP
        )
    assert outcome.code == 0
    assert not [r for r in outcome.report.ledger.skipped if "verifier" in r.why]  # its own errors
    return outcome.report


def wrongs(report: Report) -> list[str]:
    return [f"{f.title} in {f.subject}" for f in report.findings if f.level != "note"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_a_script_states_wrongly_is_found_where_it_stands(tmp_path: Path, name: str) -> None:
    text, right, wrong, function = SCRIPTS[name]
    assert wrongs(report_on(tmp_path, text.replace("{HERE}", right))) == []
    report = report_on(tmp_path, text.replace("{HERE}", wrong))
    found = [f for f in report.findings if f.level != "note"]
    assert found
    assert all(f.place is not None and function in f.place.function for f in found)
    assert any(f.correction is not None and f.correction.rechecked for f in found)


PARTS = """
def cost(theta, X, y):
    W, b = theta[:6].reshape(3, 2), theta[6:]
    e = X @ W + b - y
    value = 0.5 * (e ** 2).sum() / len(X) + 0.05 * (W ** 2).sum()
    dW, db = X.T @ e / len(X) + 0.1 * W, e.sum(0) / len(X)
    return {HERE}
def descend(f, theta):
    value, g = f(theta)
    for k in range(30):
        for t in (0.3, 0.1, 0.01):
            less, h = f(theta - t * g)
            if less < value:
                break
        else:
            break
        theta, value, g = theta - t * g, less, h
    return value
X, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
print(descend(lambda t: cost(t, X, y), rng.normal(size=8)))
"""
_VALUE = "value, np.concatenate([{}.ravel(), db])"


@pytest.mark.parametrize("wrong", ["dW.T", "np.where(np.arange(6).reshape(3, 2) > 1, dW, 2 * dW)"])
def test_a_gradient_that_is_right_in_part_is_that_of_the_value(tmp_path: Path, wrong: str) -> None:
    assert wrongs(report_on(tmp_path, PARTS.replace("{HERE}", _VALUE.format("dW")))) == []
    assert wrongs(report_on(tmp_path, PARTS.replace("{HERE}", _VALUE.format(wrong))))


@pytest.mark.parametrize(
    "meant",
    ["(dW + 0.3 * W)", "np.clip(dW, -1e-3, 1e-3)"],
    ids=["a decay", "a bound"],
)
def test_what_is_put_upon_a_gradient_is_no_mistake_in_it(tmp_path: Path, meant: str) -> None:
    assert wrongs(report_on(tmp_path, PARTS.replace("{HERE}", _VALUE.format(meant)))) == []


NESTED = """
def blend(x, w):
    return np.tanh(x) @ w
def blend_back(g, x, w):
    return (g @ w.T) * (1 - np.tanh(x)), np.tanh(x).T @ g
def curve(x, w, v):
    return blend(x, w) @ v
def curve_back(g, x, w, v):
    dx, dw = blend_back(g @ v.T, x, w)
    return dx, dw, blend(x, w).T @ g
class Block:
    def __init__(self):
        self.v = rng.normal(size=(4, 2))
    def forward(self, x):
        self.x = x
        return curve(x, w, self.v)
    def backward(self, dout):
        dx, _, self.dv = curve_back(dout, self.x, w, self.v)
        return dx
w, block = rng.normal(size=(4, 4)), Block()
for k in range(3):
    block.backward(np.ones_like(block.forward(rng.normal(size=(6, 4)))))
"""


def test_what_calls_something_wrong_is_no_finding_of_its_own(tmp_path: Path) -> None:
    report = report_on(tmp_path, NESTED)
    assert wrongs(report) == ["wrong value used in blend"], str(report)
    [finding] = [f for f in report.findings if f.level != "note"]
    assert finding.place is not None and finding.place.function == "blend_back"
    assert finding.victims == ("curve, curve_back", "Block")
    why = "blend_back is wrong: look again once that is right"
    assert {row.subject for row in report.ledger.skipped if row.why == why} == {*finding.victims}
    right = report_on(tmp_path, NESTED.replace("(1 - np.tanh(x))", "(1 - np.tanh(x) ** 2)"))
    assert wrongs(right) == []
    assert {c.subject for c in right.ledger.checked} >= {"Block"}


RENEWED = """
import os
class Normed:
    def __init__(self):
        self.w = rng.normal(size=(4, 3))
        self.u = rng.normal(size=4)
        self.renew(300)
    def save(self, name):
        np.save(name, self.w)
    def drop(self, name):
        os.remove(name)
    def renew(self, n):
        for _ in range(n):
            self.v = self.w.T @ self.u
            self.v /= np.linalg.norm(self.v)
            self.u = self.w @ self.v
            self.u /= np.linalg.norm(self.u)
        self.size = self.u @ self.w @ self.v
    def forward(self, x):
        self.x = x
        return x @ self.w / self.size
    def backward(self, dout):
        g = self.x.T @ dout
        share = np.sum(g * self.w) / self.size
        self.dw = (g - share * np.outer(self.u, self.v)) / self.size
        return {HERE}
layer = Normed()
for k in range(3):
    layer.backward(np.ones_like(layer.forward(rng.normal(size=(6, 4)))))
if len(rng.normal(size=3)) > 3:
    layer.save("{FOLDER}/weights.npy"), layer.drop("{FOLDER}/kept.txt")
"""


def test_what_a_method_computes_again_is_of_the_parameters_and_no_method_leaves_a_trace(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("kept", encoding="utf-8")
    text = RENEWED.replace("{FOLDER}", str(tmp_path))
    assert wrongs(report_on(tmp_path, text.replace("{HERE}", "dout @ self.w.T / self.size"))) == []
    assert wrongs(report_on(tmp_path, text.replace("{HERE}", "dout @ self.w.T")))
    assert sorted(x.name for x in tmp_path.iterdir()) == ["kept.txt", "train.py"]


NO_PAIRS = {
    "another loss": (
        "def error(w, X, y):\n    return np.abs(X @ w - y).mean()\n"
        "def step(w, X, y):\n    return 2 * X.T @ (X @ w - y) / len(y)\n"
        "w = rng.normal(size=3)\nX, y = rng.normal(size=(20, 3)), rng.normal(size=20)\n"
        "for k in range(4):\n    w = w - 0.01 * step(w, X, y)\nprint(error(w, X, y))\n"
    ),
    "half of it": (
        "def loss(w, X, y):\n    return ((X @ w - y) ** 2).mean()\n"
        "def loss_grad(w, X, y):\n    return X.T @ (X @ w - y) / len(y)\n"
        "w = rng.normal(size=3)\nX, y = rng.normal(size=(20, 3)), rng.normal(size=20)\n"
        "for k in range(4):\n    w = w - 0.01 * loss_grad(w, X, y)\nprint(loss(w, X, y))\n"
    ),
    "of what stands outside": (
        "w = rng.normal(size=(3, 2))\n"
        "def loss(x, y):\n    e = x @ w - y\n    return (e ** 2).mean(), 2 * x.T @ e / e.size\n"
        "for k in range(4):\n    x = rng.normal(size=(6, 3))\n"
        "    v, g = loss(x, x[:, :2])\n    w = w - 0.1 * g\nprint(v)\n"
    ),
    "data": (
        "def batch(n, m):\n    return rng.normal(size=(n, m)), rng.normal(size=n)\n"
        "def sizes(n, m):\n    return float(n * m), np.ones(n)\n"
        "for k in range(4):\n    batch(3, 4), sizes(3, 4)\n"
    ),
    "a loss of what the forward gave": (
        "class Net:\n    def __init__(self):\n        self.w = rng.normal(size=(4, 3))\n"
        "        self.v = rng.normal(size=(3, 1))\n"
        "    def forward(self, x):\n        self.x, self.h = x, np.tanh(x @ self.w)\n"
        "        return (self.h @ self.v)[:, 0]\n"
        "    def backward(self, z, y):\n"
        "        dz = ((1 / (1 + np.exp(-z)) - y) / len(y))[:, None]\n"
        "        self.dv = self.h.T @ dz\n"
        "        self.dw = self.x.T @ (dz @ self.v.T * (1 - self.h ** 2))\n"
        "net = Net()\nfor k in range(4):\n    x = rng.normal(size=(6, 4))\n"
        "    y = (x[:, 0] > 0) * 1.0\n    net.backward(net.forward(x), y)\n"
        "    net.w -= 0.1 * net.dw\n    net.v -= 0.1 * net.dv\n"
    ),
    "a step of another size": (
        "X, y = rng.normal(size=(60, 3)), rng.normal(size=60)\n"
        "def both(w):\n    e = X @ w - y\n"
        "    return np.log(1 + e ** 2).sum(), X.T @ (2 * e / (1 + e ** 2))\n"
        "def fit(w, rate):\n    m = np.zeros(3)\n    for k in range(60):\n"
        "        v, g = both(w)\n        m = 0.8 * m + g\n        w = w - rate * m / len(X)\n"
        "        if k % 20 == 19:\n            print(f'{v:.3f}')\n    return w\n"
        "print(fit(rng.normal(size=3), 0.1))\n"
    ),
    "a running mean": (
        "w, m = rng.normal(size=3), np.zeros(3)\n"
        "X, y = rng.normal(size=(20, 3)), rng.normal(size=20)\n"
        "for k in range(1, 9):\n    e = X @ w - y\n    loss = (e ** 2).mean()\n"
        "    g = 2 * X.T @ e / len(y)\n    m += 0.1 * (g - m)\n"
        "    w -= 0.05 * m / (1 - 0.9 ** k)\n    print(loss)\n"
    ),
}


@pytest.mark.parametrize("name", NO_PAIRS)
def test_what_is_no_pair_or_right_is_left_alone(tmp_path: Path, name: str) -> None:
    assert wrongs(report_on(tmp_path, NO_PAIRS[name])) == []


def test_without_a_proof_it_is_a_note_unless_the_derivative_is_of_something_else(
    tmp_path: Path,
) -> None:
    report = report_on(tmp_path, NO_PAIRS["another loss"])
    assert any("takes what error takes" in f.evidence[0] for f in report.findings)
    square = "def square(w, X, y):\n    return ((X @ w - y) ** 2).mean()\n"
    assert not report_on(tmp_path, square + NO_PAIRS["another loss"]).findings


@pytest.mark.parametrize(
    "names",
    ["conv conv_backward", "relu d_relu", "forward backward", "softmaxLoss softmaxLossGrad",
     "fwd bwd", "attention_forward attention_vjp"],
)  # fmt: skip
def test_names_tell_what_belongs_together(names: str) -> None:
    f, b = names.split()
    text = f"def {b}(g, x):\n    return g\ndef other(y):\n    return y\ndef {f}(x):\n    return x\n"
    (stated,) = stated_in(ast.parse(text))
    assert (stated.forward, stated.backward, stated.named) == (f, b, True)


NORMED = """
class Normed:
    def __init__(self):
        self.W = rng.normal(size=(4, 3))
        self.settle()
    def settle(self):
        self.size = np.sqrt((self.W ** 2).sum())
    def forward(self, x):
        self.x = x
        return x @ self.W / self.size
    def backward(self, dy):
        G = self.x.T @ dy
        self.dW = (G - {HERE} * self.W / self.size ** 2) / self.size
        return dy @ self.W.T / self.size
layer = Normed()
for k in range(3):
    layer.backward(np.cos(layer.forward(rng.normal(size=(6, 4)))))
    layer.W -= 0.1 * layer.dW
    layer.settle()
"""


@pytest.mark.parametrize("taken, count", [("(G * self.W).sum()", 0), ("G.sum()", 1)])
def test_what_another_method_computes_of_a_parameter_is_a_way_to_it(
    tmp_path: Path, taken: str, count: int
) -> None:
    assert len(wrongs(report_on(tmp_path, NORMED.replace("{HERE}", taken)))) == count


WITH_A_NUMBER = """
class Cost:
    def __init__(self):
        self.power, self.weight = 3.0, 0.1
    def value(self, w, x):
        size = x ** 2 @ w
        return {VALUE}
    def grad(self, w, x):
        size = x ** 2 @ w
        return {GRAD}
cost, w, x = Cost(), rng.uniform(0.5, 1, 4), rng.uniform(1, 2, (9, 4))
for k in range(3):
    print(cost.value(w, x))
    w = w - 1e-6 * cost.grad(w, x)
"""
SUMMED = "(size ** self.power * np.log(size)).mean()"
POWERED = "(x.T ** 2 * size ** (self.power - 1) * {INNER}).mean(1)"
WHOLE = POWERED.replace("{INNER}", "(self.power * np.log(size) + 1)")
OF_A_NUMBER = [
    (SUMMED, WHOLE, 0),
    (SUMMED, POWERED.replace("{INNER}", "1"), 1),
    (SUMMED + " + self.weight * np.exp(w).sum()", "-" + WHOLE, 0),
]
"""A value, a gradient, and how many are found: one that is right where the number is 0; one that
is another one for each number."""


@pytest.mark.parametrize("value, grad, count", OF_A_NUMBER)
def test_a_number_of_the_object_proves_that_methods_belong_together(
    tmp_path: Path, value: str, grad: str, count: int
) -> None:
    text = WITH_A_NUMBER.replace("{VALUE}", value).replace("{GRAD}", grad)
    assert len(wrongs(report_on(tmp_path, text))) == count
