"""Observed programs come out bit for bit as without us, and nothing of ours stays."""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from chainrule.verify.ledger import Ledger
from chainrule.verify.training import observers
from chainrule.verify.training.record.bus import Bus, Part, Tap
from chainrule.verify.training.record.events import StepEnds
from chainrule.verify.training.watching import watching
from tests.verify.training.programs.training_models import CNN, GPT, batch, mlp


def train(model, data, steps=6):
    torch.manual_seed(3)
    m = model()
    o = torch.optim.AdamW(m.parameters(), 1e-3)
    losses = []
    for _ in range(steps):
        x, y = data()
        loss = F.cross_entropy(m(x).flatten(0, -2), y.flatten())
        o.zero_grad()
        loss.backward()
        o.step()
        losses.append(loss.item())
    m.eval()
    with torch.no_grad():
        losses.append(m(data()[0]).sum().item())
    state = torch.get_rng_state().sum().item(), random.random(), float(np.random.rand())
    return losses, [p.detach().clone() for p in m.parameters()], state


def tokens():
    return torch.randint(0, 31, (4, 8)), torch.randint(0, 31, (4, 8))


def images():
    return torch.randn(4, 3, 12, 12), torch.randint(0, 5, (4,))


def encoder():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.Sequential(nn.Embedding(31, 16), nn.TransformerEncoder(layer, 2), nn.Linear(16, 31))


@pytest.mark.parametrize(("model", "data"), [(GPT, tokens), (CNN, images), (encoder, tokens)])
def test_the_results_are_the_same(model, data):
    plain = _seeded(lambda: train(model, data))
    with watching():
        seen = _seeded(lambda: train(model, data))
    assert plain[0] == seen[0]
    assert all(torch.equal(a, b) for a, b in zip(plain[1], seen[1], strict=True))
    assert plain[2] == seen[2]


def _seeded(run):
    random.seed(0)
    np.random.seed(0)
    return run()


def test_nothing_stays():
    optimizers = sys.modules["torch.optim.optimizer"]
    owners = [
        torch.autograd, torch.optim.Optimizer, torch.nn.Module, torch.amp.GradScaler,
        torch.nn.utils, torch.optim.lr_scheduler.LRScheduler,
        torch.autograd.graph.saved_tensors_hooks,
    ]  # fmt: skip
    before, called = [dict(vars(owner)) for owner in owners], torch.nn.Module.__call__
    with watching():
        train(mlp_of_tokens, tokens, 2)
        assert torch.nn.Module.__call__ is not called
    assert [dict(vars(owner)) for owner in owners] == before
    assert not optimizers._global_optimizer_pre_hooks
    assert not optimizers._global_optimizer_post_hooks
    assert torch._C._len_torch_function_stack() == 0


def mlp_of_tokens():
    return nn.Sequential(nn.Embedding(31, 8), nn.ReLU(), nn.Linear(8, 31))


def test_the_modes_of_a_program_stay_in_order():
    parts = observers()
    for part in parts:
        part.start()
    with torch.device("meta"):
        for part in reversed(parts):
            part.stop()
        assert torch.empty(2).device.type == "meta"
    assert torch.empty(2).device.type == "cpu"
    assert torch._C._len_torch_function_stack() == 0


def test_an_error_of_the_program_goes_on():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    with pytest.raises(RuntimeError, match="does not require grad"), watching():
        F.mse_loss(m(x).detach(), y).backward()
        o.step()
    assert torch._C._len_torch_function_stack() == 0


class _Nothing(Tap):
    def put(self, bus):
        self.bus = bus

    def take(self):
        self.bus = None


class _Broken(Part):
    title = "something"

    def listens(self):
        return {StepEnds: self._fail}

    def _fail(self, event):
        raise ZeroDivisionError("ours")

    def found(self, ledger):
        return []


def test_an_error_of_ours_is_a_line_of_the_ledger():
    bus = Bus([_Nothing()])
    part = _Broken(bus)
    part.start()
    bus.tell(StepEnds(None, None, None))
    part.stop()
    ledger = Ledger()
    assert part.findings(ledger) == []
    why = {s.subject: s.why for s in ledger.skipped}
    assert "ZeroDivisionError: ours" in why["something"]
    assert "AttributeError" in why["the history of gradients"]  # which got no optimizer to look at


def test_an_optimizer_from_before_is_known():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    with watching(m, o) as report:
        for _ in range(3):
            F.mse_loss(m(x), y).backward()
            o.step()
    assert [f.name.code for f in report.findings] == ["not_reset"]
    assert not report.ok
    assert "optimizer.zero_grad()" in str(report)


def test_a_script_may_keep_what_was_replaced():
    parts = observers()
    for part in parts:
        part.start()
    clip = torch.nn.utils.clip_grad_norm_
    for part in reversed(parts):
        part.stop()
    m, (x, y) = mlp(), batch()
    F.mse_loss(m(x), y).backward()
    assert float(clip(m.parameters(), 1.0)) > 0


def test_a_traced_model_is_traced_as_without_us():
    parts = observers()
    for part in parts:
        part.start()
    try:
        m = mlp()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            traced = torch.jit.trace(m, torch.randn(2, 4))
        x = torch.randn(3, 4)
        assert torch.equal(traced(x), m(x))
    finally:
        for part in reversed(parts):
            part.stop()


def test_a_compiled_model_is_not_looked_into():
    with watching() as report:
        m = torch.compile(mlp(), backend="eager")
        o = torch.optim.SGD(m.parameters(), 0.1)
        for _ in range(3):
            x, y = batch()
            F.mse_loss(m(x), y).backward()
            o.step()
    assert [f.name.code for f in report.findings] == ["not_reset"]
    assert any("torch.compile" in s.why for s in report.ledger.skipped)
