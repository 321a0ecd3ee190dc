"""What the functions of `chainrule.compile.mathlib` are, in mpmath, and where to sample them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

from chainrule.compile.mathlib.special import spherical
from chainrule.compile.mathlib.special.gamma import ORDERS


@dataclass(frozen=True)
class Case:
    """A function in mpmath and where to sample it; whether it has poles at 0, -1, -2, ...

    Where parts of it cancel on its way, errors are in ulp of the larger of it and its `floor`.
    """

    exact: Any
    low: float = -math.inf
    high: float = math.inf
    poles: bool = False
    floor: Any = None


def _sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def _gelu_gate(x):
    return _sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3))


def _gelu_tanh(x):
    return x * _gelu_gate(x)


def _logaddexp(a, b):
    return max(a, b) + mp.log1p(mp.exp(-abs(a - b)))


def _erfcx(x):
    if x < 100:
        return mp.exp(x * x) * mp.erfc(x)
    terms = [(-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(20)]
    return mp.fsum(terms) / (x * mp.sqrt(mp.pi))


def _log_ndtr(x):
    if x < 0:
        return mp.log(_erfcx(-x / mp.sqrt(2)) / 2) - x * x / 2
    return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)


def _newton(f, slope, x):
    """Where f is 0, by its slope there, from x."""
    for _ in range(100):
        step = f(x) / slope(x)
        x -= step
        if abs(step) <= abs(x) * mp.mpf(10) ** -40:
            return x
    raise AssertionError(x)


def _erfc_inverse(q):
    t = float(mp.sqrt(-mp.log(q)))
    x = mp.mpf(max(0.3, t - math.log(1.8 * t + 1.01) / (2 * t)))
    slope = lambda x: -2 / (mp.sqrt(mp.pi) * mp.exp(x * x) * mp.erfc(x))
    return _newton(lambda x: mp.log(mp.erfc(x)) - mp.log(q), slope, x)


def _erfinv(y):
    if abs(y) > 0.4:
        return mp.sign(y) * (_erfc_inverse(1 - abs(y)) if abs(y) < 1 else mp.inf)
    slope = lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)
    return _newton(lambda x: mp.erf(x) - y, slope, y * mp.sqrt(mp.pi) / 2)


def _ndtri(p):
    tail = -mp.sign(p - 0.5) * _erfc_inverse(2 * min(p, 1 - p)) if abs(p - 0.5) > 0.3 else None
    return -mp.sqrt(2) * (_erfinv(1 - 2 * p) if tail is None else tail)


def _bessel(n, scaled=False):
    def exact(x):
        with mp.workdps(80):
            return mp.besseli(n, x) * (mp.exp(-abs(x)) if scaled else 1)

    return exact


def _lgamma(x):
    return mp.re(mp.loggamma(x))


def _lgamma_floor(x):
    """On the left it is log(pi / sin) less lgamma(1 - x)."""
    return max(mp.mpf(1), _lgamma(1 - x)) if x < 0 else 0


def _digamma_floor(x):
    """On the left it is a cotangent and digamma(1 - x)."""
    return abs(mp.digamma(1 - x)) if x < 0 else 0


def _polygamma(n):
    """DLMF 5.15.6 on the left: the n-th derivative of the cotangent is a polynomial of it."""
    p = [0, 1]
    for _ in range(n):
        slope = [k * a for k, a in enumerate(p)][1:]
        p = [-a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]

    def right(x):
        return (-1) ** (n + 1) * mp.factorial(n) * mp.zeta(n + 1, x)

    def exact(x):
        if x > 0:
            return right(x)
        c = mp.cot(-mp.pi * x)
        cotangent = mp.fsum([a * c**k for k, a in enumerate(p)])
        return (-1) ** n * (mp.pi ** (n + 1) * cotangent + right(1 - x))

    return Case(exact, -300, 1e18, poles=True, floor=lambda x: abs(right(1 - x)) if x < 0 else 0)


def _spherical(n):
    """Beyond n + 2, which is before the first zero, it is a sum of parts of about 1 / x."""

    def exact(x):
        a = abs(x)
        with mp.workdps(60 + int(max(0, mp.log10(a)))):
            if n:
                y = mp.sqrt(mp.pi / (2 * a)) * mp.besselj(n + mp.mpf(1) / 2, a)
            else:
                y = mp.sin(a) / a
        return -y if n % 2 and x < 0 else y

    return Case(exact, floor=lambda x: 1 / abs(x) if n and abs(x) > n + 2 else 0)


def _density(x):
    e = mp.exp(-abs(x))
    return e / (1 + e) ** 2


def _exponent(x):
    """The exponent of GELU's tanh form, and its slope."""
    c, scale = mp.mpf(0.044715), 2 * mp.sqrt(2 / mp.pi)
    return scale * (x + c * x**3), scale * (1 + 3 * c * x * x)


def _gate_slope(x):
    v, slope = _exponent(x)
    return _density(v) * slope


def _gelu_tanh_slope(x):
    v, slope = _exponent(x)
    return _sigmoid(v) + x * _density(v) * slope


def _ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _normal_part(x):
    return mp.exp(-x * x / 2) / 2


def _gelu_erf_slope(x):
    return _ndtr(x) + x * mp.npdf(x)


CASES = {
    "exp_product": Case(lambda a, b: mp.exp(a * b), -60, 60),
    "sigmoid_diff": Case(lambda a, b: _sigmoid(a - b), -1e30, 1e30),
    "logistic_density": Case(_density, -760, 760),
    "sech_square": Case(lambda x: mp.sech(x) ** 2, -380, 380),
    "sech": Case(mp.sech, -760, 760),
    "silu_slope": Case(lambda x: _sigmoid(x) + x * _density(x), -770, 1e30, floor=_density),
    "gelu_gate_slope": Case(_gate_slope, -24, 24),
    "gelu_gate_density": Case(lambda x: mp.ldexp(_density(_exponent(x)[0]), 17), -28, 28),
    "gelu_gate_tanh": Case(lambda x: mp.tanh(_exponent(x)[0] / 2), -28, 28),
    "gelu_tanh_slope": Case(_gelu_tanh_slope, -24, 1e30, floor=lambda x: _gate_slope(x) * abs(x)),
    "gelu_erf_slope": Case(_gelu_erf_slope, -40, 1e30, floor=_normal_part),
    "ndtr": Case(_ndtr, -40, 1e30),
    "entr_slope": Case(lambda x: -mp.log(x) - 1, 0),
    "exp": Case(mp.exp, -760, 720),
    "exp2": Case(lambda x: mp.mpf(2) ** x, -1100, 1030),
    "expm1": Case(mp.expm1, -760, 720),
    "exp_diff": Case(None, -300, 300),
    "sigmoid": Case(_sigmoid, -760, 760),
    "silu": Case(lambda x: x * _sigmoid(x), -770, 1e30),
    "gelu_tanh": Case(_gelu_tanh, -22, 1e30),
    "gelu_gate": Case(_gelu_gate, -22, 1e30),
    "gelu_erf": Case(lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2, -39, 1e30),
    "softplus": Case(lambda x: _logaddexp(x, mp.mpf(0)), -760, 1e30),
    "logaddexp": Case(_logaddexp, -1e30, 1e30, floor=lambda a, b: max(abs(a), abs(b))),
    "log": Case(mp.log, 0),
    "log2": Case(lambda x: mp.log(x, 2), 0),
    "log10": Case(mp.log10, 0),
    "log1p": Case(mp.log1p, -1),
    "pow": Case(mp.power, 0),
    "cbrt": Case(lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "hypot": Case(mp.hypot),
    "sin": Case(mp.sin),
    "cos": Case(mp.cos),
    "tan": Case(mp.tan),
    "asin": Case(mp.asin, -1, 1),
    "acos": Case(mp.acos, -1, 1),
    "atan": Case(mp.atan),
    "atan2": Case(mp.atan2),
    "sinh": Case(mp.sinh, -712, 712),
    "cosh": Case(mp.cosh, -712, 712),
    "tanh": Case(mp.tanh),
    "asinh": Case(mp.asinh),
    "acosh": Case(mp.acosh, 1),
    "atanh": Case(mp.atanh, -1, 1),
    "erf": Case(mp.erf),
    "erfc": Case(mp.erfc, -30, 28),
    "erfcx": Case(_erfcx, -27, 1e300),
    "log_ndtr": Case(_log_ndtr, -1e150, 40),
    "erfinv": Case(_erfinv, -1, 1),
    "ndtri": Case(_ndtri, 0, np.nextafter(1, 0)),
    "i0": Case(_bessel(0), -714, 714),
    "i1": Case(_bessel(1), -714, 714),
    "iv2": Case(_bessel(2), -714, 714),
    "i0e": Case(_bessel(0, scaled=True), -1e30, 1e30),
    "i1e": Case(_bessel(1, scaled=True), -1e30, 1e30),
    "ive2": Case(_bessel(2, scaled=True), -1e30, 1e30),
    "lgamma": Case(_lgamma, -300, poles=True, floor=_lgamma_floor),
    "digamma": Case(mp.digamma, -300, poles=True, floor=_digamma_floor),
    **{f"polygamma{n}": _polygamma(n) for n in ORDERS},
    **{f"spherical_jn{n}": _spherical(n) for n in spherical.ORDERS},
}
