"""Whole models of PyTorch's: right ones are right, and left as they were; wrong parts are found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from chainrule import verify
from chainrule.errors import ConfigError
from chainrule.verify.measure.examine import examine
from chainrule.verify.pytorch import model_subjects
from tests.sampling import sampled_file
from tests.verify.pytorch.torch_models import (
    CORRECT,
    GPT,
    Attention,
    Flipped,
    ResNet,
    WrongAttention,
    by_tokens,
)

pytestmark = sampled_file(one_in=12)


TOKENS = (torch.tensor([[1, 5, 2, 7], [3, 0, 9, 4]]), torch.tensor([[5, 2, 7, 1], [0, 9, 4, 8]]))


@pytest.mark.parametrize("name", CORRECT)
def test_a_right_model_is_right(name: str):
    torch.manual_seed(1)
    found = model_subjects(*CORRECT[name]())
    assert found.subjects[-1].name == "model" and not found.skipped
    for subject in found.subjects:
        if subject.name.startswith("model.") and "gpt, " in name:
            continue  # as in "gpt"
        seen = examine(subject)
        assert not seen.wrong, (subject.name, seen.trials, seen.behaviours)
        assert seen.trials, (subject.name, seen.skipped)


def _state(model: nn.Module) -> list[Any]:
    tensors = [*model.state_dict().values(), *[p.grad for p in model.parameters()]]
    return [None if t is None else t.clone() for t in tensors]


def test_a_model_is_left_as_it_was():
    model = ResNet()
    model.head(torch.randn(2, 4)).sum().backward()
    batch = (torch.randn(4, 2, 6, 6), torch.tensor([0, 1, 2, 1]))
    before, kept, stream = _state(model), batch[0].clone(), torch.get_rng_state()
    found = model_subjects(model, batch, nn.CrossEntropyLoss())
    examine(found.subjects[-1])
    for a, b in zip(before, _state(model), strict=True):
        assert a is b is None or torch.equal(a, b)
    assert torch.equal(batch[0], kept) and torch.equal(stream, torch.get_rng_state())
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_wrong_attention_is_the_culprit_and_what_contains_it_is_not():
    torch.manual_seed(1)
    found = model_subjects(GPT(attention=WrongAttention, heads=1, layers=1), TOKENS, by_tokens)
    assert found.subjects[0].name == "WrongAttention"
    assert examine(found.subjects[0]).wrong
    names = {s.name for s in found.subjects}
    assert not {"model", "model.blocks.0"} & names
    assert {s.subject for s in found.skipped} == {"model", "model.blocks.0"}
    assert found.upstream == {"WrongAttention": ["model", "model.blocks.0"]}


def test_the_same_model_with_a_right_attention_has_no_victims():
    found = model_subjects(GPT(attention=Attention, heads=1, layers=1), TOKENS, by_tokens)
    assert not found.upstream and not found.skipped


def test_a_hook_that_turns_gradients_is_found_at_its_line():
    report = verify.model(Flipped(), torch.randn(5, 3), lambda y: y.square().mean())
    finding = report.findings[0]
    assert (finding.subject, finding.name.code) == ("model.inner", "sign")
    assert finding.place is not None and "register_full_backward_hook" in finding.place.text


def test_a_detached_path_is_found():
    class Detached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(torch.tanh(self.one(x)).detach())

    report = verify.model(Detached(), torch.randn(5, 3), lambda y: y.square().mean())
    assert {f.input for f in report.findings} == {"one.weight", "one.bias"}
    assert {f.name.code for f in report.findings} == {"detached"}


def test_norms_of_weights_are_right():
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.Embedding(4, 3, max_norm=0.5)
            self.one = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))
            self.two = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(torch.tanh(self.one(self.rows(x))))

    found = model_subjects(Normed(), torch.tensor([0, 3, 1]), lambda y: y.square().mean())
    assert not any(examine(s).wrong for s in found.subjects)


def test_a_loss_of_an_unknown_form_is_refused():
    with pytest.raises(ConfigError, match=r"loss\(model, batch\)"):
        model_subjects(nn.Linear(2, 2), torch.randn(3, 2), lambda a, b, c: a)
    with pytest.raises(ConfigError, match="at least two parts"):
        model_subjects(nn.Linear(2, 2), torch.randn(3, 2), lambda output, target: output)


def test_the_face_names_victims_and_what_it_left_out():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return g

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(3, 4)
            self.last = torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.last(Twice.apply(self.first(x)))

    report = verify.model(Net(), torch.randn(5, 3), loss=lambda y: (y * y).mean())
    assert [f.subject for f in report.findings if f.level == "error"] == ["Twice"]
    assert report.findings[0].victims
    assert any("a backward inside it is wrong" in s.why for s in report.ledger.skipped)


def test_what_writes_into_a_cotangent_that_another_path_needs_is_the_culprit():
    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            g.mul_(2 * x)
            return g

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            h = self.inner(x)
            return h + Squared.apply(h)

    torch.manual_seed(0)
    report = verify.model(Residual(), torch.randn(5, 3), loss=lambda y: (y * y).mean())
    assert [(f.subject, f.name.code) for f in report.findings] == [("Squared", "writes")]
    correction = report.findings[0].correction
    assert correction is not None and correction.after.strip() == "g = g.mul(2 * x)"


def test_the_face_says_what_pytorch_does_not_compute():
    report = verify.check(torch.nn.functional.hardsigmoid, torch.randn(3, 4), order=2)
    assert report.ok
    assert any("PyTorch does not compute it" in s.why for s in report.ledger.skipped)


def test_the_face_looks_at_a_stated_jvp():
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x / 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            (x,) = inputs
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return x * g

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return 2 * x * t

    report = verify.function(Half, torch.randn(3, 4))
    assert [f.subject for f in report.findings if f.level == "error"] == ["Half, its jvp"]


class TwoHeads(nn.Module):
    """The second head gets what the first one's call has left, without its graph."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 1)
        self.left: list[torch.Tensor] = []

    def trunk_of(self, x: torch.Tensor) -> torch.Tensor:
        if self.left:
            return self.left.pop()
        hidden = torch.tanh(self.trunk(x))
        self.left.append(hidden.detach())
        return hidden

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.first(self.trunk_of(x)), self.second(self.trunk_of(x))
        return (a * a).mean() + (b * b).mean()


def test_a_cut_beside_the_forward_is_located_by_running_it():
    report = verify.model(TwoHeads(), (torch.randn(5, 3),))
    names = {(f.name.code, f.place.text if f.place else "") for f in report.findings}
    assert names == {("partly_detached", "self.left.append(hidden.detach())")}, str(report)
