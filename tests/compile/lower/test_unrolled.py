"""What is made of an unrolled program grows as the program does: twice the steps, twice the work.

Not seconds are measured but what takes them: calls of the compiler's functions before LLVM has its
turn, and the length of the code that LLVM is given.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.llvm import function_calls
from chainrule.compile.runtime import build, native_program
from chainrule.compile.runtime.cache.programs import Entry
from tests.sampling import sampled, sampled_file

pytestmark = sampled_file(one_in=3)


STEPS = (32, 64, 128)
RNG = np.random.default_rng(0)


def sines(n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(n):
            x = cr.sin(x) * 1.01 + 0.01
        return cr.sum(x)

    return f


def softmaxes(n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(n):
            x = cr.softmax(x * 1.1) + x
        return cr.sum(x * x)

    return f


def products(n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        w = x[:, : x.shape[0]]
        for _ in range(n):
            x = w @ x
        return cr.sum(x)

    return f


def network(n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        w = x[:, : x.shape[0]]
        for _ in range(n):
            x = cr.tanh(w @ x + x)
        return cr.sum(x)

    return f


def solver(n: int) -> Callable[[Any], Any]:
    def f(y: Any) -> Any:
        for _ in range(n // 2):
            a = -cr.sin(y)
            b = -cr.sin(y + 0.01 * a)
            y = y + 0.005 * (a + b)
        return cr.sum(y * y)

    return f


PROGRAMS = {f.__name__: f for f in (sines, softmaxes, products, network, solver)}
SHAPES: dict[str, tuple[int, ...]] = {"sines": (100,), "solver": (100,)}


class EnoughError(Exception):
    """All that is wanted is known."""


def effort(f: Callable[[Any], Any], x: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Calls of functions while value and gradient of f are compiled, and letters of LLVM's code."""
    letters = 0

    def compiled(text: str) -> bytes:
        nonlocal letters
        letters = len(text)
        raise EnoughError

    monkeypatch.setattr(native_program, "compile_object", compiled)
    monkeypatch.setattr(Entry, "get", lambda self: None)
    monkeypatch.setattr(build, "CHECKING", False)
    count = 0

    def note(frame: Any, event: str, what: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    g = cr.jit(cr.value_and_grad(f))
    sys.setprofile(note)
    try:
        g(x)
    except EnoughError:
        pass
    finally:
        sys.setprofile(None)
    assert letters, "nothing was compiled"
    return count, letters


def is_linear(ns: tuple[int, ...], found: list[int]) -> bool:
    """Whether from each of `ns` to the next a step more costs about the same."""
    slopes = [(b - a) / (m - n) for n, m, a, b in zip(ns, ns[1:], found, found[1:], strict=False)]
    return slopes[1] <= 1.35 * slopes[0]


@sampled(one_in=5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_work_is_linear_in_steps(name: str, monkeypatch: pytest.MonkeyPatch):
    x = RNG.normal(size=SHAPES.get(name, (8, 20)))
    found = [effort(PROGRAMS[name](n), x, monkeypatch) for n in STEPS]
    assert is_linear(STEPS, [a for a, _ in found]), found
    assert is_linear(STEPS, [b for _, b in found]), found


def test_what_is_quadratic_is_seen():
    assert is_linear(STEPS, [100 + 7 * n for n in STEPS])
    assert not is_linear(STEPS, [100 + n * n for n in STEPS])


def test_a_function_with_many_uses_is_written_once(monkeypatch: pytest.MonkeyPatch):
    x = RNG.normal(size=100)
    with monkeypatch.context() as patch:
        _, called = effort(sines(8), x, patch)
    monkeypatch.setattr(function_calls, "FEW", 1000)
    monkeypatch.setattr(function_calls, "MANY", 1000)
    _, in_place = effort(sines(8), x, monkeypatch)
    assert 3 * called < in_place


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_that_are_called_are_those_in_place(dtype: Any, monkeypatch: pytest.MonkeyPatch):
    """The same bits."""
    fs = [cr.exp, cr.log1p, cr.sin, cr.tanh, cr.erf, cr.atan]
    x = np.linspace(0.1, 0.9, 37).astype(dtype)

    def all_of(x: Any) -> Any:
        return [f(x) for f in fs]

    want = cr.jit(all_of)(x)
    monkeypatch.setattr(function_calls, "FEW", 0)
    monkeypatch.setattr(Entry, "get", lambda self: None)
    monkeypatch.setattr(Entry, "put", lambda self, made: None)
    for f, a, b in zip(fs, cr.jit(all_of)(x), want, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=str(f))
