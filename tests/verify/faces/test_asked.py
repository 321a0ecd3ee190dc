"""What a user reads whose own code raises while it is verified."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import chainrule as cr
from chainrule import verify
from chainrule.verify.faces import calls


def product(x: Any, w: Any) -> Any:
    return x @ w


def product_backward(g: Any, x: Any, w: Any) -> Any:
    return g @ w.T, x.T @ g


class Layer:
    def __init__(self) -> None:
        self.W = np.ones((2, 3))

    def forward(self, x: Any) -> Any:
        self.x = x
        return x @ self.W

    def backward(self, dout: Any) -> Any:
        self.dW = self.x.T @ dout
        return dout @ self.W.T


class Product(cr.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g @ w.T, x.T @ g


A = np.ones((2, 3))
CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "pair": (lambda: verify.pair(product, product_backward, A, A), ValueError, "float64 (2, 3)"),
    "layer": (lambda: verify.pair(Layer(), A), ValueError, "Layer with float64 (2, 3)"),
    "check": (lambda: verify.check(product, A, A), cr.ShapeError, "product with float64 (2, 3)"),
    "function": (
        lambda: verify.function(Product, cr.tensor(A), cr.tensor(A)),
        cr.ShapeError,
        "Product with float64 (2, 3), float64 (2, 3)",
    ),
    "assert": (lambda: verify.assert_gradients(product, A, A), cr.ShapeError, "product with"),
    "model": (
        lambda: verify.model(torch.nn.Linear(3, 4), (torch.ones(2, 7),), lambda y: y.sum()),
        RuntimeError,
        "Linear with (torch.float32 (2, 7))",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_of_the_users_code_says_what_was_asked(name: str) -> None:
    call, kind, said = CASES[name]
    with pytest.raises(kind) as raised:
        call()
    (note,) = raised.value.__notes__
    assert said in note
    assert "by itself" in note


@pytest.mark.parametrize("name", ["pair", "layer"])
def test_what_runs_between_is_left_out(name: str) -> None:
    with pytest.raises(ValueError, match="mismatch") as raised:
        CASES[name][0]()
    ran = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert ran[-2:] == ["told", "product" if name == "pair" else "forward"]


def test_an_error_of_ours_is_told_without_our_inside() -> None:
    with pytest.raises(cr.GradientError, match="nothing to differentiate") as raised:
        verify.pair(product, product_backward, "a", "b")
    ran = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert ran[-1] == "told"
    assert not hasattr(raised.value, "__notes__")


def test_a_mistake_of_ours_keeps_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        return np.reshape(A, (4, 4))

    broken.__code__ = broken.__code__.replace(co_filename=calls.__file__)
    monkeypatch.setattr(calls, "_certified", broken)
    with pytest.raises(ValueError, match="reshape") as raised:
        verify.pair(lambda x: x, lambda g: g, A)
    assert not hasattr(raised.value, "__notes__")
    assert "broken" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
