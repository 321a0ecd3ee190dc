"""Whole steps of training that are compiled, against the steps as they are."""

# The functions that are compiled have no annotations, as a user writes them.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.scalars.steps.math_functions import functions_of_math
from chainrule.compile.scalars.steps.numbers import Arithmetic, TracedNumber
from chainrule.compile.scalars.steps.state import State
from chainrule.errors import TraceError
from chainrule.scalar import Value
from tests.compile.scalars import scalar_loops
from tests.compile.scalars.scalar_programs import GPT, linear, matrix, mlp, softmax
from tests.sampling import sampled


def number(x: Any) -> Any:
    return x.data if isinstance(x, Value) else x


def same_step(f: Callable[..., Any], compiled: Any, *args: Any) -> None:
    """The step as it is, taken back, and compiled: what it returns and leaves is the same."""
    state = State([f])
    put_back = state.saved()
    want = number(f(*args))
    after = state.numbers()
    put_back()
    got = number(compiled(*args))
    assert got == pytest.approx(want, rel=1e-12)
    assert state.numbers() == pytest.approx(after, rel=1e-10, abs=1e-13)


def adam(params: list[Value], m: list[float], v: list[float], step: Any, rate: Any) -> None:
    """As microgpt has it."""
    for i, p in enumerate(params):
        m[i] = 0.85 * m[i] + (1 - 0.85) * p.grad
        v[i] = 0.99 * v[i] + (1 - 0.99) * p.grad**2
        m_hat = m[i] / (1 - 0.85 ** (step + 1))
        v_hat = v[i] / (1 - 0.99 ** (step + 1))
        p.data -= rate * (1 - step / 1000) * m_hat / (v_hat**0.5 + 1e-8)
        p.grad = 0


def gpt_step() -> Callable[..., Any]:
    model: Any = GPT(n_embd=4)
    params = model.parameters()
    m = [0.0] * len(params)
    v = [0.0] * len(params)

    def train(step: int, tokens: list[int]) -> Any:
        loss = model.loss(tokens)
        loss.backward()
        adam(params, m, v, step, 0.01)
        return loss

    return train


def test_a_gpt_trains_as_it_is_written() -> None:
    train = gpt_step()
    compiled = cr.jit(train)
    r = random.Random(3)
    for step in range(8):
        tokens = [6, *[r.randrange(6) for _ in range(2 + step % 5 // 4)], 6]
        same_step(train, compiled, step, tokens)
    assert compiled.traces == 2
    steps = [v.step for v in compiled._numbers.variants()]
    assert [s.runs.loops is not None for s in steps] == [True, False], "the other comes rarely"
    assert all(s.update.loops is not None for s in steps)
    text = compiled.explain()
    assert "numbers that ints choose" in text
    assert "then" in text


def test_gradient_descent_of_a_demo() -> None:
    """micrograd's: gradients are cleared first, and the rate falls with the step."""
    loss, params = mlp()

    def train(k: int) -> float:
        total = loss()
        for p in params:
            p.grad = 0
        total.backward()
        rate = 1.0 - 0.9 * k / 100
        for p in params:
            p.data -= rate * p.grad
        return total.data

    compiled = cr.jit(train)
    for k in range(8):
        same_step(train, compiled, k)
    assert compiled.traces == 1


W = matrix(random.Random(5), 6, 6, 0.5)
PARAMS = [v for row in W for v in row]
VELOCITY = [0.0] * len(PARAMS)
COUNT = [0.0]
COUNTED = 3


def small_loss(x: list[Any], target: Any) -> Any:
    for _ in range(3):
        x = [v.tanh() for v in linear(x, W)]
    chances = softmax(x)
    return -chances[2].log() + (x[0] - target) ** 2


def momentum(step: int, rate: float) -> Any:
    y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], rate)
    y.backward()
    for i, p in enumerate(PARAMS):
        VELOCITY[i] = 0.9 * VELOCITY[i] - rate * (p.grad + 0.01 * p.data)
        p.data = p.data + VELOCITY[i]
        p.grad = 0.0
    return y


def schedule(step: int, rate: float) -> Any:
    y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], 0.2)
    y.backward()
    now = rate * 0.5 * (1 + math.cos(math.pi * step / 50)) * min(1, (step + 1) / 3)
    scale = math.sqrt(sum(p.grad**2 for p in PARAMS)) + 1e-3
    COUNT[0] += y.data
    for p in PARAMS:
        p.data -= now * p.grad / scale
        p.grad *= 0.5
    return y.data * 2, COUNT[0] / (step + 1)


def accumulation(step: int, rate: float) -> Any:
    y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], 0.2)
    y.backward()
    return y


def part(step: int, rate: float) -> Any:
    y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], 0.2)
    y.backward()
    for row in W[1:4]:
        for p in row[::2]:
            p.data -= rate * math.tanh(p.grad)
            p.grad = 0
    W[0][0].data = 0.125
    return y


@pytest.mark.usefixtures("eager_rolling")
@pytest.mark.parametrize("f", [momentum, accumulation, part])
def test_optimizers(f: Any) -> None:
    compiled = cr.jit(f)
    for step in range(7):
        same_step(f, compiled, step, 0.02 + 0.01 * step)
    assert compiled.traces == 1
    for v in PARAMS:
        v.grad = 0


def _read_before(new: list[Any], old: list[Any], scale: Any) -> list[Any]:
    return [scale * x for x in old]


def _read_after(new: list[Any], old: list[Any], scale: Any) -> list[Any]:
    return [scale * x for x in new]


def _shifted(new: list[Any], old: list[Any], scale: Any) -> list[Any]:
    return [scale + x for x in [old[-1], *old[:-1]]]


@pytest.mark.usefixtures("eager_rolling")
@pytest.mark.parametrize(
    ("rule", "there"), [(_read_before, False), (_read_after, True), (_shifted, False)]
)
def test_numbers_that_are_written_in_their_place(rule: Any, there: bool) -> None:
    """An update may write data where it reads them unless their former numbers are read later."""

    def f(x: float) -> Any:
        y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], x)
        y.backward()
        old = [p.data for p in PARAMS]
        new = [p.data - 0.05 * p.grad for p in PARAMS]
        scale = math.sqrt(sum(x * x for x in new))
        after = rule(new, old, scale)
        for i, p in enumerate(PARAMS):
            p.data, VELOCITY[i], p.grad = new[i], after[i], 0
        return y

    compiled = cr.jit(f)
    for k in range(6):
        same_step(f, compiled, 0.1 * k)
    (variant,) = compiled._numbers.variants()
    loops = variant.step.update.loops
    assert loops is not None, variant.step.update.why
    data = loops.results(0, len(PARAMS))
    assert np.shares_memory(data, loops.leaves) == there
    assert np.shares_memory(loops.results(len(PARAMS), 2 * len(PARAMS)), loops.leaves) is False


def clip_each(grads: list[Any]) -> list[Any]:
    return [max(-0.05, min(0.02, g)) for g in grads]


def clip_norm(grads: list[Any]) -> list[Any]:
    scale = min(1.0, 0.1 / math.sqrt(sum(g * g for g in grads)))
    return [g * scale for g in grads]


def largest_of_all(grads: list[Any]) -> list[Any]:
    top = max(abs(g) for g in grads) + max(grads)
    return [g / top for g in grads]


def _of_nan(grads: list[Any]) -> list[Any]:
    nan = (grads[0] - grads[0]) * math.inf
    return [min(g, nan) + (0.0 if k % 2 else max(g, 0.01, nan)) for k, g in enumerate(grads)]


@pytest.mark.usefixtures("eager_rolling")
@pytest.mark.parametrize("clip", [clip_each, clip_norm, largest_of_all, _of_nan])
def test_min_and_max_of_gradients(clip: Any) -> None:
    def f(x: float) -> Any:
        y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], x)
        y.backward()
        grads = clip([p.grad for p in PARAMS])
        for p, g in zip(PARAMS, grads, strict=True):
            p.data -= 0.5 * g
            p.grad = 0
        return y

    compiled = cr.jit(f)
    for k in range(6):
        same_step(f, compiled, (-1) ** k * 0.7 * k)
    assert compiled.traces == 1


def test_other_threads_have_the_min_and_max_of_python() -> None:
    """While a step is recorded, these write down what the recording thread alone does."""
    nodes = Arithmetic()
    plain = min, max
    found: list[Any] = []

    def other(x: Any) -> None:
        found.extend([min(3, 1), max([2, 5]), max("ab", key=ord), min([], default=7)])
        found.append(max(x for x in (1.5, 0.5)))
        try:
            found.append(min(x, 1.0))
        except TraceError as error:
            found.append(str(error))

    with functions_of_math(nodes):
        x: Any = nodes.input(("data", 0), 2.0)
        thread = threading.Thread(target=other, args=(x,))
        thread.start()
        thread.join()
        known = len(nodes.nodes)
        assert type(min(x, 1.0)) is TracedNumber
        assert len(nodes.nodes) > known
    *values, refused = found
    assert values == [1, 5, "b", 7, 1.5]
    assert "looks at a number" in refused, "Python's own compares"
    assert (min, max) == plain


def test_numbers_that_a_step_computes_of_ints() -> None:
    compiled = cr.jit(schedule)
    state = State([schedule])
    for step in range(7):
        put_back = state.saved()
        want = schedule(step, 0.03)
        after = state.numbers()
        put_back()
        assert compiled(step, 0.03) == pytest.approx(want, rel=1e-12)
        assert state.numbers() == pytest.approx(after, rel=1e-10, abs=1e-13)
    assert compiled.traces == 2, "for the first steps the rate rises"
    for v in PARAMS:
        v.grad = 0


def test_eager_use_between_two_steps() -> None:
    compiled = cr.jit(momentum)
    kept = []
    for step in range(6):
        same_step(momentum, compiled, step, 0.05)
        kept.append((PARAMS[3].data, repr(PARAMS[3].data), VELOCITY[5], repr(VELOCITY[5])))
        PARAMS[step].data = 1 if step % 2 else 0.5
        PARAMS[step + 1].grad = 0.25
        VELOCITY[step] = 3
        VELOCITY.append(0.0)
        VELOCITY.pop()
        same_step(momentum, compiled, step, 0.05)
    assert all(repr(x) == a and repr(y) == b for x, a, y, b in kept), "a float that is held changed"
    assert compiled.traces == 1


class Trained:
    """Equal to any other one, but with weights of its own."""

    def __init__(self, seed: int) -> None:
        self.w = matrix(random.Random(seed), 4, 4, 0.5)
        self.moments = [0.0] * 16
        self.steps = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trained)

    def __hash__(self) -> int:
        return 1

    def numbers(self) -> list[Any]:
        return [*[v.data for row in self.w for v in row], *self.moments, self.steps]

    def train(self, x: list[float]) -> Any:
        y: Any = sum(v.tanh() ** 2 for v in linear(x, self.w))
        y.backward()
        self.steps += 1
        for i, p in enumerate(v for row in self.w for v in row):
            self.moments[i] = 0.9 * self.moments[i] + p.grad
            p.data -= 0.1 * self.moments[i] / self.steps
            p.grad = 0
        return y

    compiled = cr.jit(train)


@pytest.mark.usefixtures("eager_rolling")
def test_methods_train_their_own_object() -> None:
    models, same = [Trained(1), Trained(2)], [Trained(1), Trained(2)]
    x = [0.3, -0.2, 0.5, 0.1]
    for k in range(12):
        i = (k + k // 5) % 2
        assert models[i].compiled(x).data == pytest.approx(same[i].train(x).data, rel=1e-12)
        for a, b in zip(models, same, strict=True):
            assert a.numbers() == pytest.approx(b.numbers(), rel=1e-11)


def test_the_result_is_a_value_of_the_graph() -> None:
    compiled = cr.jit(accumulation)
    for _ in range(5):
        y = compiled(0, 0.1)
        before = [v.grad for v in PARAMS]
        assert y.grad == 1
        for v in PARAMS:
            v.grad = 0
        y.backward()
        assert any(v.grad for v in PARAMS)
        for v, g in zip(PARAMS, before, strict=True):
            v.grad = 0
            assert math.isfinite(g)


def _clipped(y: Any) -> None:
    for p in PARAMS:
        p.data -= 0.1 * (p.grad if p.grad < 0.01 else 0.01)


def _twice(y: Any) -> None:
    y.backward()


def _computed(y: Any) -> None:
    PARAMS[0].data = (PARAMS[1] * PARAMS[2].grad).data


HELD: dict[str, Any] = {"total": 0.0}


def _held(y: Any) -> None:
    HELD["total"] = HELD["total"] + y.data


LOG: list[Any] = []


def _logged(y: Any) -> None:
    LOG.append(y)


def _attribute(y: Any) -> None:
    HELD["latest"] = y


def _longer(y: Any) -> None:
    VELOCITY.append(y.data)


def _chosen(y: Any) -> None:
    PARAMS[int(y.data * 100) % 7].data = 0.1


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (_clipped, "looks at a number"),
        (_twice, "backward twice"),
        (_computed, "meets a Value"),
        (_held, "changes 'total'"),
        (_logged, "a list of 0 entries, which has 1"),
        (_attribute, "changes 'total'|a dict of 1 entries, which has 2"),
        (_longer, "length of a list"),
        (_chosen, "looks at a number"),
    ],
)
def test_what_is_no_step_is_refused_and_leaves_nothing(more: Any, why: str) -> None:
    def f() -> Any:
        y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], 0.2)
        y.backward()
        more(y)
        return y

    state, length = State([f]), len(VELOCITY)
    before = state.numbers()
    with pytest.raises(TraceError, match=why):
        cr.jit(f)()
    assert state.numbers() == before
    assert len(VELOCITY) == length
    assert HELD == {"total": 0.0}
    assert LOG == []


def test_a_place_that_depends_on_data_runs_as_it_is() -> None:
    """Which number is changed depends on others, which were read before the backward pass."""

    def f() -> Any:
        y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], 0.2)
        last = max(range(6), key=lambda i: W[0][i].data)
        y.backward()
        W[0][last].data -= 0.1
        for p in PARAMS:
            p.grad = 0
        return y

    compiled = cr.jit(f)
    for _ in range(3):
        same_step(f, compiled)
    assert "runs as it is" in compiled.explain()


def test_a_step_that_changes_data_first_is_refused() -> None:
    def f() -> Any:
        PARAMS[0].data = 0.5
        y = small_loss([0.3, -0.2, 0.5, 0.1, 0.9, -0.4], 0.2)
        y.backward()
        return y

    before = [v.data for v in PARAMS]
    with pytest.raises(TraceError, match="before it calls backward"):
        cr.jit(f)()
    assert [v.data for v in PARAMS] == before


def rule(r: random.Random) -> Callable[[Any, int, list[float], list[float], int], None]:
    """A random rule for one parameter."""
    a, b, c = [r.uniform(0.1, 0.9) for _ in range(3)]
    kind = r.randrange(5)

    def apply(p: Any, i: int, m: list[float], v: list[float], step: int) -> None:
        g = p.grad + c * 0.01 * p.data if kind % 2 else p.grad
        m[i] = a * m[i] + (1 - a) * g
        v[i] = b * v[i] + g * g
        if kind == 0:
            p.data -= 0.01 * g
        elif kind == 1:
            p.data = p.data * (1 - 0.001 * c) - 0.01 * m[i]
        elif kind == 2:
            p.data -= 0.01 * (1 - step / 40) * m[i] / (v[i] ** 0.5 + 1e-3)
        elif kind == 3:
            p.data += -0.01 * math.tanh(g) / (1 + c**step)
        else:
            p.data -= 0.01 * abs(m[i]) * c - 0.02 * g / (1 + v[i])
        p.grad = 0 if kind < 4 else 0.5 * p.grad

    return apply


def random_step(seed: int) -> Callable[[int], Any]:
    """A step of a random program, whose parameters are trained by two random rules."""
    f, leaves = scalar_loops.program(seed)
    r = random.Random(seed)
    rules = [rule(r) for _ in range(2)]
    parts = leaves[: len(leaves) // 2], leaves[len(leaves) // 2 :]
    lists = [[0.1] * len(p) for p in parts for _ in range(2)]

    def train(step: int) -> Any:
        y = f()
        y.backward()
        for k, (each, params) in enumerate(zip(rules, parts, strict=True)):
            for i, p in enumerate(params):
                each(p, i, lists[2 * k], lists[2 * k + 1], step)
        return y

    return train


@sampled(one_in=100)
@pytest.mark.usefixtures("eager_rolling")
@pytest.mark.parametrize("seed", range(500))
def test_random_programs(seed: int) -> None:
    train = random_step(seed)
    compiled = cr.jit(train)
    for step in range(4):
        same_step(train, compiled, step)
    assert compiled.traces == 1
