"""Programs of single numbers: the same bits as the engine, graphs of any size."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

import chainrule as cr
from chainrule import Value
from chainrule.models.config import GPTConfig
from chainrule.models.gpt import python_draw
from chainrule.models.scalar_gpt import ScalarGPT
from chainrule.traces.check import check_trace, sums_differ
from chainrule.traces.trace import Trace
from tests.sampling import sampled
from tests.traces.programs import check_file, check_numbers, gradient

KNOWN: dict[str, tuple[Any, dict[str, float], float, dict[str, float]]] = {
    "S1": (lambda a, b, d: (a * b + d).relu(), {"a": 2.0, "b": -3.0, "d": 10.0}, 4.0,
           {"a": -3.0, "b": 2.0, "d": 1.0}),
    "S2": (lambda a: a + a, {"a": 3.0}, 6.0, {"a": 2.0}),
    "S3": (lambda a, b: a * b + a, {"a": 2.0, "b": 3.0}, 8.0, {"a": 4.0, "b": 2.0}),
    "S5": (lambda x: (3 * x + 1) ** 2, {"x": 1.0}, 16.0, {"x": 24.0}),
    "S6": (lambda x1, x2, w1, w2, b: (x1 * w1 + x2 * w2 + b).tanh(),
           {"x1": 2.0, "x2": 0.0, "w1": -3.0, "w2": 1.0, "b": 6.881}, 0.7069,
           {"x1": -1.5008, "x2": 0.5003, "w1": 1.0005, "w2": 0.0, "b": 0.5003}),
    "S7": (lambda v: 2**v + 1 / v + v * v, {"v": 1.5}, 5.7451, {"v": 4.5161}),
}  # fmt: skip


def result(trace: Trace) -> Any:
    return trace.nodes[trace.sweeps[-1].result].value


@pytest.mark.parametrize("kind", [float, Value])
@pytest.mark.parametrize("name", KNOWN)
def test_known_numbers(name: str, kind: Any):
    f, given, want, grads = KNOWN[name]
    trace = cr.record(f, *[kind(x) for x in given.values()])
    check_numbers(trace)
    check_file(trace)
    assert result(trace) == pytest.approx(want, abs=6e-5)
    got = {x: float(gradient(trace, x)) for x in given}
    assert got == pytest.approx(grads, abs=6e-5)


STEPS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a - b,
    lambda a, b: a / (b * b + 1),
    lambda a, b: a.tanh(),
    lambda a, b: 2 * a,
    lambda a, b: (a * a + 1).log(),
    lambda a, b: sum([a, b, a * b, 1.0], Value(0.5)),
]


def grown(rng: random.Random, count: int) -> tuple[Value, list[Value]]:
    """A random program of `count` operations, and all its Values."""
    values = [Value(rng.uniform(0.2, 1.8)) for _ in range(5)]
    for _ in range(count):
        a, b = rng.choice(values[-12:]), rng.choice(values)
        values.append(rng.choice(STEPS)(a, b))
    return sum(values[-4:], Value(0.0)), values


@sampled(one_in=3)
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_have_the_engine_s_bits(seed: int):
    y, values = grown(random.Random(seed), 60)
    with cr.record() as recording:
        y.backward()
    trace = recording.trace
    check_numbers(trace)
    check_file(trace)
    labels = {id(v): f"values[{i}]" for i, v in enumerate(values)}
    for i, v in enumerate(values):
        known = [n for n in trace.nodes if n.label == labels[id(v)]]
        if known:
            g: Any = trace.gradient(trace.find(labels[id(v)]))
            assert float(known[0].value) == v.data  # type: ignore[arg-type]
            twice = sum([n.label == labels[id(v)] for n in trace.nodes]) > 1
            assert twice or float(g) == float(v.grad), f"value {i}"


def test_values_that_a_step_changes_stay():
    w = Value(2.0)
    with cr.record() as recording:
        for _ in range(2):
            w.grad = 0.0
            loss = (w * 3.0 - 1.0) ** 2
            loss.backward()
            w.data -= 0.1 * w.grad
    trace = recording.trace
    assert [float(n.value) for n in trace.nodes if n.label == "w"][:1] == [2.0]  # type: ignore[arg-type]
    assert len(trace.sweeps) == 2
    check_numbers(trace)


def test_a_long_graph_takes_no_recursion():
    x = Value(0.5)
    y = x
    for i in range(25_000):
        y = (y + x * 1e-4) if i % 2 else y * 0.9999
    start = process_time()
    with cr.record() as recording:
        y.backward()
    assert process_time() - start < 20
    trace = recording.trace
    check_trace(trace)
    assert len(trace.nodes) > 50_000
    assert float(gradient(trace, "x")) == x.grad


def test_a_wide_sum_is_linear_in_its_size():
    xs = [Value(float(i)) for i in range(20_000)]
    start = process_time()
    trace = cr.record(lambda: sum(xs, Value(0.0)))
    assert process_time() - start < 20
    assert len(trace.sweeps[0].messages) >= 20_000


def test_microgpt_step_by_numbers():
    model = ScalarGPT(GPTConfig.microgpt(27, block_size=8), python_draw(random.Random(42)))
    start = process_time()
    with cr.record() as recording:
        loss = model.loss([26, *[ord(c) - ord("a") for c in "emma"], 26])
        loss.backward()
    trace = recording.trace
    assert process_time() - start < 60
    check_trace(trace)
    assert sums_differ(trace, trace.sweeps[0]) == []
    assert float(result(trace)) == loss.data
    inputs = [n for n, node in enumerate(trace.nodes) if node.kind == "input"]
    got = [float(trace.gradient(n)) for n in inputs]  # type: ignore[arg-type]
    want = [v.grad for v in model.parameters()]
    assert sorted([g for g in got if g]) == sorted([g for g in want if g])
