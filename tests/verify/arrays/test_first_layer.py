"""First layers: their backward gives the gradients of parameters, and none of the input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule import verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


rng = np.random.default_rng(7)


class Scorer:
    """A layer whose input is data."""

    def __init__(self, n: int, m: int) -> None:
        self.W, self.b = rng.normal(size=(n, m)), 0.3 * rng.normal(size=m)

    def forward(self, x: Any) -> Any:
        y = 1 / (1 + np.exp(-(x @ self.W + self.b)))
        return y, (x, y)

    def backward(self, g: Any, cache: Any) -> Any:
        x, y = cache
        dz = g * y * (1 - y)
        return x.T @ dz, dz.sum(axis=0)


class Named(Scorer):
    """The same in a dict."""

    def backward(self, g: Any, cache: Any) -> Any:
        dw, db = super().backward(g, cache)
        return {"W": dw, "b": db}


class Swapped(Scorer):
    """The same in another order, which names tell."""

    def backward(self, g: Any, cache: Any) -> Any:
        dw, db = super().backward(g, cache)
        return db, dw


class Remembering(Scorer):
    """The same, which keeps what its backward needs in the object."""

    def forward(self, x: Any) -> Any:
        y, self.cache = super().forward(x)
        return y

    def backward(self, g: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().backward(g, self.cache)


class Lone:
    """A layer with one parameter."""

    def __init__(self) -> None:
        self.W = rng.normal(size=(4, 3))

    def forward(self, x: Any) -> Any:
        self.x = x
        return np.sin(x @ self.W)

    def backward(self, g: Any) -> Any:
        return self.x.T @ (g * np.cos(self.x @ self.W))


class Forgetful(Scorer):
    """Its slope is not the sigmoid's."""

    def backward(self, g: Any, cache: Any) -> Any:
        x, y = cache
        dz = g * (1 - y)
        return x.T @ dz, dz.sum(axis=0)


class Short(Scorer):
    """It gives gradients of its input and its weights, and forgets the offsets."""

    def backward(self, g: Any, cache: Any) -> Any:
        x, y = cache
        dz = g * y * (1 - y)
        return dz @ self.W.T, x.T @ dz


@pytest.mark.parametrize("cls", [Scorer, Named, Swapped, Remembering])
@pytest.mark.parametrize("shape", [(5, 4, 3), (3, 3, 3), (4, 4, 3)])
def test_a_first_layer_gives_its_parameters_gradients(
    cls: Any, shape: tuple[int, int, int]
) -> None:
    """Square ones as well: a longer batch tells."""
    k, n, m = shape
    report = verify.pair(cls(n, m), rng.normal(size=(k, n)))
    assert report.ok, report
    assert report.ledger.planted is not None
    assert report.ledger.planted.caught


def test_one_gradient_of_one_parameter() -> None:
    assert verify.pair(Lone(), rng.normal(size=(5, 4))).ok


def test_a_wrong_one_is_corrected() -> None:
    report = verify.pair(Forgetful(4, 3), rng.normal(size=(5, 4)))
    assert {f.input for f in report.findings} == {"W", "b"}
    for f in report.findings:
        assert f.correction is not None
        assert f.correction.after.strip() == "dz = g * ((1 - y) * y)"


def test_a_layer_that_gives_its_inputs_gradient_forgets_none_else() -> None:
    report = verify.pair(Short(4, 3), rng.normal(size=(5, 4)))
    assert [f.input for f in report.findings] == ["b"]
    assert report.findings[0].name.code == "dropped"


class Pairs:
    """Two images of one layer, and how far they are apart."""

    def __init__(self) -> None:
        self.layer = Scorer(4, 3)

    def loss(self, one: Any, other: Any) -> Any:
        a, of_a = self.layer.forward(one)
        b, of_b = self.layer.forward(other)
        apart = a - b
        d = 2 * apart / len(one)
        of_one = self.layer.backward(d, of_a)
        of_other = self.layer.backward(-d, of_b)
        return np.sum(apart**2) / len(one), {
            "W": of_one[0] + of_other[0],
            "b": of_one[1] + of_other[1],
        }


class Mixed(Pairs):
    """Both backwards get what the second forward kept."""

    def loss(self, one: Any, other: Any) -> Any:
        a, of_a = self.layer.forward(one)
        b, of_b = self.layer.forward(other)
        assert type(of_a) is type(of_b)
        apart = a - b
        d = 2 * apart / len(one)
        of_one = self.layer.backward(d, of_b)
        of_other = self.layer.backward(-d, of_b)
        return np.sum(apart**2) / len(one), {
            "W": of_one[0] + of_other[0],
            "b": of_one[1] + of_other[1],
        }


def test_within_a_network() -> None:
    assert verify.pair(Pairs(), rng.normal(size=(6, 4)), rng.normal(size=(6, 4))).ok


def test_what_another_call_kept_is_told_where_it_is_handed_over() -> None:
    report = verify.pair(Mixed(), rng.normal(size=(6, 4)), rng.normal(size=(6, 4)))
    assert {f.input for f in report.findings} == {"layer.W", "layer.b"}
    for f in report.findings:
        assert f.name.code == "wrong_value"
        assert f.correction is not None
        assert f.correction.rechecked
        assert f.correction.after.strip() == "of_one = self.layer.backward(d, of_a)"
