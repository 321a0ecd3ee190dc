"""Scripts that compute gradients by hand and give them to an optimizer of PyTorch's."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from chainrule.verify.script.byhand.step import WHAT
from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.by_hand import by_hand

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

START = """
import torch
torch.manual_seed(0)
N = 8
X, Y = torch.randn(N, 3), torch.randn(N, 2)
W1, b1, W2 = torch.randn(3, 4) * 0.5, torch.zeros(4), torch.randn(4, 2) * 0.5
opt = torch.optim.SGD([W1, b1, W2], lr=0.05)

def back(x, h, d):
    dh = d @ W2.T * (1 - h * h)
    return x.T @ dh, dh.sum(0), h.T @ d
"""
LOOP = """
for step in range(4):
    h = torch.tanh(X @ W1 + b1)
    e = h @ W2 - Y
    loss = (e * e).sum() / N
    W1.grad, b1.grad, W2.grad = back(X, h, 2 * e / N)
    opt.step()
    print(step, loss.item())
"""
CLASSES = """
class Dense:
    def __init__(self, n, m):
        self.w, self.b = torch.randn(n, m) * 0.5, torch.zeros(m)
    def __call__(self, x):
        self.x = x
        return x @ self.w + self.b
    def back(self, d):
        self.w.grad, self.b.grad = self.x.T @ d, d.sum(0)
        return d @ self.w.T

def main():
    one, two = Dense(3, 4), Dense(4, 2)
    opt = torch.optim.Adam([one.w, one.b, two.w, two.b], lr=0.01)
    for step in range(4):
        i = torch.randint(0, N, (5,))
        x, y = X[i], Y[i]
        z = one(x)
        out = two(z.relu())
        error = ((out - y) ** 2).mean()
        d = two.back(2 * (out - y) / out.numel())
        one.back(d * (z > 0))
        opt.step()
        print(step, error.item())

main()
"""


def looked_at(tmp_path: Path, text: str) -> tuple[list[Any], Any, str]:
    """Findings about gradients by hand, the ledger, and what the script printed."""
    found, outcome, printed = by_hand.looked_at(tmp_path, text, steps=4)
    return found, outcome.report.ledger, printed


@pytest.mark.parametrize("text", [LOOP, CLASSES], ids=["functions", "classes"])
def test_right_ones_are_looked_at_and_right(tmp_path: Path, text: str) -> None:
    found, ledger, _ = looked_at(tmp_path, START + text)
    assert not found
    assert WHAT in [c.subject.split(":")[0] for c in ledger.checked]


WRONG = [
    (LOOP, "d @ W2.T * (1 - h * h)", "d @ W2.T * (1 - h)", "1 - h ** 2"),
    (LOOP, "d @ W2.T * (1 - h * h)", "d @ W2.T * (1 + h * h)", "1 - h * h"),
    (LOOP, "2 * e / N)", "2 * e)", "/ N"),
    (CLASSES, "d.sum(0)", "d.mean(0)", "d.sum(0)"),
    (CLASSES, "one.back(d * (z > 0))", "one.back(d * (z < 0))", "z > 0"),
]


@pytest.mark.parametrize(("text", "old", "new", "after"), WRONG)
def test_wrong_ones_are_corrected(
    tmp_path: Path, text: str, old: str, new: str, after: str
) -> None:
    assert old in START + text
    found, _, _ = looked_at(tmp_path, (START + text).replace(old, new))
    assert found
    assert found[0].place is not None and new in found[0].place.text
    assert found[0].correction is not None and found[0].correction.rechecked
    assert after in found[0].correction.after


def test_a_parameter_without_a_gradient_is_dropped(tmp_path: Path) -> None:
    text = LOOP.replace("W1.grad, b1.grad, W2.grad = ", "W1.grad, _, W2.grad = ")
    found, _, _ = looked_at(tmp_path, START + text)
    assert [(f.name.code, f.input) for f in found] == [("dropped", "b1")]


MODULE = """
net = torch.nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
labels = torch.randint(0, 2, (N,))

@torch.no_grad()
def train_step(x, y):
    p = net(x).softmax(1)
    loss = -p[torch.arange(N), y].log().mean()
    d = p.clone()
    d[torch.arange(N), y] -= 1
    net.weight.grad, net.bias.grad = d.T @ x / N, d.sum(0)
    opt.step()
    return loss

for step in range(4):
    print(train_step(X, labels).item())
"""


def test_parameters_of_a_module_are_called_as_the_script_calls_them(tmp_path: Path) -> None:
    (finding,), _, _ = looked_at(tmp_path, START + MODULE)
    assert (finding.name.code, finding.input) == ("factor", "net.bias")
    assert looked_at(tmp_path, (START + MODULE).replace("d.sum(0)", "d.mean(0)"))[0] == []


MEANT = {
    "weight decay": "W1.grad = W1.grad + 0.01 * W1\n    opt.step()",
    "clipped": "torch.nn.utils.clip_grad_norm_([W1, b1, W2], 0.1)\n    opt.step()",
}


@pytest.mark.parametrize("what", MEANT)
def test_what_is_meant_otherwise_is_said_and_no_finding(tmp_path: Path, what: str) -> None:
    found, ledger, _ = looked_at(tmp_path, START + LOOP.replace("opt.step()", MEANT[what]))
    assert not found
    assert any(s.subject == WHAT and what in s.why for s in ledger.skipped)


def test_a_step_without_a_loss_is_said(tmp_path: Path) -> None:
    text = LOOP.replace("    loss = (e * e).sum() / N\n", "").replace("loss.item()", "0")
    found, ledger, _ = looked_at(tmp_path, START + text)
    assert not found
    assert any(s.subject == WHAT and "no loss" in s.why for s in ledger.skipped)


def test_the_script_prints_what_it_prints_alone(tmp_path: Path) -> None:
    alone = io.StringIO()
    with redirect_stdout(alone):
        exec(START + CLASSES, {})
    assert looked_at(tmp_path, START + CLASSES)[2] == alone.getvalue()
