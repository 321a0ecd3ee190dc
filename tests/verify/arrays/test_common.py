"""What layers of a network keep in one place, and calls of one layer in a list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule import verify
from tests.sampling import sampled_file
from tests.verify.repair.lines.test_repair_values_known import draw

pytestmark = sampled_file(one_in=12)


class Gate:
    """x + tanh(x w), with what its backward needs on the object."""

    room: Any = np.zeros((64, 3))

    def __init__(self, seed: int) -> None:
        self.w = draw(3, 3, seed=seed)

    def keep(self, x: Any, h: Any) -> None:
        self.kept = x, h

    def forward(self, x: Any) -> Any:
        h = np.tanh(x @ self.w)
        self.keep(x, h)
        return x + h

    def backward(self, g: Any) -> Any:
        x, h = self.kept
        a = g * (1 - h * h)
        self.dw = x.T @ a
        return g + a @ self.w.T


class OnTheClass(Gate):
    def forward(self, x: Any) -> Any:
        h = np.tanh(x @ self.w)
        OnTheClass.kept = x, h
        return x + h


class InOneRoom(Gate):
    def forward(self, x: Any) -> Any:
        self.h = self.room[: len(x)]
        self.h[...] = np.tanh(x @ self.w)
        self.x = x
        return x + self.h

    def backward(self, g: Any) -> Any:
        a = g * (1 - self.h * self.h)
        self.dw = self.x.T @ a
        return g + a @ self.w.T


class Tower:
    def __init__(self, kind: Any) -> None:
        self.one, self.two = kind(1), kind(2)

    def forward(self, x: Any) -> Any:
        return self.two.forward(self.one.forward(x))

    def backward(self, g: Any) -> Any:
        return self.one.backward(self.two.backward(g))


def test_layers_that_keep_their_own_are_right() -> None:
    report = verify.pair(Tower(Gate), draw(5, 3))
    assert report.ok, str(report)


def test_what_is_kept_on_a_class_is_the_last_ones() -> None:
    finding = verify.pair(Tower(OnTheClass), draw(5, 3)).findings[0]
    assert (finding.level, finding.subject) == ("error", "Tower")


def test_memory_that_layers_share_is_the_last_ones() -> None:
    finding = verify.pair(Tower(InOneRoom), draw(5, 3)).findings[0]
    assert (finding.level, finding.subject) == ("error", "Tower")


class Read:
    """A layer that is called twice: each call's values wait in a list for their backward."""

    def __init__(self) -> None:
        self.w, self.dw = draw(3, seed=4), np.zeros(3)
        self.waiting: list[Any] = []

    def forward(self, x: Any) -> Any:
        y = np.tanh(x * self.w)
        self.waiting.append((x, y))
        return y

    def backward(self, g: Any) -> Any:
        x, y = self.waiting[-1]
        a = g * (1 - y * y)
        self.dw += (a * x).sum(axis=0)
        return a * self.w


class Taken(Read):
    def backward(self, g: Any) -> Any:
        x, y = self.waiting.pop()
        a = g * (1 - y * y)
        self.dw += (a * x).sum(axis=0)
        return a * self.w


class Twice:
    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer.forward(x + self.layer.forward(x))

    def backward(self, g: Any) -> Any:
        d = self.layer.backward(g)
        return d + self.layer.backward(d)


@pytest.mark.parametrize("kind", [Read, Taken])
def test_of_waiting_values_each_backward_takes_one(kind: Any) -> None:
    report = verify.pair(Twice(kind()), draw(5, 3))
    if kind is Taken:
        assert report.ok, str(report)
        return
    finding = report.findings[0]
    assert (finding.level, finding.subject) == ("error", "Twice")
