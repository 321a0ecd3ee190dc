"""Gradients that are filled by index: a forgotten one is told beside the others and filled
likewise, a 1 where the cotangent belongs is replaced by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule import verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


rng = np.random.default_rng(12)


class Ratings:
    """Users and films as vectors, films with a number of their own, and one for all."""

    def __init__(self) -> None:
        self.params = {
            "users": rng.normal(size=(7, 3)),
            "films": rng.normal(size=(6, 3)),
            "liked": rng.normal(size=6),
            "usual": rng.normal(size=1),
        }

    def parts(self, u: Any, f: Any, r: Any) -> tuple[Any, ...]:
        p = self.params
        a, b = p["users"][u], p["films"][f]
        off = (a * b).sum(axis=1) + p["liked"][f] + p["usual"] - r
        return a, b, off, {k: np.zeros_like(v) for k, v in p.items()}

    def loss(self, u: Any, f: Any, r: Any) -> Any:
        a, b, off, grads = self.parts(u, f, r)
        d = off / len(r)
        np.add.at(grads["users"], u, d[:, None] * b)
        np.add.at(grads["films"], f, d[:, None] * a)
        np.add.at(grads["liked"], f, d)
        grads["usual"] += d.sum()
        return 0.5 * np.mean(off**2), grads


class WithoutLiked(Ratings):
    """The films' own numbers stay as they are."""

    def loss(self, u: Any, f: Any, r: Any) -> Any:
        a, b, off, grads = self.parts(u, f, r)
        d = off / len(r)
        np.add.at(grads["users"], u, d[:, None] * b)
        np.add.at(grads["films"], f, d[:, None] * a)
        grads["usual"] += d.sum()
        return 0.5 * np.mean(off**2), grads


class WithoutUsual(Ratings):
    """The number for all stays as it is."""

    def loss(self, u: Any, f: Any, r: Any) -> Any:
        a, b, off, grads = self.parts(u, f, r)
        d = off / len(r)
        np.add.at(grads["users"], u, d[:, None] * b)
        np.add.at(grads["films"], f, d[:, None] * a)
        np.add.at(grads["liked"], f, d)
        return 0.5 * np.mean(off**2), grads


def found(model: Ratings) -> verify.Report:
    u, f = np.array([0, 3, 3, 6, 1]), np.array([2, 5, 2, 0, 2])
    return verify.pair(model, u, f, rng.normal(size=5))


def test_a_place_that_was_not_filled_is_filled_like_the_others() -> None:
    (finding,) = found(WithoutLiked()).findings
    assert (finding.name.code, finding.input) == ("dropped", "liked")
    assert finding.place is not None and finding.place.text.startswith("np.add.at(grads[")
    assert finding.correction is not None and finding.correction.rechecked
    assert 'np.add.at(grads["liked"], f, d)' in finding.correction.after


def test_a_place_without_an_index_is_told_beside_the_others() -> None:
    (finding,) = found(WithoutUsual()).findings
    assert (finding.name.code, finding.input) == ("dropped", "usual")
    assert finding.place is not None and finding.place.text.startswith("np.add.at(grads[")
    assert finding.correction is not None and finding.correction.rechecked
    assert 'grads["usual"] +=' in finding.correction.after


def test_all_places_filled_are_right() -> None:
    report = found(Ratings())
    assert report.ok, str(report)


def top(x: Any) -> Any:
    best = x.argmax(axis=1)
    return x[np.arange(len(x)), best], (x.shape, best)


def top_backward(g: Any, cache: Any) -> Any:
    shape, best = cache
    dx = np.zeros(shape)
    dx[np.arange(len(g)), best] = 1.0
    return dx


def over_time(x: Any) -> Any:
    where = x.argmax(axis=1)[:, None]
    return np.take_along_axis(x, where, axis=1)[:, 0], (x.shape, where)


def over_time_backward(g: Any, cache: Any) -> Any:
    shape, where = cache
    dx = np.zeros(shape)
    np.put_along_axis(dx, where, 1.0, axis=1)
    return dx


@pytest.mark.parametrize(
    ("forward", "backward", "shape", "after"),
    [
        (top, top_backward, (5, 4), "dx[np.arange(len(g)), best] = g"),
        (
            over_time,
            over_time_backward,
            (3, 5, 2),
            "np.put_along_axis(dx, where, g[:, None, :], 1)",
        ),
    ],
    ids=["index", "call"],
)
def test_ones_are_written_where_the_cotangent_belongs(
    forward: Any, backward: Any, shape: tuple[int, ...], after: str
) -> None:
    (finding,) = verify.pair(forward, backward, rng.normal(size=shape)).findings
    assert finding.name.code == "ignores_cotangent"
    assert finding.correction is not None and finding.correction.rechecked
    assert finding.correction.after.replace("axis=1", "1").strip() == after
    assert finding.place == finding.correction.place


def test_ones_that_are_meant_are_right() -> None:
    def forward(x: Any) -> Any:
        best = x.argmax(axis=1)
        return x[np.arange(len(x)), best].sum()

    def backward(g: Any, x: Any) -> Any:
        dx = np.zeros_like(x)
        dx[np.arange(len(x)), x.argmax(axis=1)] = 1.0
        return g * dx

    assert verify.pair(forward, backward, rng.normal(size=(5, 4))).ok


class Ridge:
    """A line and a gate; what its parameters are called outside is not what they are called
    inside."""

    def __init__(self) -> None:
        self.slope, self.lift = rng.normal(size=(3, 2)), rng.normal(size=2)
        self.side = rng.normal(size=(4, 2))

    @property
    def params(self) -> dict[str, Any]:
        return {"weight": self.slope, "offset": self.lift, "of_z": self.side}

    def off(self, x: Any, z: Any, y: Any) -> Any:
        return x @ self.slope + self.lift + np.tanh(z) @ self.side - y

    def loss(self, x: Any, z: Any, y: Any) -> Any:
        off = self.off(x, z, y)
        grads = {k: np.zeros_like(v) for k, v in self.params.items()}
        d = off / len(y)
        grads["weight"] += x.T @ d
        grads["offset"] += d.sum(axis=0)
        grads["of_z"] += np.tanh(z).T @ d
        return 0.5 * np.sum(off**2) / len(y), grads


class WithoutLift(Ridge):
    """The offset's is computed, and goes nowhere."""

    def loss(self, x: Any, z: Any, y: Any) -> Any:
        off = self.off(x, z, y)
        grads = {k: np.zeros_like(v) for k, v in self.params.items()}
        d = off / len(y)
        lift = d.sum(axis=0)
        assert lift.ndim == 1
        grads["weight"] += x.T @ d
        grads["of_z"] += np.tanh(z).T @ d
        return 0.5 * np.sum(off**2) / len(y), grads


class WithoutSide(Ridge):
    """Nothing is said of the second input."""

    def loss(self, x: Any, z: Any, y: Any) -> Any:
        off = self.off(x, z, y)
        grads = {k: np.zeros_like(v) for k, v in self.params.items()}
        h = np.tanh(z)
        assert h.ndim == 2
        d = off / len(y)
        grads["weight"] += x.T @ d
        grads["offset"] += d.sum(axis=0)
        return 0.5 * np.sum(off**2) / len(y), grads


@pytest.mark.parametrize(
    ("cls", "before", "after"),
    [
        (WithoutLift, 'grads["weight"] += x.T @ d', 'grads["offset"] += lift'),
        (WithoutSide, 'grads["offset"] += d.sum(axis=0)', 'grads["of_z"] += h.T @ d'),
    ],
)
def test_an_entry_that_holds_zeros_is_filled_beside_its_neighbour(
    cls: Any, before: str, after: str
) -> None:
    x, z, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
    assert verify.pair(Ridge(), x, z, y).ok
    (finding,) = verify.pair(cls(), x, z, y).findings
    assert finding.name.code == "dropped"
    assert finding.place is not None and finding.place.text == before
    assert finding.correction is not None and finding.correction.rechecked
    assert [line.strip() for line in finding.correction.after.splitlines()] == [before, after]
