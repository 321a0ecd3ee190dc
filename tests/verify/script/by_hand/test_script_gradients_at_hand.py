"""Gradients that a script takes by `autograd.grad` and hands on itself; its own scalar engines."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from chainrule.verify import script
from chainrule.verify.reporting.report import Report
from chainrule.verify.script.clock import Steps
from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are not copied here")

WEIGHTS = """
import torch
torch.manual_seed(0)
X, Y = torch.randn(20, 3), torch.randn(20, 1)
V, W = torch.randn(3, 5, requires_grad=True), torch.randn(5, 1, requires_grad=True)
for step in range(6):
    loss = ((torch.tanh(X @ V) @ W - Y) ** 2).mean()
    (gw,) = torch.autograd.grad(loss, W, retain_graph=True)
    {early}
    (gv,) = torch.autograd.grad(loss, V)
    {late}
    V.data -= 0.1 * gv
"""
MOVE = "W.data -= 0.1 * gw"
JOINED = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
params = list(net.parameters())
opt = torch.optim.SGD(params, 0.01)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(5):
    out = {out}
    a, b = (out - y).pow(2).mean(), out.abs().mean()
    one = torch.autograd.grad(a, params, retain_graph=True, allow_unused=True)
    two = torch.autograd.grad(b, params, allow_unused=True)
    for p, g, h in zip(params, one, two):
        p.grad = None if g is None else g + 0.1 * h
    opt.step()
    print(a.item())
"""


def reported(folder: Path, text: str, window: int = 0) -> Report:
    """All that is said of a script, notes as well; of so many steps what shows late."""
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        outcome = script.run(
            script.target(str(path)),
            steps=4,
            window=window,
            own=script.OWN,
            torch=script.TORCH,
            loop=script.LOOP,
        )
    return outcome.report


def codes(folder: Path, text: str) -> list[tuple[str, str]]:
    return [(f.level, f.name.code) for f in reported(folder, text).findings]


@pytest.mark.parametrize(("early", "late", "expected"), [
    ("pass", MOVE, []),
    (MOVE, "pass", [("error", "unseen_change")]),
])  # fmt: skip
def test_a_weight_that_moves_before_another_gradient_reads_it(tmp_path, early, late, expected):
    text = WEIGHTS.format(early=early, late=late)
    assert codes(tmp_path, text) == expected


@pytest.mark.parametrize(("out", "expected"), [
    ("net(x)", []),
    ("net[2](net[:2](x).detach())", [("error", "detached")]),
])  # fmt: skip
def test_gradients_of_several_losses_are_given_by_hand(tmp_path, out, expected):
    found = codes(tmp_path, JOINED.format(out=out))
    assert [row for row in found if row[1] == "detached"] == expected


def test_passes_from_several_lines_are_one_step():
    done: list[int] = []
    steps = Steps(done.append)
    for _ in range(3):
        steps.note_backward()
        steps.note_backward()
    assert done == [1, 2]


ENGINE = """
import math

class {name}:
    {slots}
    def __init__(self, value, parents=()):
        self.value, self.slope = value, 0.0
        self.parents, self.back = parents, lambda: None

    def __add__(self, other):
        other = other if isinstance(other, {name}) else {name}(other)
        out = {name}(self.value + other.value, (self, other))
        def back():
            self.slope += out.slope
            other.slope += out.slope
        out.back = back
        return out

    def __mul__(self, other):
        other = other if isinstance(other, {name}) else {name}(other)
        out = {name}(self.value * other.value, (self, other))
        def back():
            self.slope {plus}= other.value * out.slope
            other.slope {plus}= self.value * out.slope
        out.back = back
        return out

    def log(self):
        out = {name}(math.log(self.value), (self,))
        def back():
            self.slope += {log} * out.slope
        out.back = back
        return out

    def backward(self):
        order, seen = [], set()
        def visit(v):
            if v not in seen:
                seen.add(v)
                for p in v.parents:
                    visit(p)
                order.append(v)
        visit(self)
        self.slope = 1.0
        for v in reversed(order):
            v.back()

w = {name}(0.5)
for _ in range(4):
    loss = (w * 2.0 + -1.5) * (w * 2.0 + -1.5)
    w.slope = 0.0
    loss.backward()
    w.value -= 0.05 * w.slope
"""
SLOTS = "__slots__ = 'value', 'slope', 'parents', 'back'"


@sampled(one_in=2)
@pytest.mark.parametrize(("slots", "plus", "log", "expected"), [
    ("", "+", "1 / self.value", []),
    (SLOTS, "+", "1 / self.value", []),
    ("", "", "1 / self.value", ["Scalar.__mul__, one value twice: overwritten"]),
    (SLOTS, "+", "self.value", ["Scalar.log: wrong_value"]),
])  # fmt: skip
def test_the_ops_of_a_scalar_engine_are_verified(tmp_path, slots, plus, log, expected):
    text = ENGINE.format(name="Scalar", slots=slots, plus=plus, log=log)
    report = reported(tmp_path, text)
    assert len(report.ledger.checked) == (8 if expected else 11)
    assert any("training by Scalar" in s.subject for s in report.ledger.skipped)
    found = [f"{f.subject}: {f.name.code}" for f in report.findings]
    assert len(found) == len(expected)
    assert all(row.partition(":")[0] in other for row, other in zip(expected, found, strict=True))
    if plus == "":
        (finding,) = report.findings
        assert finding.name.code == "overwritten"
        assert finding.correction.after.count(" += ") == 2


def test_what_only_looks_like_an_engine_is_none(tmp_path):
    text = "class Robot:\n    def backward(self):\n        raise SystemExit(3)\nprint(1)\n"
    assert reported(tmp_path, text).ledger.checked == []
