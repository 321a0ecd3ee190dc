"""Special functions of arrays: SciPy's, or our own where SciPy is not installed.

`OURS` are formulas that are as exact as SciPy's, and slower. Python's `math` computes what they
need of the error function, number by number. `SCIPY_ONLY` says of the others why they have none;
without SciPy they raise `MissingPackageError`.
"""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from chainrule import optional
from chainrule.engine.dtypes import NARROW, check_real, float64, rounded_once
from chainrule.ops.values.double_digits import exp_of_sum, product

Fn = Callable[..., Any]


@cache
def special_function(name: str, label: str) -> Fn:
    """SciPy's function of that name, or ours; `label` is what a user calls it."""
    if label in OURS:
        scipy = optional.find("scipy.special")
        return OURS[label] if scipy is None else getattr(scipy, name)
    return getattr(optional.require("scipy.special", label), name)


def scipy_value(name: str, label: str = "") -> Fn:
    """`special_function` of arrays of one dtype or several, in the dtype that they promote to.

    There is none for float16 and bfloat16, and some have none for float32: those compute in a
    wider one. `label` is the row's name, where that is another one.
    """

    @rounded_once
    def fn(*xs: Any) -> Any:
        y = special_function(name, label or name)(*xs)
        dtype = np.result_type(*xs)
        return y.astype(dtype) if dtype.kind == "f" and y.dtype != dtype else y

    return fn


def ordered(name: str) -> Fn:
    """`scipy_value` of an order, which counts as the nearest whole number, and an array."""
    f = scipy_value(name)

    def fn(n: Any, x: Any) -> Any:
        check_real(f"the order of {name}", n)
        return f(np.rint(n) if hasattr(n, "dtype") else float(np.rint(n)), x)

    return fn


def special(name: str, label: str = "") -> Fn:
    """`special_function` of one array, found when first called: importing SciPy's takes four NumPy
    imports.

    It has no version for float16 and bfloat16: those compute in float32 and are rounded.
    """
    found: Any = None

    def fn(x: Any) -> Any:
        nonlocal found
        if found is None:
            found = special_function(name, label or name)
        dtype = getattr(x, "dtype", None)
        if dtype is None or dtype.char not in NARROW:
            return found(x)
        return found(x.astype(np.float32)).astype(dtype)

    return fn


# --- Ours ----------------------------------------------------------------------------------------


def _in_float64(name: str, fn: Fn) -> Fn:
    """`fn` of arrays of float64, for arrays and numbers of every real dtype."""

    def wrapper(*xs: Any) -> Any:
        dtype = np.result_type(*xs)
        if dtype.kind == "c":
            return optional.require("scipy.special", f"{name} of complex numbers")
        with np.errstate(all="ignore"):
            y = fn(*[np.asarray(x, float64) for x in xs])
        return y.astype(dtype if dtype.kind == "f" else float64)[()]

    return wrapper


def _by_number(f: Callable[[float], float]) -> Fn:
    """`f` of each element."""

    def fn(x: Any) -> Any:
        return np.fromiter(map(f, x.ravel().tolist()), float64, x.size).reshape(x.shape)

    return fn


_erf, _erfc = _by_number(math.erf), _by_number(math.erfc)
_FAR = 25.0
"""Beyond it `erfcx` is its asymptotic series; before it erfc is not subnormal."""


def _scaled(x: Any) -> Any:
    """erfcx(x) of x >= 0. Beyond `_FAR`: DLMF 7.12.1, to the seventh power."""
    near = np.minimum(x, _FAR)
    y = exp_of_sum(*product(near, near)) * _erfc(near)
    z = 0.5 / (x * x)
    series = np.ones_like(z)
    for n in (13, 11, 9, 7, 5, 3, 1):
        series = 1 - n * z * series
    return np.where(x > _FAR, series / (x * math.sqrt(math.pi)), y)


def _erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x); of x < 0 it is 2 exp(x^2) - erfcx(-x)."""
    y = _scaled(np.abs(x))
    left = np.clip(x, -26.63, 0)  # there twice the exponential overflows, not yet itself
    return np.where(x < 0, 2 * exp_of_sum(*product(left, left)) - y, y)


def _log_ndtr(x: Any) -> Any:
    left = np.minimum(x, -1)
    far = np.log(_erfcx(-left / math.sqrt(2)) / 2) - left * left / 2
    return np.where(x < -1, far, np.log1p(-_erfc(x / math.sqrt(2)) / 2))


def _logit(x: Any) -> Any:
    middle = 2 * (x - 0.5)  # exact near the zero
    return np.where(
        np.abs(middle) < 0.5, np.log1p(middle) - np.log1p(-middle), np.log(x) - np.log1p(-x)
    )


def _entr(x: Any) -> Any:
    return np.where(x < 0, -math.inf, _xlogy(-x, x))


def _xlogy(x: Any, y: Any) -> Any:
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


def _xlog1py(x: Any, y: Any) -> Any:
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log1p(y))


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x) if x > -math.inf else x
    except (ValueError, OverflowError):  # a pole, or too large
        return math.inf


FORMULAS: dict[str, Fn] = {
    "logit": _logit, "entr": _entr, "xlogy": _xlogy, "xlog1py": _xlog1py,
}  # fmt: skip
"""Those that take their arguments through functions of elements alone."""
OURS: dict[str, Fn] = {
    name: _in_float64(name, fn)
    for name, fn in {
        **FORMULAS,
        "erf": _erf,
        "erfc": _erfc,
        "erfcx": _erfcx,
        "log_ndtr": _log_ndtr,
        "lgamma": _by_number(_lgamma),
    }.items()
}
"""By the name of the op."""

_BESSEL = "Bessel functions have an expansion for each region of order and argument"
_INCOMPLETE = (
    "incomplete gamma and beta functions have an expansion for each region of their arguments"
)
_INVERSE = "the inverse of the error function is a fit, and one more for its tails"
_POLYGAMMA = "derivatives of log gamma are sums over all integers"
SCIPY_ONLY: dict[str, str] = {
    **dict.fromkeys(("i0", "i0e", "i1", "i1e", "iv", "ive", "spherical_jn"), _BESSEL),
    **dict.fromkeys(("j0", "j1", "jv", "y0", "y1", "yv", "airy_ai", "airy_ai_slope"), _BESSEL),
    **dict.fromkeys(("k0", "k0e", "k1", "k1e", "kv", "kve"), _BESSEL),
    **dict.fromkeys(("gammainc", "gammaincc", "gamma_density"), _INCOMPLETE),
    **dict.fromkeys(("betainc", "betaincc"), _INCOMPLETE),
    **dict.fromkeys(
        ("erfinv", "ndtri", "erfinv_slope", "erfinv_bend", "ndtri_slope", "ndtri_bend"), _INVERSE
    ),
    **dict.fromkeys(("digamma", "polygamma", "zeta"), _POLYGAMMA),
}
"""Ops whose values only SciPy computes, and why."""
