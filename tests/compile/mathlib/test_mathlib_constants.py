"""The constants of the native mathematics: each matters, and is what its script derives."""

from __future__ import annotations

import importlib
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from chainrule.compile import mathlib
from chainrule.ops.values import coefficients, special_coefficients
from tests.compile.mathlib.lanes import native
from tests.compile.mathlib.mathsamples import arity, worst
from tests.sampling import sampled

USES = {
    "EXP_F32": ("exp", np.float32),
    "EXP_F64": ("exp", np.float64),
    "LOG_F32": ("log", np.float32),
    "LOG_F64": ("log", np.float64),
    "LOG_TWICE": ("pow", np.float64),
    "SIN_F32": ("sin", np.float32),
    "COS_F32": ("cos", np.float32),
    "SIN_F64": ("sin", np.float64),
    "COS_F64": ("cos", np.float64),
    "TAN_F64": ("tan", np.float64),
    "ATAN_F64": ("atan", np.float64),
    "ATAN_COARSE": ("atan", np.float32),
    "ASIN_F64": ("asin", np.float64),
    "ERF_F32": ("erf", np.float32),
    "ERF_F64": ("erf", np.float64),
    "ERFC_F32": ("erf", np.float32),
    "ERFC_F64": ("erfc", np.float64),
    "NORMAL_TAIL_F32": ("ndtr", np.float32),
    "ERFINV_NEAR": ("erfinv", np.float64),
    "ERFC_INVERSE": ("ndtri", np.float64),
    "ERFCX_FAR": ("erfcx", np.float64),
    **{f"I{n}_NEAR": (f, np.float64) for n, f in enumerate(("i0", "i1", "iv2"))},
    **{f"I{n}_FAR": (f, np.float64) for n, f in enumerate(("i0e", "i1e", "ive2"))},
    **{f"LGAMMA_{part}": ("lgamma", np.float64) for part in ("NEAR", "FAR")},
    **{f"DIGAMMA_{part}": ("digamma", np.float64) for part in ("NEAR", "FAR")},
}


def module_of(table):
    """The module that has the coefficients of that name."""
    return coefficients if hasattr(coefficients, table) else special_coefficients


@sampled(one_in=4)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("table", sorted(USES))
def test_a_wrong_coefficient_is_noticed(table, which, monkeypatch):
    """One part in a thousand of one coefficient breaks the bound: the test of errors can fail."""
    good = getattr(module_of(table), table)
    bad = (*good[:which], good[which] * 1.001, *good[which + 1 :])
    monkeypatch.setattr(module_of(table), table, bad)
    name, dtype = USES[table]
    run = native.__wrapped__(name, dtype, arity(name), 8)
    assert worst(name, dtype, 100, run)[0] > mathlib.error_bound(name, dtype)


def test_every_polynomial_is_perturbed_above():
    constants = vars(coefficients) | vars(special_coefficients)
    tables = {k for k, v in constants.items() if isinstance(v, tuple) and len(v) > 2}
    # CBRT is a first guess, which Newton's steps make good; pi in three parts is no polynomial.
    assert tables == set(USES) | {"CBRT", "PI", "PI_F32"}


def fitting(name):
    path = Path(__file__).parents[3] / "scripts" / f"{name}.py"
    if not path.exists():
        pytest.skip("the scripts are not part of an installed package")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path.parent)
        return importlib.import_module(name)


@sampled(one_in=2)
@pytest.mark.parametrize(
    ("script", "module"),
    [
        ("fit_polynomials", coefficients),
        pytest.param("fit_special", special_coefficients, marks=pytest.mark.sweep),
    ],
)
def test_the_constants_are_those_of_the_script(script, module):
    dps = mp.mp.dps
    try:
        fit = fitting(script)
        mp.mp.dps = 60
        for name, what in fit.NUMBERS.items():
            assert tuple(fit.parts(*what)) == getattr(module, name)
        assert getattr(fit, "inverse_turn", lambda: None)() == vars(module).get("INVERSE_TURN")
        small = [f for f in fit.FITS if f.degree <= 4 or f.name in ("ERFINV_NEAR", "DIGAMMA_FAR")]
        assert len(small) >= 3
        for f in small:
            assert tuple(fitting("minimax").solve(f)[0]) == getattr(module, f.name)
    finally:
        mp.mp.dps = dps
