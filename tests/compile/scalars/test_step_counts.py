"""Steps that count: ints in attributes, dictionaries and variables around a function."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUnknownLambdaType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import chainrule as cr
from chainrule.compile.scalars import runs
from chainrule.compile.scalars.reroll import families
from chainrule.compile.scalars.steps import hollow, update
from chainrule.errors import TraceError
from chainrule.scalar import Value

SIZE = 6


class Trainer:
    """A small model, Adam, and a count of the steps in each place where one can be."""

    def __init__(self) -> None:
        r = random.Random(4)
        self.w = [[Value(r.gauss(0, 0.5)) for _ in range(SIZE)] for _ in range(SIZE)]
        self.params = [v for row in self.w for v in row]
        self.m = [0.0] * len(self.params)
        self.steps = 0
        self.state: dict[str, Any] = {"t": 3, "name": "adam"}
        self.latest = 0
        self.total = 0.5

    def loss(self, x: list[float]) -> Any:
        h: Any = [sum(a * b for a, b in zip(row, x, strict=True)) for row in self.w]
        h = [v.tanh() for v in h]
        return sum(a * a for a in h)

    def descend(self, correction: Any) -> None:
        for i, p in enumerate(self.params):
            self.m[i] = 0.9 * self.m[i] + 0.1 * p.grad
            p.data -= 0.1 * self.m[i] / correction
            p.grad = 0

    def numbers(self) -> list[Any]:
        return [p.data for p in self.params] + self.m + [self.steps, self.state["t"], self.latest]


def attribute(t: Trainer, x: list[float], k: int) -> Any:
    t.steps += 1
    y = t.loss(x)
    y.backward()
    t.descend(1 - 0.9**t.steps)
    return y


def entry(t: Trainer, x: list[float], k: int) -> Any:
    y = t.loss(x)
    y.backward()
    t.state["t"] += 2
    t.descend(0.5 + t.state["t"])
    return y


def several(t: Trainer, x: list[float], k: int) -> Any:
    y = t.loss(x)
    y.backward()
    t.descend(1 + t.steps)
    t.latest = k
    t.steps = t.steps + k
    if t.steps > 4:
        t.steps = 0
    return y


def made(f: Callable[..., Any], wrap: Callable[[Any], Any]) -> tuple[Trainer, Any]:
    t = Trainer()
    return t, wrap(lambda x, k: f(t, x, k))


@pytest.fixture(params=[True, False], autouse=True)
def rolling(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As tapes, and as loops as soon as they can be."""
    if request.param:
        for module, name, least in (
            (runs, "CALLS", 1), (runs, "PART", 0), (runs, "LEAST", 0), (families, "EACH", 0),
            (update, "CALLS", 1), (update, "LEAST", 0), (hollow, "WORTH", 0),
        ):  # fmt: skip
            monkeypatch.setattr(module, name, least)


@pytest.mark.parametrize("f", [attribute, entry, several])
def test_counts(f: Callable[..., Any]) -> None:
    """Also if they are changed between two steps."""
    (t, eager), (u, step) = made(f, lambda g: g), made(f, cr.jit)
    for k in range(12):
        x = [0.1 * (i + k) for i in range(SIZE)]
        want, got = eager(x, k % 3), step(x, k % 3)
        assert got.data == pytest.approx(want.data, rel=1e-12)
        if k % 4 == 3:
            for each in (t, u):
                if f is entry:
                    each.state["t"] = -k
                else:
                    each.steps = k
            assert u.numbers() == pytest.approx(t.numbers(), rel=1e-10)
    assert u.numbers() == pytest.approx(t.numbers(), rel=1e-10)
    assert [type(x) for x in u.numbers()] == [type(x) for x in t.numbers()]
    assert step._numbers.stays(), "all is asked by machine code"
    assert step.traces <= (6 if f is several else 1)


def test_a_variable_around_the_function() -> None:
    t, count = Trainer(), 0

    @cr.jit
    def step(x: list[float]) -> Any:
        nonlocal count
        count += 1
        y = t.loss(x)
        y.backward()
        t.descend(count)
        return y

    u = Trainer()
    for k in range(6):
        step([0.5] * SIZE)
        u.loss([0.5] * SIZE).backward()
        u.descend(k + 1)
        assert count == k + 1
    assert u.numbers() == pytest.approx(t.numbers(), rel=1e-10)
    assert step.traces == 1


def test_a_float_is_refused_with_its_line() -> None:
    t = Trainer()

    @cr.jit
    def step(x: list[float]) -> Any:
        y = t.loss(x)
        y.backward()
        t.descend(1)
        t.total += y.data
        return y

    before = t.numbers()
    line = step.__wrapped__.__code__.co_firstlineno + 5
    with pytest.raises(TraceError, match=rf"'total' at .*test_step_counts.py:{line}"):
        step([0.5] * SIZE)
    assert t.numbers() == before
    assert t.total == 0.5
