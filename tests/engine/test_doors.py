"""Doors, which write `apply` out for few operands, do what it does, for every op in a table."""

from __future__ import annotations

import threading
from contextvars import copy_context
from functools import partial
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.doors import door
from chainrule.engine.graph import apply, intercept_ops
from chainrule.engine.node import Node
from chainrule.engine.op import Op, Spec
from chainrule.engine.operators import ARITHMETIC, COMPARISONS, UNARY
from chainrule.engine.provenance import location
from chainrule.engine.quiet import quietly
from chainrule.engine.watch import Watch, watching

TWO = {
    **{name: op for name, op in ARITHMETIC.items() if isinstance(op, Op)},
    **{name: op for name, (op, _) in COMPARISONS.items()},
}
ARRAYS: dict[str, Any] = {
    "float32": np.linspace(-1.5, 2, 6, dtype=np.float32).reshape(2, 3),
    "float64": np.linspace(-2, 1.7, 3),
    "float16": np.linspace(0.3, 2, 3, dtype=np.float16),
    "complex64": np.array([1 + 2j, -0.5j, 3], np.complex64),
    "int64": np.array([3, 1, 2]),
    "bool": np.array([True, False, True]),
    "one number": np.array(1.25, np.float32),
}
OTHERS: dict[str, Any] = {
    **{str(x): x for x in (2, 0, -3, 0.5, -0.0, 0.0, 1e300, float("nan"), 1 << 70, True, 1j)},
    "NumPy's number": np.float64(0.75),
    "an array": np.array([0.5, 1.5, -1]),
    "another byte order": np.array([0.5, 1.5, -1], ">f4"),
    "another length": np.ones(4),
    "text": "a",
}


def variable(x: Any, *, needs: bool) -> Any:
    return cr.tensor(x, requires_grad=needs and x.dtype.kind in "fc")


def outcome(f: Any, *xs: Any) -> Any:
    """What a call gives and keeps, or how it fails."""
    try:
        y = f(*xs)
    except Exception as error:
        return type(error), str(error)
    node = y.node
    kept: Any = None
    if node is not None:
        parts = (node.y, *node.xs)
        kept = (node.op, node.need, node.shape, node.dtype, tuple(map(look, parts)))
        kept = (*kept, tuple(node.inputs), line(node))
    return y.value.dtype, look(y.value), kept


def look(x: Any) -> Any:
    """What is to be the same of a value; a Python number may have become an array."""
    if isinstance(x, Node) or x is None:
        return x
    if isinstance(x, Spec):
        return "shape", x.shape
    array = np.asarray(x)
    if not array.shape:
        return f"{complex(array):.6g}"
    return array.dtype, array.shape, array.tobytes()


def line(node: Node) -> str:
    return location(node.code, node.at)


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("needs", [False, True])
def test_one_operand(name: str, kind: str, needs: bool):
    op, x = UNARY[name], variable(ARRAYS[kind], needs=needs)
    got, want = [outcome(f, x) for f in (door(op), partial(apply, op))]
    assert str(got) == str(want)
    assert outcome(getattr(cr.Tensor, name), x)[:2] == want[:2]


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("name", TWO)
def test_two_operands(name: str, kind: str):
    op = TWO[name]
    for needs in (False, True):
        x = variable(ARRAYS[kind], needs=needs)
        others = {**OTHERS, **{k: variable(a, needs=False) for k, a in ARRAYS.items()}}
        others |= {f"{k}, too": variable(a, needs=True) for k, a in ARRAYS.items()}
        for other in others.values():
            for pair in ((x, other), (other, x)):
                got, want = [outcome(f, *pair) for f in (door(op), partial(apply, op))]
                assert str(got) == str(want), (pair, got, want)


def test_an_array_that_is_kept_is_copied():
    x = cr.tensor([1.0, 2.0, 3.0], dtype="float64", requires_grad=True)
    b = np.array([4.0, 5.0, 6.0])
    y = (x * b).sum()
    b[:] = 0
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [4, 5, 6]


def test_who_watches_or_is_handed_ops_sees_those_that_go_through_doors():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    seen: list[str] = []

    def handed(op: Any, xs: Any) -> Any:
        seen.append(f"handed {op}")
        return apply(op, *xs)

    with watching(Watch(on_op=lambda op, xs, y, alarm: seen.append(str(op)))):
        y = (-x) * 2.0
    with intercept_ops(handed):
        y = x.tanh() + y
    assert seen == ["neg", "mul", "handed tanh", "handed add"]


def test_without_recording_there_is_no_node():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    with cr.no_grad():
        assert (x * x).node is None and (-x).node is None
    assert (x > 1).node is None


def test_the_users_own_setting_for_floating_point_errors_stays_his():
    x = cr.tensor([1.0, 0.0])
    with np.errstate(all="raise"):
        assert (1 / x).tolist() == [1.0, float("inf")]
        with pytest.raises(FloatingPointError):
            np.divide(1.0, np.zeros(2))


def test_threads_with_copies_of_one_context_compute_at_a_time():
    x = cr.tensor(np.ones((400, 400)), requires_grad=True)
    x.exp()  # from here on there is a context, of which the copies know
    sums: list[float] = []
    meet = threading.Barrier(2)

    def work() -> None:
        meet.wait()
        ys = [x.exp() * 2 for _ in range(30)]
        sums.append(ys[-1].sum().item())

    def both_inside() -> None:
        meet.wait()
        meet.wait()

    def alone() -> None:
        meet.wait()
        sums.append(quietly(float, "2"))
        meet.wait()

    for targets in ([work, work], [lambda: quietly(both_inside), alone]):
        threads = [threading.Thread(target=copy_context().run, args=(f,)) for f in targets]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    expected = float(np.sum(np.exp(np.ones((400, 400))) * 2))
    assert sums == [pytest.approx(expected)] * 2 + [2.0]
