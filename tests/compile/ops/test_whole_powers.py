"""Powers with whole exponents, of single numbers, which machine code computes by squares."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.llvm.whole_powers import MOST

POWER = cr.jit(lambda x, n: x**n)


def power(x: float, n: int) -> float:
    """x^n in machine code."""
    return POWER(cr.tensor(x, cr.float64), cr.tensor(n, cr.int64)).item()


def test_that_machine_code_has_it():
    power(0.5, 3)
    name = POWER.loops().split("\n\n")[1].split("(")[0]
    assert "chainrule.whole_power" in POWER.source_of(name, language="llvm")


@pytest.mark.parametrize("x", [0.85, 0.99, 0.999, 1.0000001, -0.7, 1 / 3, 3.0, 1e-3, -1e5, 1e100])
def test_powers_are_rounded_right_but_for_ties(x: float):
    rng = np.random.default_rng(0)
    exponents = {0, 1, 2, 3, 7, 1000, MOST - 1, MOST, MOST + 1, *rng.integers(1, MOST, 50).tolist()}
    exponents |= {int(2**k) for k in range(20)} | set(range(1, 100)) | {-1, -7, -1000}
    with mp.workdps(60):
        for n in exponents:
            want = mp.power(mp.mpf(x), n)
            got, nearest = power(x, n), float(want)
            if abs(nearest) < 2.3e-308 or math.isinf(nearest):  # there are few digits
                assert math.isclose(got, nearest, rel_tol=1e-12, abs_tol=1e-323)
            else:
                assert abs(mp.mpf(got) - want) <= 0.52 * math.ulp(nearest), (x, n)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 2001, MOST, -1, -2, -(2**63), 2**63 - 1])
@pytest.mark.parametrize(
    "x", [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 5e-324, 1.7e308, -1.7e308, 2e-154]
)
def test_special_cases(x: float, n: int):
    with np.errstate(all="ignore"):
        want = float(np.power(x, np.float64(n)))
    assert math.isclose(power(x, n), want, rel_tol=1e-15) or (math.isnan(want))
    assert math.isnan(power(x, n)) is math.isnan(want)
    assert math.copysign(1, power(x, n)) == math.copysign(1, want) or math.isnan(want)
