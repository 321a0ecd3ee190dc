"""The forward's code beside the backward's: what it saves can be wrong, so it can be changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import chainrule as cr
from chainrule import verify
from chainrule.verify.arrays.objects import subject_of_layer
from chainrule.verify.arrays.pair import subject_of_pair
from chainrule.verify.measure.examine import examine
from chainrule.verify.own.function import subject_of_function
from chainrule.verify.pytorch import subject_of_call
from chainrule.verify.pytorch import subject_of_function as torch_subject
from chainrule.verify.subject import Subject

X = np.random.default_rng(3).normal(size=(3, 4))


def forward(x):
    y = np.tanh(x)
    kept = y
    kept *= 2
    return y / 2, kept


def backward(g, cache):
    return g * (1 - cache**2)


def mended(x):
    y = np.tanh(x)
    return y, y


class Layer:
    def forward(self, x):
        self.y = np.tanh(x)
        y = self.y.copy()
        self.y *= 2
        return y

    def backward(self, g):
        return g * (1 - self.y**2)


def layer_forward(self, x):
    self.y = np.tanh(x)
    return self.y


class Own(cr.Function):
    @staticmethod
    def forward(ctx, x):
        y = cr.tanh(x)
        ctx.save_for_backward(2 * y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y**2)


def own_forward(ctx, x):
    y = cr.tanh(x)
    ctx.save_for_backward(y)
    return y


class Torch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.y = y.clone().mul_(2)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * (1 - ctx.y**2)


def torch_forward(ctx, x):
    ctx.y = torch.tanh(x)
    return ctx.y.clone()


class Apart(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.tanh(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.y = 2 * output

    @staticmethod
    def backward(ctx, g):
        return g * (1 - ctx.y**2)


def setup(ctx, inputs, output):
    ctx.y = output


CASES: dict[str, tuple[Callable[[], Subject], Callable[..., Any], str]] = {
    "pair": (lambda: subject_of_pair(forward, backward, (X,)), mended, "kept *= 2"),
    "layer": (lambda: subject_of_layer(Layer(), (X,)), layer_forward, "self.y *= 2"),
    "own": (lambda: subject_of_function(Own, (X,)), own_forward, "2 * y"),
    "torch": (lambda: torch_subject(Torch, (torch.tensor(X),)), torch_forward, "mul_(2)"),
    "torch, set up apart": (lambda: torch_subject(Apart, (torch.tensor(X),)), setup, "2 * output"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_forward_saves_can_be_changed(name: str):
    made, right, line = CASES[name]
    subject = made()
    assert subject.source is not None and subject.source.forward is not None
    assert line in subject.source.forward.text
    changed = subject.source.forward.replaced(right)
    assert examine(subject).wrong_inputs() == (0,)
    assert not examine(changed).wrong
    assert examine(subject).wrong, "the subject itself stays as it is"
    assert changed.source is not None and "1 - " in changed.source.text


# --- Derivatives of a user's backward -------------------------------------------------------------


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x.detach() * g


def cube_backward(ctx, g):
    (x,) = ctx.saved_tensors
    return 3 * x * x * g


def test_a_backward_that_cannot_be_differentiated_is_the_users():
    assert not examine(subject_of_call(Cube.apply, (torch.tensor(X),))).wrong
    second = subject_of_call(Cube.apply, (torch.tensor(X),), order=2)
    assert second.name.startswith("Cube") and second.inputs[0].name == "x"
    assert second.place is not None and second.place.function == "Cube.backward"
    assert examine(second).wrong_inputs() == (0,)
    assert second.source is not None and "x.detach()" in second.source.text
    assert not examine(second.source.replaced(cube_backward)).wrong
    assert subject_of_call(Cube.apply, (torch.tensor(X),)).source is None, "its own is the class's"


# --- What was kept --------------------------------------------------------------------------------


def two(x):
    p = np.tanh(x)
    e = p * p
    return p, e


def by_cache(g, p):
    return g * (1 - p)


def test_cache_that_is_said_goes_before_names():
    assert verify.pair(two, by_cache, X, cache=True).ok
    wrong = verify.pair(two, lambda g, p: g * (1 - p * p), X, cache=True)
    assert [f.input for f in wrong.findings if f.level == "error"] == ["x"]


def test_cache_that_is_said_and_a_result_by_name():
    def kept(x):
        y = np.tanh(x)
        return y, x * x

    assert verify.pair(kept, lambda g, x, kept: g * 0 + (1 - np.tanh(x) ** 2) * g, X, cache=True).ok


def test_the_output_returned_again_is_kept():
    def again(x):
        out = np.tanh(x)
        return out, out

    assert verify.pair(again, lambda g, out: g * (1 - out**2), X).ok
    assert not verify.pair(again, lambda g, out: g * (1 - out), X).ok


def test_watching_is_offered_and_loaded_late():
    code = (
        "import sys; from chainrule import verify; loaded = set(sys.modules); verify.watching; "
        "print(any('verify.training' in m or m == 'torch' for m in loaded))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
    with verify.watching() as report:
        pass
    assert "watching" in verify.__all__ and "nothing could be checked" in str(report)
