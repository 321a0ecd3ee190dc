"""Calls that machine code makes from their arguments to their results are those of Python."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import optim
from chainrule.compile.cpu.object_layout import locked_byte, place_of_key, word
from chainrule.compile.runtime.call.steady_call import Steady
from chainrule.compile.trace.variant import MISFIT
from chainrule.engine import watch

RNG = np.random.default_rng(0)


def short_of(f: Any) -> Callable[[tuple[Any, ...]], Any]:
    """The machine code that makes calls of `f`."""
    found = f._latest
    assert isinstance(found, Steady) and found.short is not None
    return found.short


RESULTS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "a tensor": (lambda x: x * 2, 5),
    "a number": (lambda x: x.sum(), 5),
    "two": (lambda x: (x + 1, x.sum()), 5),
    "a dictionary": (lambda x: {"a": [x, x * x], "n": 3}, 5),
    "a large one": (lambda x: x * 2, 100_000),
    "two large ones": (lambda x: (x * 2, x + 1), 100_000),
    "one of each": (lambda x: (x * 2, x.sum()), 100_000),
}
"""What is returned, and of how many numbers."""


@pytest.mark.parametrize(("f", "n"), RESULTS.values(), ids=RESULTS)
def test_results(f: Callable[[Any], Any], n: int):
    g = cr.jit(f)
    found: list[Any] = []
    for _ in range(5):
        x = cr.tensor(RNG.normal(size=n))
        found.append((g(x), f(x)))
    assert vars(g._latest)["_whole"].call((x,)) is not MISFIT
    for got, want in found:  # none is written by a later call
        (xs, kind), (ys, other) = cr.tree.flatten(got), cr.tree.flatten(want)
        assert kind == other
        for a, b in zip(xs, ys, strict=True):
            np.testing.assert_allclose(cr.asarray(a).numpy(), cr.asarray(b).numpy(), rtol=1e-12)


def test_nothing_is_kept_of_a_call():
    f = cr.jit(lambda x: (x * 2, x.sum()))
    x = cr.tensor(np.ones(3))
    for _ in range(3):
        f(x)
    short, args = short_of(f), (x,)
    gc.collect()
    counts = [getrefcount(o) for o in (None, MISFIT, x, x.value, args, x.value.dtype)]
    for _ in range(1000):
        short(args)
        short((x, x))
    gc.collect()
    after = [getrefcount(o) for o in (None, MISFIT, x, x.value, args, x.value.dtype)]
    assert all(abs(a - b) < 500 for a, b in zip(counts, after, strict=True))


def test_what_is_refused_is_raised_and_unlocks_the_program():
    table = cr.tensor(RNG.normal(size=(7, 3)))
    f = cr.jit(lambda at: cr.take(table, at, axis=0))
    good, bad = cr.tensor([1, 2]), cr.tensor([1, 7])
    for _ in range(3):
        f(good)
    for _ in range(2):
        with pytest.raises(IndexError, match=r"outside 0\.\.6"):
            short_of(f)((bad,))
        np.testing.assert_array_equal(short_of(f)((good,)).numpy(), table.numpy()[[1, 2]])


def test_who_watches_or_intercepts_is_asked_in_python():
    f = cr.jit(lambda x: x * 2)
    x = cr.tensor(np.ones(3))
    for _ in range(3):
        f(x)
    short = short_of(f)
    assert short((x,)) is not MISFIT
    with watch.watching(watch.Watch()):
        assert short((x,)) is MISFIT
    with cr.no_grad():
        assert short((x,)) is MISFIT
    assert short((x,)) is not MISFIT


def test_a_program_that_is_locked_is_waited_for():
    f = cr.jit(lambda x: x * 2)
    x = cr.tensor(np.ones(3))
    for _ in range(3):
        f(x)
    lock, done = vars(f._latest)["_native"].lock, threading.Event()
    thread = threading.Thread(target=lambda: (f(x), done.set()))
    with lock:
        thread.start()
        assert not done.wait(0.1)
    thread.join(10)
    assert done.is_set()


def test_threads_that_call_one_program():
    f = cr.jit(lambda x: (x * 2).sum())
    xs = [cr.tensor(np.full(50, float(k))) for k in range(4)]
    for x in xs:
        f(x)
    wrong: list[int] = []

    def calls(k: int) -> None:
        wrong.extend(k for _ in range(2000) if f(xs[k]).item() != 100.0 * k)

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def trained(how: str) -> list[float]:
    """Losses of a few steps, between which weights and moments are loaded, as `how` says."""
    w = cr.tensor(np.arange(1, 4) / 7, requires_grad=True)
    adam = optim.Adam([w], lr=0.1)
    first, blank = w.detach().numpy().copy(), adam.state_dict()

    def step(x: Any) -> Any:
        loss = ((x @ w - 1) ** 2).sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    f = step if how == "eager" else cr.jit(step)
    x, losses, shared = cr.tensor(np.ones((2, 3))), [], []
    for k in range(30):
        if k % 6 == 5:
            w.data = cr.tensor(first + k)
            adam.load_state_dict(blank)
        if k % 10 == 9:
            shared.append((w.detach().numpy(), w.detach().numpy().copy()))
        losses.append(f(x).item())
    for seen, then in shared:  # what somebody sees is not written
        np.testing.assert_array_equal(seen, then)
    return losses


def test_state_that_is_loaded_between_calls():
    np.testing.assert_allclose(trained("jit"), trained("eager"), rtol=1e-10)


def test_arrays_of_a_run_are_kept_until_it_is_over():
    """Another thread loads state and calls meanwhile."""
    w = cr.tensor(np.ones(3))
    f = cr.jit(lambda x: (w * x).sum())
    x = cr.tensor(np.ones(3))
    for _ in range(3):
        f(x)
    steady = vars(f)["_latest"]
    before, found = steady.seen, list[float]()
    w.data = cr.tensor(np.full(3, 2.0))
    thread = threading.Thread(target=lambda: found.append(f(x).item()))
    with vars(steady)["_native"].lock:
        thread.start()
        thread.join(0.1)
        assert steady.seen is before
    thread.join(10)
    assert found == [6.0] and steady.seen is not before


def test_where_a_dictionary_has_a_key():
    """Found, and not taken for another after changes."""
    names: dict[str, object] = {"a": object(), "b": object(), "c": object()}
    table, _, at = place_of_key(names, "b")
    assert table and word(table + at) == id("b") and word(table + at + 8) == id(names["b"])
    names["b"] = object()
    assert word(table + at + 8) == id(names["b"])
    assert place_of_key(names, "d") == (0, 0, 0)
    assert place_of_key({}, "d") == (0, 0, 0)
    del names["b"]
    assert word(table + at) != id("b")


def test_where_a_lock_says_that_it_is_locked():
    at, lock = locked_byte(), threading.Lock()
    assert at is not None
    place = (word(id(lock) + at // 8 * 8) >> 8 * (at % 8)) & 255
    with lock:
        assert (word(id(lock) + at // 8 * 8) >> 8 * (at % 8)) & 255 == 1
    assert place == 0
