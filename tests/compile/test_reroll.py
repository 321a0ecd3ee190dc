"""Programs of single numbers that are rolled up, against the programs as they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.scalars import runs
from chainrule.errors import TraceError
from chainrule.scalar import Value
from tests.compile import scalar_loops
from tests.compile.scalar_programs import ROLLED, Program, chain, clusters
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
    return [v.runs for found in compiled._numbers._variants.values() for v in found]


def trained(f: Callable[..., Any], leaves: list[Value], steps: int) -> Any:
    """`jit(f)` over steps of gradient descent, each compared with f."""
    compiled = cr.jit(f)
    for _ in range(steps):
        y, z = f(), compiled()
        assert y.data == z.data or (math.isnan(y.data) and math.isnan(z.data))
        want, got = np.array(gradients(y, leaves)), np.array(gradients(z, leaves))
        near = 8e-15 * np.abs(want[np.isfinite(want)]).max(initial=0)
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
    for name, least in (("CALLS", 1), ("LEAST", 0), ("EACH", 0)):
        monkeypatch.setattr(runs, name, least)
    f, leaves = scalar_loops.program(seed)
    (form,) = forms(trained(f, leaves, 3))
    assert form.loops is not None, form.why


def test_what_does_not_repeat_stays_a_tape() -> None:
    f, leaves = chain()
    (form,) = forms(trained(f, leaves, runs.CALLS + 1))
    assert form.loops is None
    assert "too few of each" in form.why


def test_a_choice_by_numbers_is_refused_as_before() -> None:
    f, _ = clusters()
    with pytest.raises(TraceError, match="looks at the data of Values"):
        cr.jit(f)()
