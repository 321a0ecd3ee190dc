"""Networks of layers in NumPy: the wrong layer is the culprit, the others its victims."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import verify
from chainrule.verify.arrays.networks.certified_network import certified_network
from chainrule.verify.arrays.networks.network import network_of
from chainrule.verify.arrays.objects import subject_of_layer
from tests.ops.sample import apart
from tests.verify.arrays.agreement import X, agrees, line_of
from tests.verify.arrays.test_layers import Linear


class Network:
    def __init__(self, *layers: Any) -> None:
        self.layers = list(layers)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, g: Any) -> Any:
        for layer in reversed(self.layers):
            g = layer.backward(g)
        return g


class Tanh:
    def forward(self, x: Any) -> Any:
        self.y = np.tanh(x)
        return self.y

    def backward(self, g: Any) -> Any:
        return g * (1 - self.y**2)


class WrongTanh(Tanh):
    def backward(self, g: Any) -> Any:
        return g * (1 + self.y**2)


class Branches(Network):
    """Two layers that see the same input."""

    def forward(self, x: Any) -> Any:
        a, b = self.layers
        return a.forward(x) * 2 + b.forward(x)

    def backward(self, g: Any) -> Any:
        a, b = self.layers
        return a.backward(2 * g) + b.backward(g)


def test_the_wrong_layer_is_the_culprit_and_the_others_its_victims():
    net = Network(Linear(4, 6), WrongTanh(), Network(Linear(6, 3), Tanh()))
    report = verify.pair(net, X)
    assert [f.subject for f in report.findings] == ["Network.layers[1]"]
    assert report.findings[0].victims == ("Network.layers[0]", "Network")
    place = report.findings[0].place
    assert (
        place is not None and abs(place.line - line_of("return g * (1 + self.y**2)", __file__)) <= 1
    )
    checked = [c.subject for c in report.ledger.checked]
    assert "Network.layers[2].layers[0]" in checked and "Network" not in checked


def test_a_right_network_is_certified_as_a_whole():
    net = Network(Linear(4, 6), Tanh(), Linear(6, 3))
    report = verify.pair(net, X)
    assert report.ok and report.ledger.checked[-1].subject == "Network"


class Doubles(Network):
    def backward(self, g: Any) -> Any:
        return 2 * super().backward(g)


def test_a_network_that_joins_right_layers_wrongly_is_the_culprit():
    report = verify.pair(Doubles(Linear(4, 6), Tanh()), X)
    assert [(f.subject, f.input) for f in report.findings] == [("Doubles", "x")]


def test_layers_beside_each_other_are_no_victims():
    found = network_of(Branches(WrongTanh(), Tanh()), (X,))
    assert found.upstream == {
        "Branches.layers[0]": ["Branches"],
        "Branches.layers[1]": ["Branches"],
    }
    report = certified_network(Branches(WrongTanh(), Tanh()), (X,), {})
    assert [f.subject for f in report.findings] == ["Branches.layers[0]"]


def test_the_object_is_left_as_it_was():
    net = Network(Linear(4, 6), Tanh())
    before = {k: np.array(v) for k, v in vars(net.layers[0]).items()}
    verify.pair(net, X)
    assert vars(net.layers[0]).keys() == before.keys()
    assert all(np.array_equal(before[k], v) for k, v in vars(net.layers[0]).items())
    assert vars(net.layers[1]) == {}


class Affine:
    """Keeps parameters and gradients in lists, and writes into the latter."""

    def __init__(self, m: int, n: int) -> None:
        self.params = [apart(m, n), apart(n)]
        self.grads = [np.zeros((m, n)), np.zeros(n)]

    def forward(self, x: Any) -> Any:
        self.x = x
        return x @ self.params[0] + self.params[1]

    def backward(self, dout: Any) -> Any:
        self.grads[0][...] = self.x.T @ dout
        self.grads[1][...] = dout.sum(axis=0)
        return dout @ self.params[0].T


class Gathered:
    """Lists the parameters and gradients of its layers, and has the loss in it."""

    def __init__(self) -> None:
        self.layers = [Affine(4, 6), Tanh(), Affine(6, 3)]
        self.params: list[Any] = []
        self.grads: list[Any] = []
        for layer in self.layers:
            if isinstance(layer, Affine):
                self.params += layer.params
                self.grads += layer.grads

    def forward(self, x: Any, t: Any) -> Any:
        for layer in self.layers:
            x = layer.forward(x)
        self.d = x - t
        return (self.d**2).mean()

    def backward(self, dout: Any = 1) -> Any:
        dout = dout * 2 * self.d / self.d.size
        for layer in reversed(self.layers):
            dout = layer.backward(dout)
        return dout


def test_gradients_that_are_listed_twice_are_the_same_ones():
    net = Gathered()
    subject = subject_of_layer(net, (X, apart(3, 3)))
    assert subject.inputs[0].name == "x" and subject.inputs[0].wanted
    assert sum([x.wanted for x in subject.inputs]) == 5
    assert agrees(subject)
    report = verify.pair(net, X, apart(3, 3))
    assert report.ok, str(report)
    assert not any(np.any(g) for g in net.grads), "the user's gradients were written into"
