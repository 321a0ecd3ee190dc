"""Layers that are written in NumPy: however they keep parameters and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule import verify
from chainrule.verify.arrays.naming_conventions import gradient_of
from chainrule.verify.arrays.objects import subject_of_layer
from tests.ops.sample import apart
from tests.verify.arrays.agreement import X, agrees


class Linear:
    def __init__(self, m: int, n: int) -> None:
        self.W, self.b = apart(m, n, salt=m), apart(n, salt=n + 1)
        self.dW, self.db = np.zeros((m, n)), np.zeros(n)

    def forward(self, x: Any) -> Any:
        self.x = x
        return x @ self.W + self.b

    def backward(self, dout: Any) -> Any:
        self.dW += self.x.T @ dout
        self.db += dout.sum(0)
        return dout @ self.W.T


class InDicts:
    def __init__(self, m: int, n: int) -> None:
        self.params = {"W": apart(m, n), "b": apart(n)}
        self.grads: dict[str, Any] = {}

    def __call__(self, x: Any) -> Any:
        self.x = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, dout: Any) -> Any:
        self.grads["W"] = self.x.T @ dout
        self.grads["b"] = dout.sum(axis=0)
        return dout @ self.params["W"].T


class InLists(InDicts):
    def __init__(self, m: int, n: int) -> None:
        self.params: Any = [apart(m, n), apart(n)]
        self.grads: Any = [None, None]

    def __call__(self, x: Any) -> Any:
        self.x = x
        return x @ self.params[0] + self.params[1]

    def backward(self, dout: Any) -> Any:
        self.grads = [self.x.T @ dout, dout.sum(axis=0)]
        return dout @ self.params[0].T


class Left:
    """Leaves everything in attributes."""

    def __init__(self, m: int, n: int) -> None:
        self.weights, self.biases = apart(m, n), apart(1, n)

    def forward(self, inputs: Any) -> None:
        self.inputs = inputs
        self.output = inputs @ self.weights + self.biases

    def backward(self, dvalues: Any) -> None:
        self.dweights = self.inputs.T @ dvalues
        self.dbiases = dvalues.sum(axis=0, keepdims=True)
        self.dinputs = dvalues @ self.weights.T


class Returned:
    def __init__(self, m: int, n: int) -> None:
        self.W, self.b = apart(m, n), apart(n)

    def forward(self, x: Any) -> Any:
        self.x = x
        return x @ self.W + self.b

    def backward(self, g: Any) -> Any:
        return g @ self.W.T, self.x.T @ g, g.sum(0)


class Parameter:
    def __init__(self, data: Any) -> None:
        self.data, self.grad = data, None


class Held:
    def __init__(self, m: int, n: int) -> None:
        self.W, self.b = Parameter(apart(m, n)), Parameter(apart(n))

    def forward(self, x: Any) -> Any:
        self.x = x
        return x @ self.W.data + self.b.data

    def backward(self, g: Any) -> Any:
        self.W.grad, self.b.grad = self.x.T @ g, g.sum(0)
        return g @ self.W.data.T


class First(Linear):
    def backward(self, dout: Any) -> None:
        self.grad_W, self.grad_b = self.x.T @ dout, dout.sum(0)


LAYERS = [Linear, InDicts, InLists, Left, Returned, Held]


@pytest.mark.parametrize("cls", LAYERS)
def test_a_layer_is_understood_as_it_is_written(cls: Any):
    layer = cls(4, 5)
    subject = subject_of_layer(layer, (X,))
    assert [x.value.shape[-2:] for x in subject.inputs if x.wanted][:2] == [(3, 4), (4, 5)]
    assert sum([x.wanted for x in subject.inputs]) == 3
    assert agrees(subject)


def test_two_methods_of_a_layer_are_the_layer():
    layer = Returned(4, 5)
    report = verify.pair(layer.forward, layer.backward, X)
    assert report.ok and report.ledger.checked[0].kind == "NumPy layer"
    assert "x" not in vars(layer)


def test_a_gradient_may_be_called_g_and_the_name():
    assert gradient_of("gb", ["W", "b", "x", "mask"]) == "b"
    assert gradient_of("gamma", ["W", "b"]) is None


def test_a_first_layer_owes_no_gradient_of_its_input():
    subject = subject_of_layer(First(4, 5), (X,))
    assert [(x.name, x.wanted) for x in subject.inputs] == [("x", False), ("W", True), ("b", True)]
    assert verify.pair(First(4, 5), X).ok


class Forgets(Returned):
    def backward(self, g: Any) -> Any:
        self.dW = self.x.T @ g
        return g @ self.W.T


def test_a_parameter_without_a_gradient_is_named():
    report = verify.pair(Forgets(4, 5), X)
    assert [(f.input, f.name.code) for f in report.findings] == [("b", "dropped")]


class Updates(Returned):
    """Takes its own step of gradient descent."""

    def backward(self, output_gradient: Any, learning_rate: float) -> Any:
        x_bar = output_gradient @ self.W.T
        self.W -= learning_rate * (self.x.T @ output_gradient)
        self.b = self.b - learning_rate * output_gradient.sum(0)
        return x_bar


class UpdatesFirst(Updates):
    def backward(self, output_gradient: Any, learning_rate: float) -> Any:
        self.W -= learning_rate * (self.x.T @ output_gradient)
        self.b = self.b - learning_rate * output_gradient.sum(0)
        return output_gradient @ self.W.T


def test_a_backward_that_takes_a_step_is_judged_by_it():
    assert agrees(subject_of_layer(Updates(4, 5), (X,)))
    assert verify.pair(Updates(4, 5), X).ok
    report = verify.pair(UpdatesFirst(4, 5), X)
    assert {f.input for f in report.findings} == {"x"}


SIZE = 3


def test_a_size_that_stands_outside_is_no_mistake():
    mean = lambda x: x.mean(0)
    assert verify.pair(mean, lambda g: np.repeat(g[None], SIZE, 0) / SIZE, X).ok
    report = verify.pair(mean, lambda g, x: np.broadcast_to(g / 3, x.shape), X)
    assert [f.name.code for f in report.findings] == ["size"]


class Dropout:
    def forward(self, x: Any) -> Any:
        self.mask = (np.random.rand(*x.shape) > 0.4) / 0.6
        return x * self.mask

    def backward(self, g: Any) -> Any:
        return g * self.mask


def test_random_layers_draw_the_same_numbers_and_leave_the_stream():
    np.random.seed(5)
    before = np.random.get_state(legacy=False)["state"]["key"].copy()
    assert verify.pair(Dropout(), X).ok
    assert np.array_equal(before, np.random.get_state(legacy=False)["state"]["key"])


class Recurrent:
    """Writes into arrays of its own making."""

    def __init__(self, n: int) -> None:
        self.W = apart(n, n) / 3

    def forward(self, xs: Any) -> Any:
        self.h = np.zeros((len(xs) + 1, xs.shape[1]))
        self.xs = xs
        for t in range(len(xs)):
            self.h[t + 1] = np.tanh(xs[t] + self.h[t] @ self.W)
        return self.h[1:]

    def backward(self, g: Any) -> Any:
        self.dW, dxs, carry = np.zeros_like(self.W), np.zeros_like(self.xs), 0
        for t in reversed(range(len(g))):
            dxs[t] = (g[t] + carry) * (1 - self.h[t + 1] ** 2)
            self.dW += np.outer(self.h[t], dxs[t])
            carry = dxs[t] @ self.W.T
        return dxs


def test_forwards_that_write_into_arrays_are_followed():
    subject = subject_of_layer(Recurrent(4), (X,))
    assert agrees(subject)
    assert type(np.zeros(2)) is np.ndarray, "the stand-in is gone"
