"""Compiled functions of `Value`s against the same functions as they are."""

# The functions that are compiled have no annotations, as a user writes them.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import chainrule as cr
import tests.compile.scalars.test_scalar_steps
from chainrule.compile.scalars import tape
from chainrule.compile.scalars.machine import codes
from chainrule.errors import TraceError
from chainrule.models.config import GPTConfig
from chainrule.models.gpt import python_draw
from chainrule.models.scalar_gpt import ScalarGPT
from chainrule.ops.families import rows
from chainrule.scalar import Value
from tests.compile.scalars import test_scalar_steps as scalar_steps

POINTS = {"acosh": 1.7, "log": 0.4}
_W = [Value(0.3), Value(-0.7), Value(1.1)]


def gradients(y: Value, leaves: list[Value]) -> list[float]:
    """The gradients of `leaves`, which are cleared before and after."""
    for v in leaves:
        v.grad = 0
    y.backward()
    out = [v.grad for v in leaves]
    for v in leaves:
        v.grad = 0
    return out


def alike(f: Any, numbers: list[float], state: list[Value], compiled: Any = None) -> None:
    """f and jit(f): values to the bit, gradients to rounding."""
    compiled = compiled or cr.jit(f)
    a, b = [[Value(x) for x in numbers] for _ in range(2)]
    y, z = f(*a), compiled(*b)
    assert y.data == z.data or (math.isnan(y.data) and math.isnan(z.data))
    want, got = gradients(y, a + state), gradients(z, b + state)
    assert got == pytest.approx(want, rel=1e-12, abs=1e-300, nan_ok=True)


@pytest.mark.parametrize("label", sorted(codes()))
def test_every_op_of_the_loops(label: str) -> None:
    op: Any = getattr(cr, label, None) or rows[label]
    numbers = [POINTS.get(label, 0.37), 0.61][: len(rows[label].partials)]
    compiled = cr.jit(lambda *xs: op(*xs) * _W[0])
    assert isinstance(compiled(*map(Value, numbers)), Value)
    alike(lambda *xs: op(*xs) * _W[0], numbers, _W[:1], compiled)
    if label not in ("acosh", "hypot", "erf", "erfc"):
        alike(lambda *xs: op(*xs) * _W[0], [-x for x in numbers], _W[:1], compiled)


def test_sums_that_share_and_numbers_that_change() -> None:
    def f(a: Any, b: Any) -> Value:
        part = sum([x * w for x, w in zip((a, b, a * b), _W, strict=True)])
        more = part + a
        return (more.tanh() / a + part**2 + 2 ** (-part) - 3 / b) * more.relu() + part

    compiled = cr.jit(f)
    for numbers in ([1.5, 2.0], [-0.4, 0.9], [0.0, 1.0]):
        alike(f, numbers, _W, compiled)
    assert compiled.traces == 1
    _W[0].data = 0.9
    alike(f, [1.5, 2.0], _W, compiled)


def test_what_comes_before_and_after() -> None:
    f = cr.jit(lambda a, b: {"y": a * b * _W[1], "z": a + b})
    a = Value(1.5)
    out = f(a * 2, a)
    (out["y"] * out["z"]).backward()
    assert a.grad == pytest.approx(3 * 2 * 3 * 1.5**2 * _W[1].data)
    _W[1].grad = 0


def test_floats_are_traced_and_ints_are_not() -> None:
    f = cr.jit(lambda a, x, n: a * x**n)
    assert [f(Value(2.0), x, 2).data for x in (3.0, 4.0)] == [18.0, 32.0]
    assert f.traces == 1
    assert f(Value(2.0), 3.0, 3).data == 54.0
    assert f.traces == 2


def test_a_gpt_by_its_closure() -> None:
    config = GPTConfig(vocab_size=7, block_size=4, n_layer=1, n_head=2, n_embd=4)
    model = ScalarGPT(config, python_draw(random.Random(1)))
    compiled = cr.jit(model.loss)
    tokens, parameters = (1, 4, 2, 6), model.parameters()
    y, z = model.loss(tokens), compiled(tokens)
    assert y.data == z.data
    want, got = gradients(y, parameters), gradients(z, parameters)
    assert got == pytest.approx(want, rel=1e-11, abs=1e-15)


def test_a_graph_of_any_depth() -> None:
    def f(a: Value) -> Value:
        for _ in range(20_000):
            a = (a * 0.999).tanh() * 1.001
        return a

    alike(f, [0.5], [])


def test_a_look_at_data_is_not_compiled_where_it_matters() -> None:
    def branches(a: Value, b: Value) -> Value:
        return a * b if a > 0 else a + b

    def reads(a: Value, b: Value) -> Value:
        return a * b.data

    def largest(a: Value, b: Value) -> Value:
        return max([a, b], key=lambda v: v.data) * 2

    def deeper(a: Value, b: Value) -> Value:
        return (a * b) ** 2 if (a * _W[0]).data < b.data else a

    before = [v.data for v in _W]
    for f in (branches, reads, largest, deeper):
        compiled = cr.jit(f)
        for numbers in ([1.5, 2.5], [2.5, 1.5], [-1.0, 0.5]):
            alike(f, numbers, [], compiled)
        assert f"{f.__name__} looks at the data of Values" in compiled.explain()
        assert compiled.traces == 0
    assert [v.data for v in _W] == before, "what f reaches has its numbers again"

    def shifted(a: Value, b: Value) -> Value:
        top = max(a.data, b.data)  # drops out
        return ((a - top).exp() + (b - top).exp()).log() + top

    compiled = cr.jit(shifted)
    for numbers in ([1.5, 2.5], [3.0, -1.0]):
        alike(shifted, numbers, [], compiled)

    def rooted(a: Value) -> Value:
        return a.log() + a**0.5  # not for negative numbers

    alike(rooted, [2.0], [])


def test_what_cannot_be_compiled_is_said() -> None:
    a = Value(1.0)
    with pytest.raises(TraceError, match=r"also returns 2\.0"):
        cr.jit(lambda a: (a, a.data * 2))(a)
    with pytest.raises(TraceError, match="by hand"):
        cr.jit(lambda a: Value(3.0, (a,), (3.0,)) * a)(a)

    def steps(a: Value) -> Value:
        y = a * _W[2]
        y.backward()
        return y

    with pytest.raises(TraceError, match="backward"):
        cr.jit(steps)(a)
    _W[2].grad = 0


def test_a_tape_in_parts_is_the_tape(monkeypatch: pytest.MonkeyPatch):
    def f(x: Any, y: Any) -> Any:
        for _ in range(5):
            x, y = x * y + 0.1, x - y * 0.5
        return x * x + y

    def slopes() -> list[float]:
        x, y = Value(0.7), Value(-0.3)
        z = cr.jit(f)(x, y)
        z.backward()
        return [z.data, x.grad, y.grad]

    want = slopes()
    monkeypatch.setattr(tape, "PART", 3)
    assert slopes() == want


def test_explain_names_the_lines_of_a_program() -> None:
    """Of each family, also in a function that the function calls, and where an index is an int."""
    r = random.Random(2)
    rows = [[Value(r.random()) for _ in range(6)] for _ in range(40)]

    def linear(x: list[float]) -> list[Any]:
        return [sum(w * a for w, a in zip(row, x, strict=True)) for row in rows]

    def loss(x: list[float], k: int) -> Any:
        h = [
            v.tanh()
            for v in linear(x)
        ]  # fmt: skip
        return sum(a * a for a in h) + rows[k][0]

    compiled = cr.jit(loss)
    for n in range(4):
        compiled([0.1 * i for i in range(6)], n)
    text = str(compiled.explain())
    first, second = linear.__code__.co_firstlineno, loss.__code__.co_firstlineno
    assert f"40 dot products of 6, from line {first + 1} of test_scalars.py\n" in text
    assert f"40 tanh, from line {second + 2} of test_scalars.py\n" in text
    assert f"1 dot products of 40, from line {second + 5} of test_scalars.py" in text


def test_values_that_a_module_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found by the module's name, as are ints that change; deeper ones are refused."""

    def f() -> Any:
        return sum(p * p for p in scalar_steps.PARAMS)

    def step() -> Any:
        y: Any = sum(p * p for p in scalar_steps.PARAMS)
        y.backward()
        scalar_steps.COUNTED += 1
        for p in scalar_steps.PARAMS:
            p.data -= 0.01 * p.grad / scalar_steps.COUNTED
            p.grad = 0
        return y

    before = [v.data for v in scalar_steps.PARAMS]
    monkeypatch.setattr(scalar_steps, "COUNTED", 3)
    compiled, trained = cr.jit(f), cr.jit(step)
    data = list(before)
    for k in range(5):
        assert compiled().data == f().data
        want = sum(x * x for x in data)
        assert trained().data == pytest.approx(want, rel=1e-12)
        data = [x - 0.01 * 2 * x / (4 + k) for x in data]
        assert 4 + k == scalar_steps.COUNTED
        assert [v.data for v in scalar_steps.PARAMS] == pytest.approx(data, rel=1e-12)
    for v, x in zip(scalar_steps.PARAMS, before, strict=True):
        v.data = x

    def deeper() -> Any:
        return sum(p * p for p in tests.compile.scalars.test_scalar_steps.PARAMS)

    with pytest.raises(TraceError, match="let it find them by a name"):
        cr.jit(deeper)()
