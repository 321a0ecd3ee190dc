"""PyTorch's programs as traces: its own numbers, forms that add up, wrong functions by name."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.traces.scripts import record_script
from tests.traces.programs import check_file, check_numbers, gradient, messages, opaque

torch = pytest.importorskip("torch")


class Attention(torch.autograd.Function):
    """Scaled dot-product attention; with `wrong`, its backward forgets softmax's sum."""

    wrong = False

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
        p = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        q, k, v, p = ctx.saved_tensors
        gp = g @ v.transpose(-1, -2)
        total = 0.0 if Attention.wrong else (gp * p).sum(-1, keepdim=True)
        s = p * (gp - total) / math.sqrt(q.shape[-1])
        return s @ k, s.transpose(-1, -2) @ q, p.transpose(-1, -2) @ g


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv = torch.nn.Linear(4, 12).double()
        self.out = torch.nn.Linear(4, 2).double()

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).split(4, -1)
        return self.out(Attention.apply(q, k, v))


def batch() -> Any:
    return torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_wrong_attention_is_marked(wrong: bool, monkeypatch: Any):
    monkeypatch.setattr(Attention, "wrong", wrong)
    model = Model()
    with cr.record() as recording:
        torch.nn.functional.mse_loss(model(batch()), torch.ones(3, 2).double()).backward()
    trace = recording.trace
    check_numbers(trace, slack=8)
    check_file(trace)
    for name, p in model.named_parameters():
        assert np.array_equal(gradient(trace, name), p.grad.numpy())
    differ = [
        (trace.nodes[m.node].op, m.place, m.certificate.slip)
        for _, m in messages(trace)
        if m.certificate is not None and m.certificate.verdict == "differs"
    ]
    assert {(op, place) for op, place, _ in differ} == (
        {("Attention", 0), ("Attention", 1)} if wrong else set()
    )
    assert all(slip for _, _, slip in differ)
    agree = {m.certificate.verdict for _, m in messages(trace) if m.certificate is not None
             and trace.nodes[m.node].op == "Attention"}  # fmt: skip
    assert "agrees" in agree
    assert {"qkv", "out"} <= {n.module for n in trace.nodes}
    assert any("Attention.apply" in text for text in trace.lines.values())


def test_a_module_and_a_batch():
    model = Model()
    trace = cr.record(model, batch())
    check_numbers(trace, slack=8)
    assert all(p.grad is None for p in model.parameters())
    want = torch.autograd.grad(model(batch()).sum(), list(model.parameters()))
    for (name, _), g in zip(model.named_parameters(), want, strict=True):
        assert np.allclose(gradient(trace, name), g.numpy(), rtol=1e-12)


FUNCTIONS: dict[str, Any] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x: torch.layer_norm(x, (4,)),
    "cumsum": lambda x: x.cumsum(-1),
    "sort": lambda x: x.sort(-1)[0],
    "index": lambda x: x[:, 1],
    "cat": lambda x: torch.cat([x, 2 * x]),
    "max": lambda x: x.max(-1)[0],
    "exp": lambda x: torch.exp(x),
    "matmul": lambda x: x @ x.T,
    "norm": lambda x: x.norm(),
    "gelu": lambda x: torch.nn.functional.gelu(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_open(name: str):
    x = batch().requires_grad_()
    trace = cr.record(FUNCTIONS[name], x)
    check_numbers(trace, slack=8)
    assert opaque(trace) == set()
    want = torch.autograd.grad(FUNCTIONS[name](x).sum(), x)[0]
    assert np.allclose(gradient(trace, "x"), want.numpy(), rtol=1e-12)


def test_nothing_is_left():
    before = torch.autograd.backward, torch.autograd.Function.apply, torch.nn.Module.__call__
    with pytest.raises(ZeroDivisionError), cr.record():
        raise ZeroDivisionError
    after = torch.autograd.backward, torch.autograd.Function.apply, torch.nn.Module.__call__
    assert before == after


SCRIPT = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.ones(2, 3)
for k in range(4):
    optimizer.zero_grad()
    loss = (model(x) ** 2).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("step", [1, 2])
def test_a_script(tmp_path: Path, step: int):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, "utf-8")
    trace = record_script(path, step=step)
    check_numbers(trace, slack=8)
    assert len(trace.sweeps) == 1
    assert {"weight", "bias", "loss"} <= {n.label for n in trace.nodes}
