"""Memory of large results is used again, and never while somebody can see it."""

from __future__ import annotations

import ctypes
import gc
import threading
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.runtime.result_memory import ALIGN, LARGE, Lender

SIZE = LARGE // 4
BYTES = 4 * SIZE


def twice(x: Any, n: Any = 1.0) -> Any:
    """A function of a tensor and a number."""
    return x * 2 + n


def step_of() -> Any:
    """A compiled function with one large result, which is steady."""
    step = cr.jit(twice)
    for k in range(3):
        step(numbers(k))
    return step


def numbers(k: int, n: int = SIZE) -> Any:
    """A tensor that is k everywhere."""
    return cr.asarray(np.full(n, k, np.float32))


def address(x: Any) -> int:
    """Where a tensor's elements are."""
    return x.numpy().ctypes.data


def test_a_loop_goes_on_in_the_memory_of_two_calls() -> None:
    step, seen = step_of(), list[int]()
    out = None
    for k in range(20):
        out = step(numbers(k))
        np.testing.assert_array_equal(out.numpy(), np.full(SIZE, 2 * k + 1, np.float32))
        seen.append(address(out))
    assert len(set(seen)) == 2 and all(a != b for a, b in pairwise(seen))
    assert all(a % ALIGN == 0 for a in seen)


def test_a_program_that_is_called_from_outside_goes_on_in_it_too() -> None:
    step = cr.jit(twice)
    seen: set[int] = set()
    for k in range(10):
        out = step(numbers(k), 2.0)  # a number among the arguments: not the short way
        np.testing.assert_array_equal(out.numpy(), np.full(SIZE, 2 * k + 2, np.float32))
        seen.add(address(out))
    assert len(seen) == 2


def _through_torch(a: Any) -> Any:
    return pytest.importorskip("torch").from_numpy(a)


def _through_torch_dlpack(a: Any) -> Any:
    return pytest.importorskip("torch").from_dlpack(a)


HOLDERS: list[tuple[str, Callable[[Any], Any]]] = [
    ("the tensor", lambda t: t),
    ("its array", lambda t: t.value),
    ("a read-only view", lambda t: t.numpy()),
    ("some elements", lambda t: t.value[: SIZE // 2]),
    ("a view of a view", lambda t: t.value.reshape(2, -1)[1:].T),
    ("memory", lambda t: memoryview(t.value)),
    ("bytes of memory", lambda t: memoryview(t.value).cast("B")[8:]),
    ("DLPack", lambda t: np.from_dlpack(t)),
    ("a capsule of DLPack", lambda t: t.value.__dlpack__()),
    ("PyTorch", lambda t: _through_torch(t.value)),
    ("PyTorch by DLPack", lambda t: _through_torch_dlpack(t.value)),
    ("a slice of PyTorch's", lambda t: _through_torch(t.value)[3:]),
]


@pytest.mark.parametrize("hold", [h for _, h in HOLDERS], ids=[n for n, _ in HOLDERS])
def test_memory_that_somebody_sees_is_not_used_again(hold: Callable[[Any], Any]) -> None:
    step = step_of()
    out = step(numbers(7))
    mine = address(out)
    held = [hold(out)]
    del out
    others = {address(step(numbers(k))) for k in range(4)}
    there = np.ctypeslib.as_array((ctypes.c_float * SIZE).from_address(mine))
    assert mine not in others and (there == 15).all()
    held.clear()


def test_it_is_used_again_once_it_is_free() -> None:
    step = step_of()
    out = step(numbers(1))
    held, mine = memoryview(out.value), address(out)
    del out
    held.release()
    del held
    assert address(step(numbers(2))) == mine


def traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def tracing() -> Any:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_no_more_is_kept_than_one_call_returns(tracing: None) -> None:
    step, x = step_of(), numbers(3)
    before = traced()
    results = [step(x) for _ in range(8)]
    assert traced() - before > 6.9 * BYTES  # nothing beside what is held
    assert traced() - before < 8.5 * BYTES
    results.clear()
    assert traced() - before < 1.5 * BYTES
    assert len({address(step(x)) for _ in range(4)}) == 1


def test_it_goes_with_the_program(tracing: None) -> None:
    step_of()  # what a first compilation leaves behind
    before = traced()
    step, x = step_of(), numbers(3)
    out = step(x)
    step(x)
    del step, x
    assert traced() - before < 1.5 * BYTES  # `out`, which outlives it
    assert out.numpy()[0] == 7
    del out
    assert traced() - before < 0.5 * BYTES


def test_calls_of_another_size_give_it_back(tracing: None) -> None:
    step = cr.jit(twice, dynamic={"x": ("N",)})
    n = 4 * SIZE
    large, small = numbers(3, n), numbers(4)
    for x in (large, small, large, large):
        np.testing.assert_array_equal(step(x).numpy(), 2 * x.numpy() + 1)
    before = traced()
    for k in range(3):
        out = step(numbers(k)).numpy()
        np.testing.assert_array_equal(out, np.full(SIZE, 2 * k + 1, np.float32))
        del out
    assert traced() - before < -2.5 * BYTES


def test_threads_get_memory_of_their_own() -> None:
    step, wrong = step_of(), list[int]()

    def work(k: int) -> None:
        for i in range(50):
            out = step(numbers(50 * k + i)).numpy()
            if not (out == 2 * (50 * k + i) + 1).all():
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_result_that_becomes_state_is_not_written_to() -> None:
    weight = cr.tensor(np.zeros(SIZE, np.float32))

    @cr.jit
    def update(x: Any) -> Any:
        weight.data = weight.data + x
        return weight.sum()

    step = step_of()
    out = step(numbers(1))
    weight.data = out
    for _ in range(4):
        update(numbers(1))
        step(numbers(9))
    assert (out.numpy() == 3).all() and (weight.numpy() == 7).all()


def test_every_dtype_and_shape() -> None:
    shapes = [
        ((4, SIZE), np.dtype(d)) for d in ("?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16")
    ]
    make = Lender().maker([*shapes, ((), np.dtype("f4")), ((0, SIZE), np.dtype("f8"))])
    for _ in range(3):
        made = make()
        for a, (shape, dtype) in zip(made, shapes, strict=False):
            assert a.shape == shape and a.dtype == dtype and a.flags.carray
        assert [a.shape for a in made[-2:]] == [(), (0, SIZE)]
        assert all(x.base is None for x in made[-2:])
        for a in made:
            a[...] = 1  # its memory is all there
