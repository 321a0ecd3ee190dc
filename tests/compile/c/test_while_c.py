"""`while_loop` in C: the same numbers, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from tests.compile.c.ccompiler import losses, needs_compiler
from tests.compile.trace.test_while import falling, nested

pytestmark = needs_compiler


def test_loops_in_loops(tmp_path: Path):
    f = cr.jit(nested)
    numbers = [cr.tensor(x) for x in (2.0, 0.5, 3.0)]
    files = f.to_c(tmp_path, batches=[(x,) for x in numbers])
    assert files.source.read_text(encoding="utf-8").count("while (") == 2
    np.testing.assert_allclose(losses(files.source, 3), [f(x).item() for x in numbers], rtol=1e-6)


def test_a_step_that_needs_a_loop_in_several_parts(tmp_path: Path):
    w = cr.tensor(0.7)

    @cr.jit
    def step(x: Any) -> Any:
        value, slope = cr.jvp(lambda w: falling(w) * x, (w,), (cr.tensor(1.0),))
        w.data = w - 0.05 * slope
        return value

    inputs = [(cr.tensor(x),) for x in (1.0, 0.5, 2.0)]
    files = step.to_c(tmp_path, batches=inputs)
    got = losses(files.source, 3)
    np.testing.assert_allclose(got, [step(*x).item() for x in inputs], rtol=1e-5)


def test_large_products_of_a_turn_are_calls_as_elsewhere(tmp_path: Path):
    a = cr.tensor(np.random.default_rng(0).standard_normal((80, 80)) / 20)

    @cr.jit
    def power(a: Any) -> Any:
        return cr.while_loop(lambda s: (s * s).sum() > 1e-3, lambda s: s @ a, a).sum()

    files = power.to_c(tmp_path / "power.c", a)
    assert "matmul(80, " in files.source.read_text(encoding="utf-8")
    np.testing.assert_allclose(losses(files.source, 1), [power(a).item()], rtol=1e-10)


def test_a_turn_without_loops_is_refused(tmp_path: Path):
    def f(x: Any) -> Any:
        return cr.while_loop(lambda s: cr.sum(s) > 1, lambda s: cr.special.polygamma(7, s) / 2, x)

    with pytest.raises(cr.TraceError, match="to_c: while_loop has no loops"):
        cr.jit(f).to_c(tmp_path, cr.tensor([[3.0, 1.0], [0.5, 2.0]]))
