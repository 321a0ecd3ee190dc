"""Outer losses of the data that parameters were adapted to, and of other data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.script.by_hand.test_script_gradients_at_hand import reported
from tests.verify.script.losses.loss_scripts import HEAD, MARKS

pytestmark = MARKS

SCRIPT = """
from torch.func import functional_call
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
rate = nn.Parameter(torch.tensor(0.1))
opt = torch.optim.Adam([*net.parameters(), rate], 1e-2)
names = [name for name, _ in net.named_parameters()]

def task():
    w = torch.randn(2, 1)
    def some(n):
        x = torch.randn(n, 2)
        return x, x @ w
    ids, lengths = torch.arange(5), torch.ones(5)
    return {given}

def loss_of(params, x, y):
    return F.mse_loss(functional_call(net, params, (x,)), y)

def adapted(x, y, times=1):
    params = dict(net.named_parameters())
    for _ in range(times):
        grads = torch.autograd.grad(
            loss_of(params, x, y), list(params.values()), create_graph={create})
        params = {{n: p - rate * g for (n, p), g in zip(params.items(), grads)}}
    return params

for step in range(3):
    opt.zero_grad()
    total = 0.0
    for _ in range(2):
        {data} = task()
        fast = adapted(a, b, {times})
        total = total + loss_of(fast, {outer}) / 2
        {more}
    total.backward()
    opt.step()
"""
USUAL = {
    "given": "some(5), some(7)",
    "create": "True",
    "data": "(a, b), (c, d)",
    "times": "1",
    "outer": "a, b",
    "more": "pass",
}
WRONG = {
    "the same": {},
    "in a row": {"given": "(*some(5), *some(7))", "data": "a, b, c, d"},
    "several steps": {"times": "3"},
    "of first order": {"create": "False"},
}
RIGHT = {
    "other data": {"outer": "c, d"},
    "other data, several steps": {"outer": "c, d", "times": "3"},
    "no other data": {"data": "(a, b), _"},
    "others that are looked at": {"more": "print(loss_of(fast, c, d).item())"},
    "other things": {"given": "(*some(5), ids, lengths)", "data": "a, b, c, d"},
    "other points": {"outer": "a + 1, b"},
}


@pytest.mark.parametrize("name", [*WRONG, *RIGHT])
def test_an_outer_loss(tmp_path: Path, name: str) -> None:
    changes = {**USUAL, **(WRONG | RIGHT)[name]}
    report = reported(tmp_path, HEAD + SCRIPT.format(**changes))
    found = [f for f in report.findings if f.level != "note"]
    assert [f.name.code for f in found] == ["wrong_value"] * (name in WRONG), str(report)
    assert all("loss_of(fast, c, d)" in f.correction.after for f in found if f.correction)
    assert not [s for s in report.ledger.skipped if "failed" in s.why], str(report)
