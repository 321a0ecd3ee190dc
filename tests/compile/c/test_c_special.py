"""Special functions in C: the numbers of the eager engine, special values too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.c import special as texts
from chainrule.ops.families import rows
from chainrule.ops.special import bessel
from chainrule.ops.special import table as sp
from tests.compile.c.ccompiler import left, needs_compiler

ELSEWHERE = ("gelu_tanh", "gelu_gate", "gelu_gate_slope", "gelu_gate_density", "gelu_tanh_slope")
"""Functions whose texts are elsewhere, and call one that is here."""
ROWS: dict[str, Callable[[Any], Any]] = {
    **{n: getattr(m, n) for n in texts.TEXTS for m in (sp, bessel) if hasattr(m, n)},
    **{f"polygamma{n}": partial(sp.polygamma, n) for n in range(1, 5)},
    **{f"spherical_jn{n}": partial(bessel.spherical_jn, n) for n in range(5)},
    "iv2": partial(bessel.iv, 2),
    "ive2": partial(bessel.ive, 2),
    **{n: rows[n] for n in ELSEWHERE},
}
POINTS = [
    *(0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 0.25, 0.75, 0.3, -0.7, 2.5, -3.3, 12.25, -12.6, -40.0, 33.0),
    *(150.3, 0.01, 0.97, -0.97, 1 - 1e-6, 1e-6, 1e-30, np.inf, -np.inf, np.nan, 4.0, 3.999, -5.3),
]


def test_every_text_is_tried() -> None:
    inner = {name for f in ROWS for name in texts.below(f)} - ROWS.keys()
    assert ROWS.keys() - {*ELSEWHERE} | inner == texts.TEXTS.keys()
    assert inner == {"bessel_scaled", "cotangent", "erfc_inverse", "gate_decay", "spherical"}


@needs_compiler
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-6), (np.float64, 1e-14)])
def test_special_functions(dtype: Any, rtol: float, tmp_path: Path) -> None:
    x = np.array(POINTS, dtype)

    def every(x: Any) -> list[Any]:
        return [f(x) for f in ROWS.values()]

    with np.errstate(all="ignore"):
        want = [np.asarray(y) for y in every(x)]
    files = cr.jit(every).to_c(tmp_path / "special.c", cr.tensor(x))
    for name, got, y in zip(ROWS, left(files.source, want), want, strict=True):
        if name == "ive2":  # SciPy's routine for any order gives up at infinity
            got, y = got[~np.isinf(x)], y[~np.isinf(x)]
        np.testing.assert_allclose(got, y, rtol=rtol, atol=rtol, err_msg=name)
        zeros = (got == 0) & (y == 0)
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(y[zeros]), err_msg=name)


@needs_compiler
def test_quantiles_of_the_smallest_probabilities(tmp_path: Path) -> None:
    p = np.array([1e-300, 1e-100, 1e-17, 0.2, 0.8, 1 - 1e-12])
    files = cr.jit(sp.ndtri).to_c(tmp_path / "ndtri.c", cr.tensor(p))
    (got,) = left(files.source, [p])
    np.testing.assert_allclose(got, sp.ndtri(p), rtol=4e-15)
