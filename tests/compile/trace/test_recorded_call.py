"""The short way of calls whose results can be differentiated, and what must leave it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.runtime.call.recorded_call import RecordedCall

SCALE = [2.0]


def f(x: Any, y: Any) -> Any:
    return cr.sum(x * y * SCALE[0])


def tensors(shape: tuple[int, ...] = (3,), dtype: Any = np.float64) -> tuple[Any, Any]:
    x = np.arange(1, 1 + np.prod(shape), dtype=dtype).reshape(shape)
    return cr.tensor(x, requires_grad=True), cr.tensor(3 * x)


def check(step: Any, x: Any, y: Any) -> None:
    """The compiled call and its gradients are the eager ones."""
    results: list[Any] = []
    for call in (step, f):
        x.grad = y.grad = None
        result = call(x, y)
        if result.requires_grad:
            result.backward(retain_graph=True)
        results.append(
            [t if t is None else t.detach().numpy().copy() for t in (result, x.grad, y.grad)]
        )
    for got, want in zip(*results, strict=True):
        assert (got is None) == (want is None)
        assert got is None or (got.dtype == want.dtype and np.array_equal(got, want))


def short(step: Any) -> bool:
    return isinstance(step._latest, RecordedCall)


def test_calls_like_the_one_before_go_the_short_way() -> None:
    step = cr.jit(f)
    for _ in range(3):
        check(step, *tensors())
        assert short(step) and step.traces == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda x, y: tensors((2, 2)),
        lambda x, y: tensors(dtype=np.float32),
        lambda x, y: (x.detach(), y),
        lambda x, y: (x.detach(), cr.tensor(y.numpy(), requires_grad=True)),
        lambda x, y: (x, cr.tensor(y.numpy(), requires_grad=True)),
        lambda x, y: (x * 2.0, y),
        lambda x, y: (x, y.numpy()),
    ],
    ids=["shape", "dtype", "none", "other", "both", "graph", "array"],
)
def test_other_arguments_leave_it(change: Any) -> None:
    step = cr.jit(f)
    check(step, *tensors())
    x, y = change(*tensors())
    if isinstance(y, np.ndarray):
        assert step(x, y).item() == f(x, y).item()
    else:
        check(step, x, y)
    check(step, *tensors())


def test_without_recording_nothing_is_recorded() -> None:
    step = cr.jit(f)
    check(step, *tensors())
    with cr.no_grad():
        assert not step(*tensors()).requires_grad
    assert step(*tensors()).requires_grad


def test_what_the_function_reads_is_compared() -> None:
    step = cr.jit(f)
    check(step, *tensors())
    SCALE[0] = 5.0
    try:
        check(step, *tensors())
        assert step.traces == 2
    finally:
        SCALE[0] = 2.0


def test_its_calls_can_be_differentiated_twice() -> None:
    step = cr.jit(lambda x: cr.sum(x**3))
    x = tensors()[0]
    for _ in range(3):
        second = cr.grad(lambda x: cr.sum(cr.grad(step)(x)))(x)
        np.testing.assert_allclose(second.detach().numpy(), 6 * x.detach().numpy())


def test_a_loop_of_such_calls_is_their_results() -> None:
    step = cr.jit(f)
    batches = [tensors() for _ in range(4)]
    assert step.loop(batches).detach().numpy().tolist() == [f(x, y).item() for x, y in batches]
