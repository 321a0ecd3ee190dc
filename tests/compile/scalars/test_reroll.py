"""Programs of single numbers that are rolled up, against the programs as they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.scalars import runs
from chainrule.compile.scalars.reroll import families
from chainrule.scalar import Value
from tests.compile.scalars import scalar_loops
from tests.compile.scalars.scalar_programs import ROLLED, Program, chain, clusters, linear
from tests.sampling import sampled


def gradients(y: Value, leaves: list[Value]) -> list[float]:
    """The gradients of `leaves`, which are cleared before and after."""
    for v in leaves:
        v.grad = 0
    y.backward()
    out = [v.grad for v in leaves]
    for v in leaves:
        v.grad = 0
    return out


def forms(compiled: Any) -> list[runs.Runs]:
    """What the variants of a compiled function run."""
    return [v.runs for v in compiled._numbers.variants()]


def trained(f: Callable[..., Any], leaves: list[Value], steps: int, rounding: float = 8e-15) -> Any:
    """`jit(f)` over steps of gradient descent, each compared with f: gradients to rounding, in
    parts of the largest."""
    compiled = cr.jit(f)
    for _ in range(steps):
        y, z = f(), compiled()
        assert y.data == z.data or (math.isnan(y.data) and math.isnan(z.data))
        want, got = np.array(gradients(y, leaves)), np.array(gradients(z, leaves))
        near = rounding * np.abs(want[np.isfinite(want)]).max(initial=0)
        assert np.allclose(want, got, rtol=0, atol=near, equal_nan=True)
        for v, g in zip(leaves, want.tolist(), strict=True):
            v.data -= 0.01 * g
    return compiled


@pytest.mark.parametrize("make", ROLLED.values(), ids=ROLLED)
def test_programs_become_loops(make: Callable[[], Program]) -> None:
    f, leaves = make()
    (form,) = forms(trained(f, leaves, runs.CALLS + 2))
    assert form.loops is not None, form.why


@sampled(one_in=25)
@pytest.mark.parametrize("seed", range(500))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that can be rolled up is, however little it pays."""
    for module, name, least in (
        (runs, "CALLS", 1),
        (runs, "PART", 0),
        (runs, "LEAST", 0),
        (families, "EACH", 0),
    ):
        monkeypatch.setattr(module, name, least)
    f, leaves = scalar_loops.program(seed)
    (form,) = forms(trained(f, leaves, 3, rounding=1e-12))  # they may cancel out
    assert form.loops is not None, form.why


def test_what_does_not_repeat_stays_a_tape() -> None:
    f, leaves = chain()
    (form,) = forms(trained(f, leaves, runs.CALLS + 1))
    assert form.loops is None
    assert "too few of each" in form.why


def test_explain_names_the_families() -> None:
    f, leaves = ROLLED["gpt"]()
    compiled = trained(f, leaves, runs.CALLS - 1)
    assert "rolled up at call" in compiled.explain()
    compiled()
    text = compiled.explain()
    assert "as loops over 41 families" in text
    for line in (
        "5 x 8 dot products of 8, 4 times",
        "30 of 2 x 5 x 5 dot products of 4",
        "2 x 5 maxima of at most 5",
        "5 x 8 dot products of at most 5, some operands by a table",
        "5 x 8 sums, some operands by a table",
    ):
        assert line in text, text


def test_state_that_holds_other_things_than_floats() -> None:
    """Ints, and gradients that were never set, are Python's to read and to add to."""
    f, leaves = ROLLED["mlp"]()
    compiled = cr.jit(f)
    for _ in range(runs.CALLS + 1):
        for i, v in enumerate(leaves):
            v.data = i % 3 if i % 2 else v.data * 1.01
        y, z = f(), compiled()
        assert y.data == z.data
        want, got = gradients(y, leaves), gradients(z, leaves)
        assert got == pytest.approx(want, rel=1e-12, abs=1e-14)
        z.backward()
        z.backward()
        assert [v.grad for v in leaves] == pytest.approx(
            [2 * g for g in want], rel=1e-12, abs=1e-14
        )
        for v in leaves:
            v.grad = 0


def test_the_last_of_several_is_not_taken_for_the_largest() -> None:
    """A number that happens to be the largest where f is traced, but is read as it stands."""
    x = [Value(float(i)) for i in range(6)]

    def f() -> Any:
        last = (x[-1] * 1.5).data
        return sum((v * 1.5 - last).exp() for v in x)

    compiled = trained(f, x, 3)
    assert "looks at the data of Values" in compiled.explain()


def test_arguments_and_state_together() -> None:
    """Given Values, computed ones among them, and floats, beside the state of a closure."""
    w = [[Value(0.1 * (i - j)) for j in range(8)] for i in range(8)]

    def f(x: list[Any], scale: float) -> tuple[Any, Any]:
        for _ in range(6):
            x = [linear(x, [row])[0].tanh() * scale for row in w]
        return sum(x), x[0] * x[1]

    compiled = cr.jit(f)
    leaves = [v for row in w for v in row]
    for n in range(runs.CALLS + 2):
        x = [Value(0.3 * i - 1) for i in range(8)]
        given = [x[0] * x[1], *x[1:]]
        for a, b in zip(f(given, 0.5 + n), compiled(given, 0.5 + n), strict=True):
            assert a.data == b.data
            assert gradients(b, leaves + x) == pytest.approx(gradients(a, leaves + x), rel=1e-12)
    (form,) = forms(compiled)
    assert form.loops is not None, form.why


def test_a_choice_by_numbers_runs_as_it_is_and_says_why() -> None:
    """k-means: which centre is nearest depends on the numbers."""
    f, leaves = clusters()
    compiled = trained(f, leaves, 4)
    assert "runs as it is" in compiled.explain()
    assert "looks at the data of Values" in compiled.explain()


@sampled(one_in=50)
@pytest.mark.parametrize("seed", range(500))
def test_random_programs_in_any_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `reassociate` values and gradients are the program's to rounding."""
    for module, name, least in ((runs, "CALLS", 1), (runs, "LEAST", 0), (families, "EACH", 0)):
        monkeypatch.setattr(module, name, least)
    f, leaves = scalar_loops.program(seed)
    compiled = cr.jit(f, reassociate=True)
    for _ in range(2):
        y, z = f(), compiled()
        assert z.data == pytest.approx(y.data, rel=1e-10, abs=1e-12, nan_ok=True)
        want, got = gradients(y, leaves), gradients(z, leaves)
        near = 1e-10 * np.abs([g for g in want if math.isfinite(g)]).max(initial=1e-3)
        assert got == pytest.approx(want, rel=1e-9, abs=near, nan_ok=True)
    (form,) = forms(compiled)
    assert form.loops is not None, form.why
