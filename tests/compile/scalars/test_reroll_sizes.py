"""Compiled functions of Values that are called with lists of several lengths: one program for
those that differ in nothing but how far loops go."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.scalars import runs
from chainrule.compile.scalars.explanation import explained
from chainrule.compile.scalars.steps import update
from chainrule.scalar import Value
from tests.compile.scalars import scalar_loops
from tests.compile.scalars.scalar_programs import GPT
from tests.compile.scalars.test_reroll import forms, gradients
from tests.compile.scalars.test_scalar_steps import same_step
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("eager_rolling")


def same(f: Any, compiled: Any, leaves: list[Value], *args: Any, rounding: float = 1e-12) -> None:
    """One call of both, and a step of gradient descent: values to the bit, gradients to rounding,
    in parts of the largest."""
    y, z = f(*args), compiled(*args)
    assert y.data == z.data or (math.isnan(y.data) and math.isnan(z.data)), args
    want, got = np.array(gradients(y, leaves)), np.array(gradients(z, leaves))
    near = rounding * np.abs(want[np.isfinite(want)]).max(initial=1e-3)  # they may cancel out
    assert np.allclose(want, got, rtol=0, atol=near, equal_nan=True), args
    for v, g in zip(leaves, want.tolist(), strict=True):
        v.data -= 0.01 * g if math.isfinite(g) else 0


def codes(compiled: Any) -> list[int]:
    """Of each variant the machine code of its loops, 0 if it has none."""
    return [id(x.loops.code) if x.loops is not None else 0 for x in forms(compiled)]


def variants(compiled: Any) -> list[Any]:
    """All that is remembered of a compiled function."""
    return list(compiled._numbers.variants())


def is_framed(form: runs.Runs) -> bool:
    """Whether its code is for several lengths."""
    return form.loops is not None and form.loops.families.sizes is not None


def of_length(seed: int) -> tuple[Callable[[int], Any], list[Value]]:
    """A program of the first so many of its leaves."""
    r = random.Random(seed)
    leaves = [[Value(r.gauss(0, 0.8)) for _ in range(20)] for _ in range(2)]
    steps = [r.choice(scalar_loops.STEPS)(r) for _ in range(r.randrange(2, 6))]

    def f(n: int) -> Any:
        lists = [leaf[: n + k] for k, leaf in enumerate(leaves)]
        for step in steps:
            lists.append(step(lists))
        return sum(x * (0.1 * i + 1) for i, x in enumerate(lists[-1]))

    return f, [v for x in leaves for v in x]


def of_floats(seed: int) -> tuple[Callable[[list[float]], Any], list[Value]]:
    """A program of so many floats."""
    r = random.Random(seed)
    weights = [Value(r.gauss(0, 0.8)) for _ in range(8)]
    steps = [r.choice(scalar_loops.STEPS)(r) for _ in range(r.randrange(1, 5))]

    def f(x: list[float]) -> Any:
        lists: list[Any] = [weights, [w * y for w in weights[:3] for y in x]]
        for step in steps:
            lists.append(step(lists))
        return sum(v * (0.1 * i - 1) for i, v in enumerate(lists[-1])) / len(x)

    return f, weights


@sampled(one_in=25)
@pytest.mark.parametrize("seed", range(500))
def test_random_programs_of_several_lengths(seed: int) -> None:
    r = random.Random(seed)
    lengths = [r.randrange(3, 15) for _ in range(6)]
    f, leaves = of_length(seed)
    compiled = cr.jit(f)
    for n in [*lengths, *lengths[::-1]]:
        same(f, compiled, leaves, n)


@sampled(one_in=25)
@pytest.mark.parametrize("seed", range(500))
def test_random_programs_of_floats(seed: int) -> None:
    r = random.Random(seed)
    f, leaves = of_floats(seed)
    compiled = cr.jit(f)
    lengths = [r.randrange(1, 15) for _ in range(6)]
    for n in [*lengths, *lengths[::-1]]:
        same(f, compiled, leaves, [r.gauss(0, 1) for _ in range(n)])


def test_documents_of_all_lengths_share_a_program() -> None:
    """The first length has a program of its own, the second one that all further ones share."""
    model: Any = GPT(n_embd=4, block=16)
    compiled = cr.jit(model.loss)
    r = random.Random(1)
    for n in (3, 5, 4, 9, 2, 1, 12, 7):
        for _ in range(2):
            same(model.loss, compiled, model.parameters(), [6, *r.choices(range(6), k=n), 6])
    assert len(set(codes(compiled))) <= 3


def step_of(seed: int) -> tuple[Callable[..., Any], list[Value]]:
    """A step of training on a document and some floats, and its parameters."""
    model: Any = GPT(n_embd=4, block=16, draw=random.Random(seed))
    params = model.parameters()
    moments = [0.0] * len(params)

    def train(step: int, tokens: tuple[int, ...], weights: list[float]) -> Any:
        scale: Any = sum(p * w for p, w in zip(params, weights, strict=False))
        loss = model.loss(tokens) * scale.exp()
        loss.backward()
        rate = 0.01 * (1 - step / 100)
        for i, p in enumerate(params):
            moments[i] = 0.9 * moments[i] + 0.1 * p.grad
            p.data -= rate * moments[i] / (1 - 0.9 ** (step + 1))
            p.grad = 0
        return loss

    return train, params


LENGTHS = (3, 3, 3, 5, 5, 8, 8, 2, 2, 4, 4, 4, 8, 8, 3, 11, 11, 40, 40, 6, 6, 2)


@pytest.fixture
def eager_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates are rolled up, too."""
    monkeypatch.setattr(update, "CALLS", 1)
    monkeypatch.setattr(update, "LEAST", 0)


def given(r: random.Random, n: int, *, floats: bool) -> tuple[tuple[int, ...], list[float]]:
    """A document, and so many floats if these vary."""
    tokens = (6, *r.choices(range(6), k=n % 13), 6)
    return tokens, [r.gauss(0, 0.1) for _ in range(n if floats else 2)]


@pytest.mark.usefixtures("eager_updates")
@pytest.mark.parametrize("floats", [True, False])
def test_whole_steps_of_several_lengths(floats: bool) -> None:
    """Documents, and lists of floats, which lie before the state."""
    r = random.Random(3)
    train, _ = step_of(1)
    compiled = cr.jit(train)
    for step, n in enumerate(LENGTHS):
        same_step(train, compiled, step, *given(r, n, floats=floats))
    assert len(set(codes(compiled))) <= 5
    assert any("compiled for several" in explained("f", v.runs) for v in variants(compiled))


@pytest.mark.usefixtures("eager_updates")
@pytest.mark.parametrize("floats", [True, False])
def test_training_that_nobody_looks_at(floats: bool) -> None:
    """Steps of all lengths in turn, whose numbers stay in arrays."""
    r = random.Random(4)
    (train, params), (eager, others) = step_of(2), step_of(2)
    compiled = cr.jit(train)
    for step in range(160):
        arguments = given(r, LENGTHS[step % len(LENGTHS)], floats=floats)
        eager(step, *arguments)
        compiled(step, *arguments)
    want, got = [v.data for v in others], [v.data for v in params]
    assert got == pytest.approx(want, rel=1e-9, abs=1e-12)
    framed = [v for v in variants(compiled) if is_framed(v.runs)]
    assert framed
    assert all(v.step._steady is not None for v in framed)
