"""Compiled functions of Values that are called with ints: each call's own program, but one compiled
program for all that differ only in what they read."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.scalars import variants
from chainrule.scalar import Value
from tests.compile.scalars import scalar_ints
from tests.compile.scalars.scalar_programs import GPT
from tests.compile.scalars.test_reroll import forms, gradients
from tests.sampling import sampled


def same(f: Any, compiled: Any, leaves: list[Value], *args: Any, rounding: float = 1e-13) -> None:
    """One call of both, and a step of gradient descent: values to the bit, gradients to rounding,
    in parts of the largest."""
    y, z = f(*args), compiled(*args)
    assert y.data == z.data, args
    want, got = np.array(gradients(y, leaves)), np.array(gradients(z, leaves))
    assert np.allclose(want, got, rtol=0, atol=rounding * np.abs(want).max(initial=1e-300)), args
    for v, g in zip(leaves, want.tolist(), strict=True):
        v.data -= 0.01 * g


MIXED = "an int chooses among numbers that are not computed alike"


def codes(compiled: Any, *, mixed: bool = False) -> set[int]:
    """The machine code of all loops of a function; some may be none for the reason `MIXED`."""
    found = [form for form in forms(compiled) if not (mixed and form.why == MIXED)]
    loops = [form.loops for form in found]
    assert None not in loops, [form.why for form in found]
    return {id(x.code) for x in loops if x is not None}


@pytest.mark.usefixtures("eager_rolling")
def test_documents_are_recorded_once_for_each_length() -> None:
    model: Any = GPT(n_embd=4)
    compiled = cr.jit(model.loss)
    r = random.Random(1)
    documents = [[6, *[r.randrange(6) for _ in range(2 + i % 4)], 6] for i in range(30)]
    for tokens in [*documents, *documents[::7]]:
        same(model.loss, compiled, model.parameters(), tokens)
    assert len(codes(compiled)) == 2  # the first length's, and one for all others
    assert compiled.traces == 4


@pytest.mark.usefixtures("eager_rolling")
def test_tokens_that_happen_to_be_in_order() -> None:
    """Rows that lie one after the other need no table; other rows do."""
    model: Any = GPT(n_embd=4)
    compiled = cr.jit(model.loss)
    for tokens in (
        [1, 2, 3, 4, 5],
        [0, 0, 0, 0, 0],
        [4, 0, 2, 2, 1],
        [2, 1, 1, 5, 0],
        [5, 4, 3, 2, 1],
    ):
        same(model.loss, compiled, model.parameters(), tokens)
    assert len(codes(compiled)) <= 3


@sampled(one_in=20)
@pytest.mark.usefixtures("eager_rolling")
@pytest.mark.parametrize("seed", range(100))
def test_random_programs_of_ints(seed: int) -> None:
    f, leaves, calls = scalar_ints.program(seed)
    compiled = cr.jit(f)
    for ints in [*calls, *calls[::-1]]:
        same(f, compiled, leaves, ints, rounding=1e-12)
    assert len(codes(compiled, mixed=True)) <= len(calls)


@pytest.mark.usefixtures("eager_rolling")
def test_a_branch_on_an_int_that_came_late() -> None:
    """Many calls read rows and nothing else; then one does something else for its int."""
    rows = [[Value(0.1 * (i - j)) for j in range(4)] for i in range(8)]

    def f(ints: list[int]) -> Any:
        parts: list[Any] = [sum(v * v for v in rows[i]) * (0.5 if i == 7 else 1.5) for i in ints]
        total: Any = sum(parts[1:])
        return total.tanh() if sum(ints) == 9 else total + parts[0]

    compiled = cr.jit(f)
    leaves = [v for row in rows for v in row]
    for ints in ([0, 1, 3], [2, 5, 4], [1, 3, 0], [6, 6, 2], [7, 1, 2], [2, 3, 4], [3, 3, 3]):
        for _ in range(2):
            same(f, compiled, leaves, list(ints))


def test_only_so_many_kinds_of_arguments_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "_KINDS", 3)
    xs = [Value(0.1 * i) for i in range(9)]

    def f(i: int) -> Any:
        return xs[i] * xs[i + 1]

    compiled = cr.jit(f)
    for i in [*range(8), *range(8)]:
        assert compiled(i).data == xs[i].data * xs[i + 1].data
    assert len(forms(compiled)) <= 3
