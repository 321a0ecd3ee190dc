"""Scripts that change their parameters themselves, in NumPy or PyTorch, with no optimizer."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from chainrule.verify.script.byhand.step import WHAT
from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.by_hand.by_hand import looked_at

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

FLAT = """
import numpy as np
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
W1, b1 = rng.normal(size=(3, 4)) * 0.5, np.zeros(4)
W2, b2 = rng.normal(size=(4, 2)) * 0.5, np.zeros(2)
lr = 0.05
for step in range(6):
    rows = rng.permutation(9)[:7]
    x, y = X[rows], Y[rows]
    h = np.tanh(x @ W1 + b1)
    e = h @ W2 + b2 - y
    loss = np.sum(e * e) / len(x)
    de = 2 * e / len(x)
    dW2, db2 = h.T @ de, de.sum(axis=0)
    dh = de @ W2.T * (1 - h * h)
    dW1, db1 = x.T @ dh, dh.sum(axis=0)
    W1 -= lr * dW1
    b1 = b1 - lr * db1
    W2 -= lr * dW2
    b2 -= lr * db2
    print(step, loss)
"""
MOMENTUM = """
import numpy as np
rng = np.random.default_rng(1)
x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 1))
params = {"w": rng.normal(size=(3, 5)), "c": np.zeros(5), "v": rng.normal(size=(5, 1))}
speed = {k: np.zeros_like(p) for k, p in params.items()}

def gradients(p):
    h = np.maximum(x @ p["w"] + p["c"], 0)
    out = h @ p["v"]
    d = 2 * (out - y) / len(y)
    dh = (d @ p["v"].T) * (h > 0)
    return out, {"w": x.T @ dh, "c": dh.sum(0), "v": h.T @ d}

def train():
    for step in range(5):
        out, grads = gradients(params)
        if step % 2 == 0:
            print(f"{step}: {np.mean((out - y) ** 2):.3f}")
        for k in params:
            speed[k] = 0.9 * speed[k] - 0.05 * grads[k]
            params[k] += speed[k]

train()
"""
LAYERS = """
import numpy as np
rng = np.random.default_rng(2)

class Dense:
    def __init__(self, n, m):
        self.W, self.b = rng.normal(size=(n, m)) * 0.6, np.zeros(m)
        self.reset()
    def reset(self):
        self.dW, self.db = np.zeros_like(self.W), np.zeros_like(self.b)
    def forward(self, x):
        self.x = x
        return x @ self.W + self.b
    def backward(self, g):
        self.dW += self.x.T @ g
        self.db += g.sum(axis=0)
        return g @ self.W.T
    def update(self, lr):
        self.W -= lr * self.dW
        self.b -= lr * self.db

class Tanh:
    def reset(self): pass
    def forward(self, x):
        self.y = np.tanh(x)
        return self.y
    def backward(self, g):
        return g * (1 - self.y ** 2)
    def update(self, lr): pass

layers = [Dense(3, 5), Tanh(), Dense(5, 2)]
x, y = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
losses = []
for epoch in range(5):
    out = x
    for layer in layers:
        layer.reset()
        out = layer.forward(out)
    losses.append(((out - y) ** 2).mean())
    g = 2 * (out - y) / out.size
    for layer in reversed(layers):
        g = layer.backward(g)
    for layer in layers:
        layer.update(0.1)
print(losses)
"""
TORCH = """
import torch
torch.manual_seed(3)
x, y = torch.randn(7, 3), torch.randint(0, 4, (7,))
w, b = torch.randn(3, 4) * 0.5, torch.zeros(4)
rate = 0.2
for step in range(5):
    p = torch.softmax(x @ w + b, 1)
    loss = -p[torch.arange(7), y].log().mean()
    d = p.clone()
    d[torch.arange(7), y] -= 1
    d /= len(x)
    w -= rate * (x.T @ d)
    b -= rate * d.sum(0)
    print(step, loss.item())
"""
LINE = """
xs, ys = [0.5, 1.0, 2.5, 4.0], [1.0, 2.2, 4.9, 8.3]
m = c = 0.3
L = 0.01
for step in range(6):
    errors = [m * x + c - y for x, y in zip(xs, ys)]
    cost = sum(e * e for e in errors) / len(xs)
    D_m = 2 * sum(e * x for e, x in zip(errors, xs)) / len(xs)
    D_c = 2 * sum(errors) / len(xs)
    m = m - L * D_m
    c = c - L * D_c
    print(step, cost)
"""
TEXTS = {"flat": FLAT, "momentum": MOMENTUM, "layers": LAYERS, "torch": TORCH, "numbers": LINE}


@pytest.mark.parametrize("name", TEXTS)
def test_right_ones_are_looked_at_and_right(tmp_path: Path, name: str) -> None:
    found, outcome, printed = looked_at(tmp_path, TEXTS[name])
    assert not found and outcome.is_seen
    assert WHAT in [c.subject for c in outcome.report.ledger.checked]
    alone = io.StringIO()
    with redirect_stdout(alone):
        exec(compile(TEXTS[name], "alone", "exec"), {"__name__": "__main__"})
    assert printed == alone.getvalue()


WRONG = [
    ("flat", "(1 - h * h)", "(1 - h)", "b1", "1 - h"),
    ("flat", "db2 = h.T @ de, de.sum(axis=0)", "db2 = h.T @ de, de.mean(axis=0)", "b2", "sum"),
    ("momentum", "* (h > 0)", "* (h < 0)", "params['w']", "h > 0"),
    ("layers", "return g @ self.W.T", "return -g @ self.W.T", "x", "return g @ self.W.T"),
    ("layers", "g * (1 - self.y ** 2)", "g * (1 + self.y ** 2)", "x", "1 - self.y ** 2"),
    ("torch", "b -= rate * d.sum(0)", "b -= rate * d.mean(0)", "b", "d.sum(0)"),
    ("numbers", "D_c = 2 * sum", "D_c = -2 * sum", "c", "D_c = 2 * sum"),
]


@pytest.mark.parametrize(("name", "old", "new", "parameter", "after"), WRONG)
def test_wrong_ones_are_corrected(
    tmp_path: Path, name: str, old: str, new: str, parameter: str, after: str
) -> None:
    assert TEXTS[name].count(old) == 1
    _, outcome, _ = looked_at(tmp_path, TEXTS[name].replace(old, new))
    found = [f for f in outcome.report.findings if f.level != "note"]  # of a layer, if one is wrong
    assert parameter in [f.input for f in found]
    assert found[0].place is not None and new.splitlines()[-1].strip() in found[0].place.text
    assert found[0].correction is not None and found[0].correction.rechecked
    assert after in found[0].correction.after


def test_gradients_that_are_never_reset(tmp_path: Path) -> None:
    (finding,), _, _ = looked_at(tmp_path, LAYERS.replace("        layer.reset()\n", ""))
    assert finding.name.code == "not_reset"
    assert finding.place is not None and "self.dW +=" in finding.place.text


def test_a_parameter_that_grows_by_its_update(tmp_path: Path) -> None:
    text = TORCH.replace("b -= rate * d.sum(0)", "b = b - rate * d")
    (finding,), _, _ = looked_at(tmp_path, text)
    assert (finding.name.code, finding.input) == ("not_summed", "b")
    assert finding.place is not None and finding.place.text == "b = b - rate * d"


@pytest.mark.sweep
def test_a_parameter_that_is_updated_before_a_gradient_has_read_it(tmp_path: Path) -> None:
    early = FLAT.replace("    W2 -= lr * dW2\n", "").replace(
        "    dh =", "    W2 -= lr * dW2\n    dh ="
    )
    (finding,), _, _ = looked_at(tmp_path, early)
    assert (finding.name.code, finding.input, finding.level) == ("stale", "W1", "warning")
    assert finding.place is not None and finding.place.text == "W2 -= lr * dW2"


def test_a_factor_that_all_gradients_share_is_the_rates(tmp_path: Path) -> None:
    found, outcome, _ = looked_at(tmp_path, MOMENTUM.replace("d = 2 * (out", "d = (out"))
    assert not found
    assert any("0.5 times" in s.why for s in outcome.report.ledger.skipped)


@pytest.mark.sweep
def test_gradients_that_make_grow_what_is_to_fall_have_the_wrong_sign(tmp_path: Path) -> None:
    text = MOMENTUM.replace("d = 2 * (out - y)", "d = 2 * (y - out)")
    found, _, _ = looked_at(tmp_path, text)
    assert {f.name.code for f in found} == {"sign"} and len(found) == 3
    assert found[0].place is not None and "(y - out)" in found[0].place.text


def test_a_term_of_the_loss_that_one_gradient_lacks_is_no_decay_of_the_others(
    tmp_path: Path,
) -> None:
    decayed = (
        "data = np.sum(e * e) / len(x)\n    loss = data + 0.01 * (np.sum(W1**2) + np.sum(W2**2))"
    )
    text = FLAT.replace("loss = np.sum(e * e) / len(x)", decayed)
    right = text.replace("    W1 -=", "    dW1 += 0.02 * W1\n    dW2 += 0.02 * W2\n    W1 -=")
    assert not looked_at(tmp_path, right)[0]
    found, _, _ = looked_at(tmp_path, right.replace("    dW1 += 0.02 * W1\n", ""))
    assert [f.input for f in found] == ["W1"]


def test_of_a_loss_by_name_a_factor_is_said(tmp_path: Path) -> None:
    found, _, _ = looked_at(tmp_path, FLAT.replace("2 * e / len(x)", "2 * e"))
    assert {f.input for f in found} == {"W1", "b1", "W2", "b2"}
    assert found[0].name.code == "factor"


def test_without_a_loss_nothing_is_judged(tmp_path: Path) -> None:
    text = FLAT.replace("    print(step, loss)\n", "").replace("    loss = np", "    np")
    found, outcome, _ = looked_at(tmp_path, text.replace("* (1 - h * h)", "* (1 - h)"))
    assert not found and not outcome.is_seen
    assert any("no loss was seen" in s.why for s in outcome.report.ledger.skipped)


def test_a_metric_that_is_only_printed_is_not_taken_for_the_loss(tmp_path: Path) -> None:
    text = FLAT.replace("loss = np.sum(e * e) / len(x)", "error = np.abs(e).mean()")
    found, outcome, _ = looked_at(tmp_path, text.replace("print(step, loss)", "print(step, error)"))
    assert not found
    assert any("not those of" in s.why for s in outcome.report.ledger.skipped)


@pytest.mark.parametrize("most", ["0.02", "most"])
def test_gradients_that_are_clipped_are_meant_so(tmp_path: Path, most: str) -> None:
    clip = "    most = 0.02\n    for d in (dW1, db1, dW2, db2):\n"
    clip += f"        np.clip(d, -{most}, {most}, out=d)\n"
    found, outcome, _ = looked_at(tmp_path, FLAT.replace("    W1 -=", clip + "    W1 -="))
    assert not found
    assert any("clipped" in s.why for s in outcome.report.ledger.skipped)


DUEL = """
import numpy as np
rng = np.random.default_rng(0)
w, v = rng.normal(size=3), rng.normal(size=2)
for it in range(40):
    z, real = rng.normal(size=(32, 3)), 1 + rng.normal(size=32)
    fake = z @ w
    a, b = v[0] * real + v[1], v[0] * fake + v[1]
    pa, pb = 1 / (1 + np.exp(-a)) - 1, 1 / (1 + np.exp(-b))
    loss_d = np.logaddexp(0, -a).mean() + np.logaddexp(0, b).mean()
    loss_g = np.logaddexp(0, -b).mean()
    dv = np.array([(pa * real).mean() + (pb * fake).mean(), pa.mean() + pb.mean()])
    dw = {HERE}
    v -= 0.1 * dv
    w -= 0.1 * dw
    print(loss_d, loss_g)
"""


def test_opponents_have_losses_of_their_own(tmp_path: Path) -> None:
    right = "v[0] * ((pb - 1)[:, None] * z).mean(0)"
    found, outcome, _ = looked_at(tmp_path, DUEL.replace("{HERE}", right))
    assert not found
    assert any("which go against each other" in s.why for s in outcome.report.ledger.skipped)
    wrong = right.replace("v[0] * ", "v[0] ** 2 * ")
    assert looked_at(tmp_path, DUEL.replace("{HERE}", wrong))[0]


def test_a_failure_of_ours_is_a_line_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr("chainrule.verify.script.byhand.loop_steps.in_copy", fails)
    found, outcome, printed = looked_at(tmp_path, LINE)
    assert not found and len(printed.splitlines()) == 6
    assert any("the verifier itself failed" in s.why for s in outcome.report.ledger.skipped)
