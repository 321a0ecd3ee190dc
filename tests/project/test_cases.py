"""What must come out of this project, where no step under docs/steps shows it.

The row of the list of cases stands in each name: s scalars, l layers, a autograd, m microgpt.
"""

from __future__ import annotations

import gc
import io
import json
import math
import weakref
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

import chainrule as cr
from chainrule import optim
from chainrule.data import Corpus, read_documents
from chainrule.models.gpt import GPT, GPTConfig, python_draw
from chainrule.scalar import Value

HERE = Path(__file__).resolve()
STEPS = HERE.parents[2] / "docs" / "steps"


def shared(name: str) -> Path:
    """A file of the shared data, or a skipped test where there is none."""
    for folder in HERE.parents:
        if (folder / "shared" / "data" / name).is_file():
            return folder / "shared" / "data" / name
    pytest.skip(f"there is no shared/data/{name} beside the repository")


# --- S6: a neuron


def test_s6_a_neuron_is_pytorchs():
    point = [2.0, 0.0, -3.0, 1.0, 6.881]

    def neuron(tanh: Callable[[Any], Any], x1: Any, x2: Any, w1: Any, w2: Any, b: Any) -> Any:
        return tanh(x1 * w1 + x2 * w2 + b)

    theirs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    ours = [cr.tensor(x, dtype=np.float64, requires_grad=True) for x in point]
    scalars = [Value(x) for x in point]
    results = [
        neuron(torch.tanh, *theirs), neuron(cr.tanh, *ours), neuron(lambda v: v.tanh(), *scalars)
    ]  # fmt: skip
    for y in results:
        y.backward()
    wanted = results[0].item()
    assert abs(results[1].item() - wanted) < 1e-12
    assert abs(results[2].data - wanted) < 1e-12
    for p, t, v in zip(theirs, ours, scalars, strict=True):
        assert p.grad is not None
        assert t.grad is not None
        assert abs(t.grad.item() - p.grad.item()) < 1e-12
        assert abs(v.grad - p.grad.item()) < 1e-12


# --- S7: again, and deep


@pytest.mark.parametrize("kind", ["tensor", "value"])
def test_s7_constants_on_either_side(kind: str):
    for f, slope in [
        (lambda v: 2**v, 8 * math.log(2)), (lambda v: v**2, 6), (lambda v: 1 / v, -1 / 9),
        (lambda v: v / 2, 0.5), (lambda v: 5 - v, -1), (lambda v: v - 5, 1),
        (lambda v: v * v * v, 27), (lambda v: v + v * v, 7),
    ]:  # fmt: skip
        x: Any = Value(3.0) if kind == "value" else cr.tensor(np.array(3.0), requires_grad=True)
        y = f(x)
        y.backward(**({} if kind == "value" else {"retain_graph": True}))
        y.backward()
        once = float(x.grad) / 2
        assert abs(once - slope) < 1e-14 * max(1, abs(slope)) * 10


def test_s7_a_long_chain_of_tensors():
    n = 200_000
    x = cr.tensor(np.array(0.5), requires_grad=True)
    y = x
    for _ in range(n):
        y = y * 1.000001
    y.backward()
    assert x.grad is not None
    assert abs(x.grad.item() / 1.000001**n - 1) < 1e-10


# --- S8: programs for other classes


class Plain:
    """A number as in micrograd and microgpt, in their order of operations, for comparison."""

    def __init__(self, data: float, children: Sequence[Plain] = (), partials: Any = ()) -> None:
        self.data, self.grad = data, 0.0
        self.children, self.partials = children, partials

    def __add__(self, b: Any) -> Plain:
        b = b if isinstance(b, Plain) else Plain(b)
        return Plain(self.data + b.data, (self, b), (1, 1))

    def __mul__(self, b: Any) -> Plain:
        b = b if isinstance(b, Plain) else Plain(b)
        return Plain(self.data * b.data, (self, b), (b.data, self.data))

    def __pow__(self, k: float) -> Plain:
        return Plain(self.data**k, (self,), (k * self.data ** (k - 1),))

    def exp(self) -> Plain:
        return Plain(math.exp(self.data), (self,), (math.exp(self.data),))

    def log(self) -> Plain:
        return Plain(math.log(self.data), (self,), (1 / self.data,))

    def relu(self) -> Plain:
        return Plain(max(0, self.data), (self,), (float(self.data > 0),))

    __radd__ = __add__
    __rmul__ = __mul__
    __neg__ = lambda self: self * -1
    __sub__ = lambda self, b: self + -b
    __rsub__ = lambda self, a: -self + a
    __truediv__ = lambda self, b: self * b**-1
    __rtruediv__ = lambda self, a: self**-1 * a

    def backward(self) -> None:
        self.grad = 1.0
        for v in reversed(self.sorted()):
            for child, d in zip(v.children, v.partials, strict=True):
                child.grad += d * v.grad

    def sorted(self) -> list[Plain]:
        """Children before parents."""
        out: list[Plain] = []
        seen: set[Plain] = set()
        stack = [(self, False)]
        while stack:
            v, done = stack.pop()
            if done:
                out.append(v)
            elif v not in seen:
                seen.add(v)
                stack += [(v, True), *[(c, False) for c in v.children]]
        return out


@pytest.mark.parametrize("step", ["07_scalar_mlp", "19_a_gpt_on_numbers"])
def test_s8_only_the_import_changes(step: str):
    text = (STEPS / f"{step}.py").read_text(encoding="utf-8")
    line = "from chainrule import Value\n"
    assert text.count(line) == 1
    text = text.replace("range(50)", "range(8)").replace("range(24)", "range(6)")
    text = text.partition("\nassert")[0].partition("\nprint(")[0]
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {"Value": Plain}
    for names, program in ((ours, text), (theirs, text.replace(line, ""))):
        with redirect_stdout(io.StringIO()):
            exec(compile(program, step, "exec"), names)
    assert type(ours["loss"]) is Value
    assert type(theirs["loss"]) is Plain
    assert ours["losses"][0] == theirs["losses"][0], "values are the same bit for bit"
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-10)
    pairs = list(zip(ours["parameters"], theirs["parameters"], strict=True))
    largest = max(abs(b.grad) for _, b in pairs)
    assert largest > 0
    assert max(abs(a.grad - b.grad) for a, b in pairs) < 1e-9 * largest


# --- M: microgpt


@pytest.mark.parametrize(("block_size", "count"), [(8, 4064), (16, 4192)])
def test_m1_every_parameter_gets_its_gradient(block_size: int, count: int):
    config = GPTConfig.microgpt(27, block_size=block_size)
    model = GPT(config, draw=python_draw(Random(3)), dtype=np.float64)
    assert model.num_parameters() == count
    tokens = [26, *range(26)]  # all tokens, in documents as long as the model can see
    documents = np.array([(tokens + tokens)[i : i + block_size] for i in range(0, 27, 3)])
    model.loss(documents, (documents + 1) % 27).backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        dead = p.grad.numpy() == 0
        assert dead.mean() <= (0.5 if "fc" in name else 0), name  # relu may be off


def test_m3_the_first_losses_of_the_published_run_as_a_user_would_write_it():
    reference = json.loads(shared("microgpt_reference.json").read_text(encoding="utf-8"))
    rng = Random(42)
    corpus = Corpus.of(read_documents(shared("names.txt")), rng)
    config = GPTConfig.microgpt(corpus.tokenizer.vocab_size)
    model = GPT(config, draw=python_draw(rng), dtype=np.float64)
    optimizer = optim.Adam(model.parameters(), lr=0.01, betas=(0.85, 0.99))
    for step, wanted in enumerate(reference["losses"][:60]):
        batch = corpus.batch(step, 1, config.block_size)
        optimizer.param_groups[0]["lr"] = 0.01 * (1 - step / 1000)
        optimizer.zero_grad()
        loss = model.loss(batch.tokens, batch.targets)
        loss.backward()
        optimizer.step()
        assert abs(loss.item() - wanted) < 1e-4, f"step {step}"


# --- A: autograd beyond the basics


@pytest.mark.parametrize("scale", [1.0, 2.0**15])
def test_a5_a_gradient_of_1e_8_in_float16(scale: float):
    x = cr.tensor(np.float16(1.0), requires_grad=True)
    loss = x * 1e-4 * 1e-4
    assert loss.dtype == np.float16
    (loss * scale).backward()
    assert x.grad is not None
    assert x.grad.dtype == np.float16
    if scale == 1:
        assert x.grad.item() == 0, "1e-8 is less than half of the smallest float16"
    else:
        assert abs(x.grad.item() / scale / 1e-8 - 1) < 1e-2


def test_a6_a_loss_kept_as_a_number_keeps_no_graph():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    losses: list[Any] = []
    nodes: list[Any] = []
    for keep in (lambda loss: loss, lambda loss: loss.item()):
        loss = (x * x).sum()
        nodes.append(weakref.ref(loss.node.inputs[0]))
        losses.append(keep(loss))
        del loss
    gc.collect()
    assert [ref() is not None for ref in nodes] == [True, False]
