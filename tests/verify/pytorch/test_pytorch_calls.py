"""PyTorch's own derivatives: right ones raise no alarm, those that are wrong in 2.13 are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as fn

from chainrule import verify
from chainrule.errors import ConfigError
from chainrule.verify.ledger import Skipped
from chainrule.verify.measure.examine import examine
from chainrule.verify.pytorch import subject_of_call, subjects_of_call
from chainrule.verify.subject import values
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


def _r(*shape: int) -> torch.Tensor:
    own = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=own, dtype=torch.float64)


def _p(*shape: int) -> torch.Tensor:
    return _r(*shape).sigmoid() * 0.8 + 0.1


LABELS = torch.tensor([2, 0, 3])

# fmt: off
RIGHT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gelu": (fn.gelu, (_r(3, 4),)),
    "relu at its kink": (fn.relu, (torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64),)),
    "relu in place": (lambda x: fn.relu(x, inplace=True) * 2, (_r(3, 4),)),
    "softmax": (lambda x: fn.softmax(x, -1), (_r(3, 4),)),
    "cross entropy": (fn.cross_entropy, (_r(3, 4), LABELS)),
    "linear": (fn.linear, (_r(3, 4), _r(5, 4), _r(5))),
    "conv": (lambda x, w: fn.conv1d(x, w, padding=1), (_r(2, 3, 7), _r(4, 3, 3))),
    "max pool": (lambda x: fn.max_pool2d(x, 2), (_r(1, 2, 4, 6),)),
    "dropout": (lambda x: fn.dropout(x, 0.3), (_r(3, 4),)),
    "embedding with padding": (lambda w: fn.embedding(LABELS, w, padding_idx=0), (_r(5, 4),)),
    "rms norm": (lambda x, w: fn.rms_norm(x, (4,), w), (_r(3, 4), _r(4))),
    "no derivative by the target": (fn.soft_margin_loss, (_r(3, 4), _r(3, 4).sign())),
    "no forward mode": (torch.cdist, (_r(4, 3), _r(5, 3))),
    "ties": (lambda x: x.amax(-1), (torch.tensor([[1.0, 2.0, 2.0]], dtype=torch.float64),)),
    "a list": (lambda xs: xs[0] @ xs[1], ([_r(2, 3), _r(3, 4)],)),
    "complex": (lambda x: torch.fft.rfft(x).abs(), (_r(5),)),
    "prod at zero": (torch.prod, (torch.tensor([0.0, 2.0, 3.0], dtype=torch.float64),)),
}
# fmt: on


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_derivative_is_right_in_every_mode(name: str):
    f, args = RIGHT[name]
    for subject in subjects_of_call(f, args):
        seen = examine(subject)
        assert not seen.wrong, (subject.name, seen.trials, seen.behaviours)
        assert seen.trials, (subject.name, seen.skipped)


@pytest.mark.parametrize("name", ["gelu", "softmax", "linear", "embedding with padding"])
def test_higher_orders_that_are_right(name: str):
    f, args = RIGHT[name]
    for subject in [subject_of_call(f, args, order=k) for k in (2, 3)]:
        assert not examine(subject).wrong, subject.name


def _cumprod(x: torch.Tensor) -> torch.Tensor:
    return torch.cumprod(x, 0)


def _batch_norm(x: torch.Tensor) -> torch.Tensor:
    return fn.batch_norm(x, None, None, training=True)


WRONG: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int, Any]] = {
    "layer_norm": (fn.layer_norm, (_r(3, 4), (4,)), 3, "reverse"),
    "batch_norm": (_batch_norm, (_r(5, 3),), 3, "reverse"),
    "cumprod": (_cumprod, (torch.tensor([1.5, 0.0, 2.0, -1.0]).double(),), 2, "forward"),
    "hardshrink": (
        lambda x: fn.hardshrink(x, 0.0),
        (_r(3) * torch.tensor([1, 0, 1]),),
        1,
        "reverse",
    ),
}
"""f, arguments, the first order that is wrong, the mode."""


@pytest.mark.parametrize("name", WRONG)
def test_derivatives_that_are_wrong_in_pytorch_are_found_at_their_order(name: str):
    f, args, order, mode = WRONG[name]
    for k in range(1, order + 1):
        seen = examine(subject_of_call(f, args, order=k, mode=mode))
        assert seen.wrong == (k == order), (k, seen.trials, seen.behaviours, seen.skipped)


def test_what_is_pulled_is_what_autograd_computes():
    x, w = _r(3, 4).requires_grad_(), _r(5, 4)
    subject = subject_of_call(fn.linear, (x, w))
    g = np.random.default_rng(0).normal(size=(3, 5))
    x_bar, w_bar = subject.pull(values(subject), [g])
    (right,) = torch.autograd.grad(fn.linear(x, w), x, torch.from_numpy(g))
    assert w_bar is None and x_bar is not None
    np.testing.assert_array_equal(x_bar, right.numpy())
    assert [i.name for i in subject.inputs] == ["input", "weight"]


@pytest.mark.parametrize("mode", ["reverse", "func", "forward"])
def test_modes_agree(mode: Any):
    f: Callable[..., Any] = lambda x, y: torch.tanh(x @ y)
    g = np.random.default_rng(0).normal(size=(2, 2))
    subjects = [subject_of_call(f, (_r(2, 3), _r(3, 2)), mode=m) for m in ("reverse", mode)]
    one, other = [s.pull(values(s), [g]) for s in subjects]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_functions_inside_are_subjects_of_their_own():
    class Inside(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    subjects = subjects_of_call(lambda x: Inside.apply(x).sum(), (_r(3),))
    assert [s.name for s in subjects] == ["Inside", "<lambda>"]
    assert [examine(s).wrong for s in subjects] == [True, True]


def test_what_pytorch_does_not_compute_is_said():
    skipped: list[Skipped] = []
    subjects = subjects_of_call(torch.cdist, (_r(4, 3), _r(5, 3)), order=2, skipped=skipped)
    assert [s.name for s in subjects] == ["cdist", "cdist, derivative of order 1 by torch.func"]
    assert all("not" in s.why for s in skipped) and len(skipped) == 5


def test_a_module_is_a_function_of_its_parameters():
    norm = torch.nn.BatchNorm1d(3)
    assert norm.running_mean is not None
    before = norm.running_mean.clone()
    subject = subject_of_call(norm, (_r(5, 3).float().requires_grad_(),))
    assert [(i.name, i.wanted) for i in subject.inputs] == [
        ("input", True),
        ("weight", True),
        ("bias", True),
    ]
    assert not examine(subject).wrong
    assert torch.equal(norm.running_mean, before) and norm.num_batches_tracked == 0


def test_nothing_to_differentiate_is_said():
    with pytest.raises(ConfigError, match="nothing to differentiate"):
        subject_of_call(torch.bincount, (LABELS,))


def test_zeros_are_tried_in_nested_forward_mode():
    """PyTorch's derivative of cumprod there is wrong only where an element is 0."""
    report = verify.check(_cumprod, _r(4), order=2)
    wrong = [f for f in report.findings if f.level == "error"]
    assert any("at zeros" in f.subject for f in wrong), str(report)
    assert all("order 2 in forward mode" in f.subject for f in wrong)
    for right in (torch.exp, fn.relu, torch.prod, lambda x: torch.cumsum(x, 0), torch.abs):
        assert verify.check(right, _r(4), order=2).ok
