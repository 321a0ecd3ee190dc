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
    spoiled = {trace.nodes[i].label for s in trace.sweeps for i, c in s.certificates.items()
               if c.verdict == "differs"}  # fmt: skip
    assert {x for x in spoiled if x} == ({"qkv.weight", "qkv.bias"} if wrong else set())
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


def numbers(trace: Any) -> set[tuple[str, str]]:
    """Verdicts of all numbers, and why where there is none."""
    sent = [m.certificate for _, m in messages(trace) if m.contribution is not None]
    found = [*sent, *[c for s in trace.sweeps for c in s.certificates.values()]]
    return {("none", "") if c is None else (c.verdict, c.why) for c in found}


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
    "linear": lambda x: torch.nn.functional.linear(x, x.T @ x, x[0]),
    "linear of matrices": lambda x: torch.nn.functional.linear(x.reshape(3, 2, 2), x[:, :2]),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(
        x[None], 2 * x[None], x + 1
    ),
    "numbers": lambda x: (2 - x) * x / 3 + (x + 3) ** 2,
    "broadcasting": lambda x: x * x[0] - x[:, :1],
    "vectors": lambda x: torch.dot(x @ x[0], x[:, 1]),
    "addition of products": lambda x: torch.addmm(x[:, :3], x, x.T, beta=2),
    "batch_norm": lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
    "conv": lambda x: torch.nn.functional.conv1d(x[None], x[None, :, :2]),
    "split": lambda x: x.split(2, -1)[1] * x.split(2, -1)[0],
    "in place": lambda x: (2 * x).add_(x).mul_(3),
    "where": lambda x: torch.where(x > 0, x, 0.1 * x),
    "cross_entropy": lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([0, 3, 1])),
}
FORMS: dict[str, set[tuple[str, str]]] = {
    "linear": {("mm", "Product"), ("addmm", "Product"), ("addmm", "Factor")},
    "linear of matrices": {("mm", "Product")},
    "attention": {("bmm", "Product")},
    "numbers": {("mul", "Factor"), ("div", "Factor"), ("add", "Factor"), ("pow", "Factor")},
    "broadcasting": {("mul", "Factor"), ("sub", "Factor")},
    "vectors": {("mv", "Product"), ("dot", "Product")},
    "exp": {("exp", "Factor")},
    "gelu": {("gelu", "Factor")},
}
"""Forms that are the op table's, or of letters."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_open(name: str):
    x = batch().requires_grad_()
    trace = cr.record(FUNCTIONS[name], x)
    check_numbers(trace, slack=8)
    assert {op for op, _ in opaque(trace)} <= {"output 0", "output 1", "split"}
    assert FORMS.get(name, set()) <= {
        (trace.nodes[m.node].op, type(m.local).__name__) for _, m in messages(trace)
    }
    assert numbers(trace) == {("agrees", "")}
    assert all(n.value is not None for n in trace.nodes if n.op != "split")
    assert len(trace.sweeps) == 1
    check_file(trace)
    want = torch.autograd.grad(FUNCTIONS[name](x).sum(), x)[0]
    assert np.allclose(gradient(trace, "x"), want.numpy(), rtol=1e-12)


def test_a_narrow_network_agrees():
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv1d(3, 2, 2), torch.nn.Flatten(), torch.nn.Linear(6, 4), torch.nn.SiLU()
    )
    trace = cr.record(lambda x: model(x).logsumexp(-1), torch.randn(2, 3, 4))
    assert numbers(trace) == {("agrees", "")}
    assert trace.nodes[trace.find("x")].kind == "constant"


def test_what_cannot_be_run_again_says_so():
    def f(x: Any) -> Any:
        y = 2 * x
        y[0] = 1.0
        return (y * y).sum()

    trace = cr.record(f, batch().requires_grad_())
    whys = {why for verdict, why in numbers(trace) if verdict == "not checked"}
    assert any("copyslices is not known, so it cannot be run again" in why for why in whys)
    assert "differs" not in {verdict for verdict, _ in numbers(trace)}


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


GRADIENTS_BY_NAME = """
import torch
from torch.autograd import grad


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g


twice = Twice.apply
w = torch.ones(3, requires_grad=True)
for k in range(4):
    loss = (twice(w) ** 2).sum()
    (slope,) = grad(loss, w, create_graph=True)
    (g,) = grad((slope ** 2).sum() + loss, w)
    with torch.no_grad():
        w -= 1e-3 * g
"""


@pytest.mark.parametrize("step", [1, 3])
def test_gradients_end_a_step_by_whatever_name_they_are_taken(tmp_path: Path, step: int):
    path = tmp_path / "train.py"
    path.write_text(GRADIENTS_BY_NAME, "utf-8")
    trace = record_script(path, step=step)
    check_numbers(trace, slack=8)
    assert len(trace.sweeps) == 2, "the pass that is differentiated, and the last one"
    assert sum(n.op == "Twice" for n in trace.nodes) == 1
    w = (1 - 1e-3 * 136) ** (step - 1)  # the gradient at w is 128 w + 8 w
    assert np.allclose(gradient(trace, "w"), 136 * w)


@pytest.mark.parametrize("hooks", ["checkpoint", "save_on_cpu"])
def test_what_is_packed_by_hooks_is_unpacked_once(hooks: str):
    """Checkpointing refuses a second look at what a node saved: forms are held against the pass."""
    w, x = batch(), batch().requires_grad_()

    def layer(x: Any) -> Any:
        return torch.tanh(x * w).exp() @ w.T

    def packed(x: Any) -> Any:
        if hooks == "checkpoint":
            return torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum()
        with torch.autograd.graph.save_on_cpu():
            return layer(x).sum()

    trace = cr.record(packed, x)
    assert np.allclose(gradient(trace, "x"), torch.autograd.grad(layer(x).sum(), x)[0].numpy())
    kinds = {trace.nodes[m.node].op: type(m.local).__name__ for _, m in messages(trace)}
    assert kinds["tanh"] == kinds["exp"] == "Factor" and kinds["mm"] == "Product"
    assert "differs" not in {verdict for verdict, _ in numbers(trace)}


def verdicts(trace: Any) -> set[str]:
    found = [m.certificate for _, m in messages(trace)]
    found += [c for s in trace.sweeps for c in s.certificates.values()]
    return {c.verdict for c in found if c is not None}


def classifier() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    return model, torch.randn(5, 4), torch.randint(0, 2, (5,))


def test_numbers_of_bfloat16_are_compared_as_such():
    model, x, y = classifier()

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()

    assert verdicts(cr.record(step)) == {"agrees"}


@pytest.mark.parametrize("way", ["optimizer", "data", "closure"])
def test_parameters_that_change_between_passes_are_other_nodes(way: str):
    """By an optimizer, behind autograd's back, and until nothing is left of the gradient."""
    model, x, y = classifier()

    def backward() -> Any:
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    def steps() -> None:
        if way == "closure":
            torch.optim.LBFGS(model.parameters()).step(backward)
            return
        sgd = torch.optim.SGD(model.parameters(), 0.5)
        for _ in range(3):
            backward()
            if way == "optimizer":
                sgd.step()
                continue
            for p in model.parameters():
                p.data -= 0.5 * p.grad

    trace = cr.record(steps)
    assert "agrees" in verdicts(trace) and "differs" not in verdicts(trace)
    weights = [n.value for n in trace.nodes if n.label == "0.weight"]
    assert len(weights) == len(trace.sweeps) >= 3
    assert not np.array_equal(weights[0], weights[-1])


def test_functional_gradients_are_recorded_but_not_those_of_batches():
    w = torch.tensor([1.0, 2.0])
    cube = lambda w: (w**3).sum()
    trace = cr.record(lambda: torch.func.grad(cube)(w))
    assert [np.asarray(g).tolist() for g in trace.sweeps[0].gradients.values()][-1] == [3, 12]
    with pytest.raises(cr.GradientError, match="vmap are not recorded"):
        cr.record(lambda: torch.func.vmap(torch.func.grad(cube))(w[None]))
    with pytest.raises(cr.GradientError, match="vmap are not recorded"):
        cr.record(lambda: torch.func.jacrev(torch.sin)(w))
