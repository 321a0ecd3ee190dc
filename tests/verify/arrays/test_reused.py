"""Layers that a network uses in several places, and what it says of its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


rng = np.random.default_rng(4)
X = rng.normal(size=(4, 3))


class Dense:
    def __init__(self, n: int, m: int) -> None:
        self.W, self.b = rng.normal(size=(n, m)), 0.1 * rng.normal(size=m)

    def forward(self, x: Any) -> Any:
        self.x = x
        return x @ self.W + self.b

    def backward(self, g: Any) -> Any:
        self.dW, self.db = self.x.T @ g, g.sum(axis=0)
        return g @ self.W.T


class Relu:
    def forward(self, x: Any) -> Any:
        self.mask = x > 0
        return x * self.mask

    def backward(self, g: Any) -> Any:
        return g * self.mask


class Stacked(Relu):
    """The same with a mask for each call."""

    def __init__(self) -> None:
        self.masks: list[Any] = []

    def forward(self, x: Any) -> Any:
        self.masks.append(x > 0)
        return x * self.masks[-1]

    def backward(self, g: Any) -> Any:
        return g * self.masks.pop()


class Net:
    """Two hidden layers; `relus` are what comes behind them."""

    def __init__(self, *relus: Any) -> None:
        self.one, self.two, self.three = Dense(3, 5), Dense(5, 5), Dense(5, 2)
        self.first, self.second = relus

    def forward(self, x: Any) -> Any:
        h = self.first.forward(self.one.forward(x))
        h = self.second.forward(self.two.forward(h))
        return self.three.forward(h)

    def backward(self, g: Any) -> Any:
        g = self.two.backward(self.second.backward(self.three.backward(g)))
        return self.one.backward(self.first.backward(g))


def both(relu: Any) -> tuple[Any, Any]:
    return relu, relu


def test_one_layer_in_two_places_keeps_one_mask() -> None:
    finding = verify.pair(Net(*both(Relu())), X).findings[0]
    assert finding.subject == "Net" and finding.level == "error"


def test_layers_of_their_own_and_a_stack_are_right() -> None:
    assert verify.pair(Net(Relu(), Relu()), X).ok
    assert verify.pair(Net(*both(Stacked())), X).ok


# --- Gradients in a list of their own ------------------------------------------------------------


class Block:
    """A dense layer whose parameters and gradients are listed as well."""

    names = ("W", "b")

    def __init__(self) -> None:
        self.dense = Dense(3, 4)
        self.params = {"W": self.dense.W, "b": self.dense.b}
        self.grads: dict[str, Any] = {}

    def forward(self, x: Any) -> Any:
        return np.tanh(self.dense.forward(x))

    def backward(self, g: Any) -> Any:
        dx = self.dense.backward(g * (1 - np.tanh(self.dense.x @ self.dense.W + self.dense.b) ** 2))
        self.grads.update({n: getattr(self.dense, f"d{n}") for n in self.names})
        return dx


def test_a_gradient_that_is_left_in_a_layer_and_not_listed_is_dropped() -> None:
    class Forgetful(Block):
        names = ("W",)

    assert verify.pair(Block(), X).ok
    finding = verify.pair(Forgetful(), X).findings[0]
    assert finding.name.code == "dropped" and finding.input.endswith("b")


class Summing(Dense):
    """Gradients add up until somebody calls `zero`."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__(n, m)
        self.kept: list[Any] = []
        self.zero()

    def zero(self) -> None:
        self.dW, self.db = np.zeros_like(self.W), np.zeros_like(self.b)

    def forward(self, x: Any) -> Any:
        self.kept.append(x)
        return x @ self.W + self.b

    def backward(self, g: Any) -> Any:
        self.dW += self.kept.pop().T @ g
        self.db += g.sum(axis=0)
        return g @ self.W.T


class Replacing(Summing):
    def backward(self, g: Any) -> Any:
        self.dW = self.kept.pop().T @ g
        self.db += g.sum(axis=0)
        return g @ self.W.T


class Twice:
    def __init__(self, cell: Any) -> None:
        self.cell = cell

    def forward(self, x: Any) -> Any:
        return self.cell.forward(self.cell.forward(x))

    def backward(self, g: Any) -> Any:
        self.cell.zero()
        return self.cell.backward(self.cell.backward(g))


def test_a_method_called_zero_sets_gradients_back() -> None:
    assert verify.pair(Twice(Summing(3, 3)), X).ok
    finding = verify.pair(Twice(Replacing(3, 3)), X).findings[0]
    assert finding.name.code == "overwritten"
    assert finding.place is not None and finding.place.text.startswith("self.dW =")
