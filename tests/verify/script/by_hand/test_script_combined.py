"""Steps by hand whose gradients hold more than the loss's: decays and momenta; or less: clipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.by_hand.by_hand import looked_at

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=6),
]

NET = """
import numpy as np
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
params = [rng.normal(size=(3, 4)), rng.normal(size=4) * 0.1, rng.normal(size=(4, 2))]
kept = [np.zeros_like(p) for p in params]
lr = 0.02

def loss_and_gradients(x, y):
    V, b, W = params
    h = np.tanh(x @ V + b)
    e = h @ W - y
    dh = e @ W.T * (1 - h * h)
    return 0.5 * np.sum(e * e), [x.T @ dh, dh.sum(0), h.T @ e]

for step in range(6):
    rows = rng.permutation(9)[:7]
    loss, grads = loss_and_gradients(X[rows], Y[rows])
    for p, v, g in zip(params, kept, grads):
        {update}
    print(step, {shown})
"""
SAMPLES = """
import numpy as np
rng = np.random.default_rng(0)
lr = 0.02
P, Q, c = rng.normal(size=(6, 3)), rng.normal(size=(5, 3)), np.zeros(6)
R = rng.normal(size=(6, 5))
for epoch in range(4):
    total = 0.0
    for u, i in zip(rng.integers(0, 6, 12), rng.integers(0, 5, 12)):
        error = R[u, i] - c[u] - P[u] @ Q[i]
        total += error * error
        {rows}
    print(epoch, total / 12)
"""
ROWS = """old = P[u].copy()
        c[u] += lr * (error - 0.1 * c[u])
        P[u] += lr * (error * Q[i] - 0.1 * old)
        Q[i] += lr * (error * old - 0.1 * Q[i])"""
UPDATES = {
    "a momentum and the mean in the rate": (
        "v[...] = 0.9 * v + g; p -= (lr / len(rows)) * v", "loss / len(rows)"
    ),
    "a velocity": ("v *= 0.9; v -= lr * g; p += v", "loss"),
    "a mean of gradients": ("v[:] = 0.9 * v + g; p -= lr * v", "loss"),
    "a decay": ("p -= lr * (g + 0.1 * p)", "loss"),
    "a decay and a momentum": ("v[:] = 0.9 * v + g + 0.01 * p; p -= lr * v", "loss"),
}  # fmt: skip


@pytest.mark.parametrize("what", UPDATES)
def test_what_is_added_to_the_gradients_is_no_mistake(tmp_path: Path, what: str) -> None:
    update, shown = UPDATES[what]
    found, outcome, _ = looked_at(tmp_path, NET.format(update=update, shown=shown))
    assert not found and outcome.is_seen


@pytest.mark.parametrize("what", UPDATES)
def test_a_wrong_gradient_is_found_beside_it(tmp_path: Path, what: str) -> None:
    update, shown = UPDATES[what]
    text = NET.format(update=update, shown=shown).replace("(1 - h * h)", "(1 - h)")
    found, _, _ = looked_at(tmp_path, text)
    assert found


PENALIZED = NET.format(
    update="p -= lr * g", shown="loss + 0.05 * sum(np.sum(p * p) for p in params)"
).replace("x.T @ dh, dh.sum(0), h.T @ e", "x.T @ dh + 0.1 * V, dh.sum(0) + 0.1 * b, h.T @ e + {}")
UNEVEN = {
    "as the loss has it": ("0.1 * W", []),
    "more than the loss has": ("0.1 * 9 * W", ["params[2]"]),
}


@pytest.mark.parametrize("what", UNEVEN)
def test_a_matrix_that_decays_more_than_the_others(tmp_path: Path, what: str) -> None:
    term, names = UNEVEN[what]
    found, outcome, _ = looked_at(tmp_path, PENALIZED.replace("h.T @ e + {}", f"h.T @ e + {term}"))
    assert [f.input for f in found] == names and outcome.is_seen


def test_a_decay_of_one_matrix_alone_may_be_meant(tmp_path: Path) -> None:
    text = NET.format(update="p -= lr * g", shown="loss").replace("h.T @ e]", "h.T @ e + 0.1 * W]")
    found, outcome, _ = looked_at(tmp_path, text)
    assert not found and outcome.is_seen


def test_a_decay_of_the_rows_that_a_sample_touches(tmp_path: Path) -> None:
    found, outcome, _ = looked_at(tmp_path, SAMPLES.format(rows=ROWS))
    assert not found and outcome.is_seen


def test_a_row_that_is_read_when_it_is_updated_already(tmp_path: Path) -> None:
    early = ROWS.replace("P[u].copy()", "P[u]")
    (found,), _, _ = looked_at(tmp_path, SAMPLES.format(rows=early))
    assert (found.name.code, found.input) == ("stale", "Q")


def test_a_loss_with_a_small_number_in_its_logarithm(tmp_path: Path) -> None:
    text = NET.format(update="p -= lr * g", shown="loss").replace(
        "0.5 * np.sum(e * e)", "0.5 * np.sum(e * e) + 1e-6 * np.sum(np.cos(e))"
    )
    found, _, _ = looked_at(tmp_path, text)
    assert not found


LATE = """
import numpy as np
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(12, 3)), rng.normal(size=(12, 2))
lr = 0.1
V, W = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))

def step(x, y):
    global V, W
    h = np.tanh(x @ V)
    e = (h @ W - y) / len(x)
    loss = np.sum((h @ W - y) ** 2) / len(x)
    {middle}
    return loss

for epoch in range(6):
    losses = [step(X[r], Y[r]) for r in np.split(rng.permutation(12), 3)]
    print(epoch, np.mean(losses))
"""
EARLY = "W -= lr * h.T @ (2 * e)"
THEN = "V -= lr * x.T @ (2 * e @ W.T * (1 - h * h))"
MIDDLES = {
    "late": ([EARLY, THEN], ["stale"]),
    "in order": ([THEN, EARLY], []),
    "anew": ([EARLY, "h = np.tanh(x @ V); e = (h @ W - y) / len(x)", THEN], []),
}


@pytest.mark.parametrize("name", MIDDLES)
def test_a_late_read_in_a_function_that_a_turn_calls_often(tmp_path: Path, name: str) -> None:
    lines, codes = MIDDLES[name]
    found, _, _ = looked_at(tmp_path, LATE.format(middle="\n    ".join(lines)))
    assert [f.name.code for f in found] == codes


TABLE = """
import numpy as np
rng = np.random.default_rng(0)
E, w = rng.normal(size=(5, 3)), rng.normal(size=3)
lr = 0.1
for step in range(4):
    rows = {rows}
    y = rng.normal(size=4)
    error = E[rows] @ w - y
    loss = 0.5 * np.sum(error**2)
    dE, dw = error[:, None] * w, error @ E[rows]
    {update}
    w -= lr * dw
    print(step, loss)
"""
REPEATED = "rng.integers(0, 2, 4)"


@pytest.mark.parametrize(("rows", "update", "codes"), [
    (REPEATED, "E[rows] -= lr * dE", ["overwritten"]),
    (REPEATED, "np.subtract.at(E, rows, lr * dE)", []),
    ("rng.permutation(5)[:4]", "E[rows] -= lr * dE", []),
])  # fmt: skip
def test_rows_that_are_updated_more_than_once(tmp_path: Path, rows, update, codes) -> None:
    found, _, _ = looked_at(tmp_path, TABLE.format(rows=rows, update=update))
    assert [f.name.code for f in found] == codes


CLIPPED = """
import numpy as np
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(9, 3)), 5 * rng.normal(size=(9, 2))
V, W, lr = rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), 0.1
for step in range(6):
    h = np.tanh(X @ V)
    e = h @ W - Y
    loss = 0.5 * np.sum(e * e)
    dV, dW = X.T @ (e @ W.T * (1 - h * h)), h.T @ e
    total = {total}
    factor = {factor}
    V -= lr * factor * dV
    W -= lr * factor * dW
    print(step, {shown})
"""
SQUARES = "sum(np.sum(g ** 2) for g in (dV, dW))"
LIMITED = "min(1.0, 2.5 / total)"
CLIPS = {
    "the length": (f"np.sqrt({SQUARES})", LIMITED, 0),
    "its square": (SQUARES, LIMITED, 1),
    "a step by the loss": (SQUARES, "0.5 * loss / total", 0),
}


@pytest.mark.parametrize("by", CLIPS)
def test_gradients_that_are_made_shorter_by_a_square(tmp_path: Path, by: str) -> None:
    total, factor, count = CLIPS[by]
    text = CLIPPED.format(total=total, factor=factor, shown="loss / 1")
    found, _, _ = looked_at(tmp_path, text)
    assert [f.name.code for f in found] == ["factor"] * count
    assert all(f.correction is not None and "np.sqrt" in f.correction.after for f in found)
