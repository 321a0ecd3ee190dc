"""Cuts in chainrule scripts: values that leave their graph, as tensors or as numbers, and come back
into a loss; what is meant to be a constant may be one.
"""

from __future__ import annotations

import pytest

from chainrule.engine.graph import around
from chainrule.engine.tensors import Tensor
from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.by_hand.test_script_functional import run
from tests.verify.script.test_script import plain, written

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

START = """
import math
import numpy as np
import chainrule as cr
from chainrule import nn, optim

cr.random.manual_seed(0)
rng = np.random.default_rng(0)
X = cr.tensor(rng.normal(size=(32, 6)), dtype=cr.float32)
Y = cr.tensor(rng.normal(size=(32, 1)), dtype=cr.float32)
C = rng.integers(0, 3, 32)
a, b, c = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 1)
cell, head = nn.Linear(14, 8), nn.Linear(8, 3)


def number(x):
    return x.detach().numpy()


def moved(x, h):
    return cr.tanh(cell(cr.concat([x, h], axis=1)))


opt = optim.Adam([p for m in (a, b, c, cell, head) for p in m.parameters()], lr=1e-2)
for _ in range(5):
"""
END = """
    loss.backward()
    opt.step()
    opt.zero_grad()
    print(loss.item())
"""
ATTENTION = """
    q, k = a(X), b(X)
    s = number(q @ k.T)
    s = np.exp(s - s.max(1, keepdims=True))
    loss = cr.mse_loss(c(cr.tensor(s / s.sum(1, keepdims=True)) @ cr.tanh(a(X))), Y)
"""
GATE = """
    scores = a(X).mean(axis=1)
    w = cr.softmax(cr.tensor([float(v) for v in scores]), axis=0)
    loss = (w * ((c(b(X)) - Y) ** 2).squeeze(1)).sum()
"""
CENTRED = """
    h = a(X)
    middle = h.mean(axis=0).tolist()
    loss = cr.mse_loss(c(cr.relu(h - cr.tensor(middle))), Y)
"""
NORM = """
    size = 0.0
    for p in c.parameters():
        size += (p**2).sum().item()
    loss = cr.mse_loss(c(cr.tanh(a(X))), Y) + 0.01 * math.sqrt(size)
"""
DETACH = """
    h = cr.tanh(a(X)).detach()
    loss = cr.mse_loss(c(h), Y)
"""
DATA = """
    h = a(X)
    loss = cr.mse_loss(c(cr.tanh(h - h.mean(axis=0).data)), Y)
"""
NOGRAD = """
    with cr.no_grad():
        h = cr.tanh(a(X))
    loss = cr.mse_loss(c(h), Y)
"""
ITEM = """
    out = c(cr.tanh(a(X)))
    extra = (out**2).mean().item()
    loss = cr.mse_loss(out, Y) + 0.1 * extra
"""
R_ADVANTAGE = """
    loss = 0.0
    for i in range(6):
        h = cr.tanh(a(X[i : i + 1]))
        likely, value = cr.log_softmax(head(h), axis=1)[0], c(h).squeeze()
        p = number(cr.exp(likely)).astype(float)
        act = int(rng.choice(3, p=p / p.sum()))
        gain = 0.3 * act + rng.normal()
        loss = loss - likely[act] * (gain - value.item()) + (value - gain) ** 2
"""
R_TARGET = """
    best = [head(cr.tanh(a(X[i + 1 : i + 2]))).max().item() for i in range(31)]
    aim = [float(r) + 0.9 * q for r, q in zip(number(Y)[:31, 0], best)]
    q = cr.take_along_axis(head(cr.tanh(a(X[:-1]))), C[:-1, None], axis=1)
    loss = cr.mse_loss(q.squeeze(1), cr.tensor(aim))
"""
R_TEACHER = """
    old = nn.Linear(6, 8).requires_grad_(False)
    mine, theirs = a.state_dict(), b.state_dict()
    old.load_state_dict({k: 0.5 * mine[k] + 0.5 * theirs[k] for k in mine})
    h = cr.tanh(a(X))
    loss = cr.mse_loss(c(h), Y) + cr.mse_loss(h, cr.tanh(old(X)))
"""
R_WORLD = """
    s, h, loss = rng.normal(size=6), cr.zeros((1, 8), dtype=cr.float32), 0.0
    for _ in range(4):
        h = moved(cr.tensor(s[None], dtype=cr.float32), h)
        p = cr.softmax(head(h)[0], axis=0)
        chances = number(p).astype(float)
        act = rng.choice(3, p=chances / chances.sum())
        s = 0.9 * s + 0.1 * act
        loss = loss + cr.log(p[int(act)]) * float((s**2).sum())
"""
R_CHUNKS = """
    h = cr.zeros((1, 8), dtype=cr.float32)
    for t in range(3):
        for i in range(4 * t, 4 * t + 4):
            h = moved(X[i : i + 1], h)
        loss = cr.mse_loss(c(h), Y[t : t + 1])
        if t < 2:
            loss.backward()
        h = cr.tensor(number(h)) if t < 2 else h
"""
R_BALANCE = """
    h = cr.tanh(a(X))
    one, two = cr.mse_loss(c(h), Y), cr.cross_entropy(head(h), C)
    loss = one + one.item() / two.item() * two
"""
R_SHOWN = """
    out = c(cr.tanh(a(X)))
    shown = number(out).mean() + cr.mse_loss(out, Y).item()
    loss = cr.mse_loss(out, Y + float(f"{shown > 1e9:.3f}"))
"""
R_STRAIGHT = """
    h = cr.tanh(a(X))
    q = h + (cr.round(h * 4) / 4 - h).detach()
    loss = cr.mse_loss(c(q), Y)
"""
R_TARGET_NET = """
    h = cr.tanh(a(X))
    with cr.no_grad():
        aim = 0.9 * c(cr.tanh(a(X)))
    loss = cr.mse_loss(c(h), Y + aim)
"""
R_MAX = """
    h = a(X)
    e = cr.exp(h - h.max(axis=1, keepdims=True).detach())
    loss = cr.mse_loss(c(e / e.sum(axis=1, keepdims=True)), Y)
"""
WRONG = {
    "attention": (ATTENTION, "detached", "return x.detach().numpy()"),
    "gate": (GATE, "detached", "w = cr.softmax"),
    "centred": (CENTRED, "partly_detached", "middle = h.mean"),
    "norm": (NORM, "partly_detached", "size += (p**2)"),
    "detach": (DETACH, "detached", "h = cr.tanh(a(X)).detach()"),
    "data": (DATA, "partly_detached", "loss = cr.mse_loss(c(cr.tanh(h - "),
    "nograd": (NOGRAD, "detached", "with cr.no_grad():"),
    "item": (ITEM, "partly_detached", "extra = (out**2)"),
}
RIGHT = {
    "advantage": R_ADVANTAGE,
    "target": R_TARGET,
    "world": R_WORLD,
    "teacher": R_TEACHER,
    "chunks": R_CHUNKS,
    "balance": R_BALANCE,
    "shown": R_SHOWN,
    "straight": R_STRAIGHT,
    "target_net": R_TARGET_NET,
    "max": R_MAX,
}


def serious(outcome):
    return [f for f in outcome.report.findings if f.level != "note"]


def why_not(outcome):
    return [row.why for row in outcome.report.ledger.skipped]


@pytest.mark.parametrize(("text", "code", "line"), WRONG.values(), ids=WRONG)
def test_a_cut_is_found_where_it_is(tmp_path, text, code, line):
    outcome, printed = run(tmp_path, START + text + END)
    (found,) = serious(outcome)
    assert (found.name.code, found.place.text[: len(line)]) == (code, line)
    assert printed == plain(written(tmp_path, START + text + END)).stdout


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_is_meant_is_no_mistake(tmp_path, text):
    outcome, printed = run(tmp_path, START + text + END)
    assert (serious(outcome), outcome.code, why_not(outcome)) == ([], 0, [])
    assert printed == plain(written(tmp_path, START + text + END)).stdout


def test_the_line_without_the_cut_is_tried(tmp_path):
    outcome, _ = run(tmp_path, START + DETACH + END)
    correction = serious(outcome)[0].correction
    assert correction is not None and correction.rechecked
    assert correction.after.strip() == "h = cr.tanh(a(X))"


def test_the_parameters_have_the_names_that_the_program_gives_them(tmp_path):
    outcome, _ = run(tmp_path, START + DETACH + END)
    assert "a.weight, a.bias" in serious(outcome)[0].names[0].detail


def test_nothing_is_left_behind(tmp_path):
    before = around.get(), Tensor.detach, Tensor.data, Tensor.backward, vars(Tensor)["_concrete"]
    run(tmp_path, START + GATE + END)
    after = around.get(), Tensor.detach, Tensor.data, Tensor.backward, vars(Tensor)["_concrete"]
    assert after == before


# --- Functions that are differentiated

FUNCTION = """
import math
import numpy as np
import chainrule as cr

rng = np.random.default_rng(0)
X = rng.normal(size=(64, 4))
Y = np.sin(X.sum(axis=1, keepdims=True))
params = {
    "w1": 0.5 * rng.normal(size=(4, 8)), "b1": np.zeros(8),
    "w2": 0.5 * rng.normal(size=(8, 1)), "b2": np.zeros(1),
}
"""
UPDATE = """

for step in range(8):
    i = rng.integers(0, 64, 16)
    loss, grads = cr.value_and_grad(loss_fn)(params, X[i], Y[i])
    params = {k: params[k] - 0.05 * grads[k] for k in params}
    print(step, loss.item())
"""
F_NORM = """
def loss_fn(p, x, y):
    h = x @ p["w1"] + p["b1"]
    mean, std = np.asarray(h.detach()).mean(0), np.asarray(h.detach()).std(0)
    h = cr.tanh((h - mean) / (std + 1e-5))
    return cr.mean((h @ p["w2"] + p["b2"] - y) ** 2)
"""
F_REG = """
def loss_fn(p, x, y):
    h = cr.tanh(x @ p["w1"] + p["b1"])
    size = math.sqrt(sum([float(cr.sum(w**2)) for w in p.values()]))
    return cr.mean((h @ p["w2"] + p["b2"] - y) ** 2) + 0.01 * size
"""
F_HEAD = """
def features(p, x):
    return cr.tanh(x @ p["w1"] + p["b1"]).detach()


def loss_fn(p, x, y):
    return cr.mean((features(p, x) @ p["w2"] + p["b2"] - y) ** 2)
"""
F_PLAIN = """
def loss_fn(p, x, y):
    h = cr.tanh(x @ p["w1"] + p["b1"])
    out = h @ p["w2"] + p["b2"]
    e = cr.exp(out - out.max().detach())
    return cr.mean((out - y) ** 2) + 0.0 * cr.mean(e)
"""
F_TARGET = """
def loss_fn(p, x, y):
    h = cr.tanh(x @ p["w1"] + p["b1"])
    out = h @ p["w2"] + p["b2"]
    aim = y + 0.5 * np.asarray(out.detach())[::-1]
    return cr.mean((out - aim) ** 2)
"""
F_WEIGHT = """
def loss_fn(p, x, y):
    h = cr.tanh(x @ p["w1"] + p["b1"])
    error = (h @ p["w2"] + p["b2"] - y) ** 2
    weight = 1 / (1 + np.asarray(error.detach()))
    return cr.mean(weight * error)
"""
F_SHOWN = """
seen = []


def loss_fn(p, x, y):
    h = cr.tanh(x @ p["w1"] + p["b1"])
    seen.append(float(cr.mean(h)))
    return cr.mean((h @ p["w2"] + p["b2"] - y) ** 2) * (1.0 if seen[-1] < 1e9 else 0.12345)
"""
F_PINN = """
def loss_fn(p, x, y):
    u = lambda z: cr.sum(cr.tanh(z @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"])
    out = cr.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
    return cr.mean((cr.grad(u)(x) - 1.0) ** 2) + cr.mean((out - y) ** 2)
"""
F_WRONG = {
    "norm": (F_NORM, "partly_detached", "mean, std = np.asarray(", "p['w1'], p['b1']"),
    "reg": (F_REG, "partly_detached", "size = math.sqrt(", "p['w1'], p['w2']"),
    "head": (F_HEAD, "detached", "return cr.tanh(", "p['w1'], p['b1']"),
}
F_RIGHT = {
    "plain": F_PLAIN, "target": F_TARGET, "weight": F_WEIGHT, "shown": F_SHOWN, "pinn": F_PINN,
}  # fmt: skip
COMPILED = """
@cr.jit
def update(p, x, y):
    loss, g = cr.value_and_grad(loss_fn)(p, x, y)
    return loss, {k: p[k] - 0.05 * g[k] for k in p}


for step in range(8):
    loss, params = update(params, X, Y)
    print(step, loss.item())
"""


@pytest.mark.parametrize(("text", "code", "line", "names"), F_WRONG.values(), ids=F_WRONG)
def test_a_cut_in_a_function_is_found(tmp_path, text, code, line, names):
    outcome, printed = run(tmp_path, FUNCTION + text + UPDATE)
    (found,) = serious(outcome)
    assert (found.name.code, found.place.text[: len(line)]) == (code, line)
    assert found.names[0].detail == f"parameters: {names}"
    assert "optimizer" not in found.names[0].because
    assert printed == plain(written(tmp_path, FUNCTION + text + UPDATE)).stdout


@pytest.mark.parametrize("text", F_RIGHT.values(), ids=F_RIGHT)
def test_what_a_function_means_is_no_mistake(tmp_path, text):
    outcome, _ = run(tmp_path, FUNCTION + text + UPDATE)
    assert (serious(outcome), outcome.code, why_not(outcome)) == ([], 0, [])
    assert "one step as a whole" in [row.subject for row in outcome.report.ledger.checked]


def test_a_cut_in_a_compiled_function_is_found(tmp_path):
    (found,) = serious(run(tmp_path, FUNCTION + F_HEAD + COMPILED)[0])
    assert found.name.code == "detached"
    assert found.correction is not None and found.correction.rechecked
    assert serious(run(tmp_path, FUNCTION + F_PLAIN + COMPILED)[0]) == []
