"""Derives the constants of `chainrule.compile.mathlib`: minimax polynomials, by Remez exchange.

    python scripts/fit_polynomials.py                 write coefficients.py and say how good each is
    python scripts/fit_polynomials.py SIN_F32 ...     only say how good these are

A `Fit` is a function g on [a, b], a degree, and the weight that turns an error of g into a relative
error of the function that is computed from it. How one is found is in `minimax.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mpmath as mp
from minimax import Fit, Fn, fitted, parts

mp.mp.dps = 60
TARGET = Path(__file__).parent.parent / "chainrule/ops/values/coefficients.py"


def odd_tail(f: Fn, lead: Any = 1) -> Fn:
    """z -> (f(x) - lead x) / x^3 at x = sqrt(z): what follows the first term of an odd series."""
    return lambda z: (f(mp.sqrt(z)) - lead * mp.sqrt(z)) / mp.sqrt(z) ** 3


def odd_weight(f: Fn) -> Fn:
    """z -> x^3 / f(x) at x = sqrt(z)."""
    return lambda z: mp.sqrt(z) ** 3 / f(mp.sqrt(z))


def _artanh2(s: Any) -> Any:
    return mp.log((1 + s) / (1 - s))


def scaled_erfc(t: Any) -> Any:
    """(1 + 2x) exp(x^2) erfc(x) where t = (x - 4) / (x + 4)."""
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


NORMAL_MIDDLE = mp.mpf("4.185546875")
"""Of the numbers near 4, where degree 9 does best, one at which p(0) is close to a float32."""


def normal_tail(t: Any) -> Any:
    """exp(x^2 / 2) ndtr(-x) / w where t = 1 - w, w = 2 m / (x + m), m = NORMAL_MIDDLE."""
    x = NORMAL_MIDDLE * (1 + t) / (1 - t)
    return mp.exp(x * x / 2) * mp.erfc(x / mp.sqrt(2)) / 2 / (1 - t)


HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.0001")
SQRT2 = mp.sqrt(2)
S_MAX = (SQRT2 - 1) / (SQRT2 + 1) * mp.mpf("1.0001")
exp_tail: Fn = lambda r: (mp.expm1(r) - r) / r**2 if r else mp.mpf(1) / 2
exp_weight: Fn = lambda r: r**2 / mp.exp(r)
expm1_weight: Fn = lambda r: r**2 / abs(mp.expm1(r)) if r else mp.mpf(0)
log_tail: Fn = lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3 if f else mp.mpf(1) / 3
log_weight: Fn = lambda f: f**3 / mp.log1p(f) if f else mp.mpf(0)
TWO_OVER_ROOT_PI = 2 / mp.sqrt(mp.pi)
erf_tail: Fn = lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1
erf_weight: Fn = lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z))
ERFC_FAR = (mp.mpf(28) - 4) / (28 + 4)  # erfc(28) is below every float64
NORMAL_FAR_F32 = (15 - NORMAL_MIDDLE) / (15 + NORMAL_MIDDLE)
ERFC_FAR_F32 = (mp.mpf("10.5") - 4) / (mp.mpf("10.5") + 4)
tan_z = (mp.pi / 4 * mp.mpf("1.0001")) ** 2
cos_tail: Fn = lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2
cos_weight: Fn = lambda z: z**2 / mp.cos(mp.sqrt(z))
cbrt_near = lambda m: mp.cbrt(m)

FITS = [
    Fit(
        "EXP_F32",
        "exp(r) = 1 + r + r^2 p(r), |r| <= ln(2) / 2",
        exp_tail,
        -HALF_LN2,
        HALF_LN2,
        4,
        exp_weight,
        24,
    ),
    Fit(
        "EXP_F64",
        "exp(r) = 1 + r + r^2 p(r), |r| <= ln(2) / 2",
        exp_tail,
        -HALF_LN2,
        HALF_LN2,
        10,
        expm1_weight,
        53,
        2,
    ),
    Fit(
        "LOG_F32",
        "log(1 + f) = f - f^2 / 2 + f^3 p(f), 1 + f in [1 / sqrt(2), sqrt(2)]",
        log_tail,
        1 / SQRT2 - 1,
        SQRT2 - 1,
        8,
        log_weight,
        24,
    ),
    Fit(
        "LOG_F64",
        "log((1 + s) / (1 - s)) = 2 s + s^3 p(s^2), |s| <= 0.1716",
        odd_tail(_artanh2, 2),
        0,
        S_MAX**2,
        7,
        odd_weight(_artanh2),
    ),
    Fit(
        "LOG_TWICE",
        "log((1 + s) / (1 - s)) = 2 s + s^3 (2 / 3 + s^2 p(s^2)), |s| <= 0.1716",
        lambda z: (odd_tail(_artanh2, 2)(z) - mp.mpf(2) / 3) / z,
        0,
        S_MAX**2,
        8,
        lambda z: z**2,
    ),
    Fit(
        "SIN_F32",
        "sin(r) = r + r^3 p(r^2), |r| <= pi / 4",
        odd_tail(mp.sin),
        0,
        tan_z,
        2,
        odd_weight(mp.sin),
        24,
    ),
    Fit(
        "COS_F32",
        "cos(r) = 1 - r^2 / 2 + r^4 p(r^2), |r| <= pi / 4",
        cos_tail,
        0,
        tan_z,
        2,
        cos_weight,
        24,
    ),
    Fit(
        "SIN_F64",
        "sin(r) = r + r^3 p(r^2), |r| <= pi / 4",
        odd_tail(mp.sin),
        0,
        tan_z,
        5,
        odd_weight(mp.sin),
    ),
    Fit(
        "COS_F64",
        "cos(r) = 1 - r^2 / 2 + r^4 p(r^2), |r| <= pi / 4",
        cos_tail,
        0,
        tan_z,
        5,
        cos_weight,
    ),
    Fit(
        "TAN_F64",
        "tan(r) = r + r^3 p(r^2), |r| <= pi / 4",
        odd_tail(mp.tan),
        0,
        tan_z,
        14,
        odd_weight(mp.tan),
    ),
    Fit(
        "ATAN_F64",
        "atan(t) = t + t^3 p(t^2), |t| <= tan(pi / 8)",
        odd_tail(mp.atan),
        0,
        mp.mpf("0.1717"),
        11,
        odd_weight(mp.atan),
    ),
    Fit(
        "ATAN_COARSE",
        "the same in float64 for results in float32",
        odd_tail(mp.atan),
        0,
        mp.mpf("0.1717"),
        5,
        odd_weight(mp.atan),
    ),
    Fit(
        "ASIN_F64",
        "asin(s) = s + s^3 p(s^2), |s| <= 1 / 2",
        odd_tail(mp.asin),
        0,
        mp.mpf("0.2501"),
        12,
        odd_weight(mp.asin),
    ),
    Fit("ERF_F32", "erf(x) = x + x p(x^2), |x| <= 1", erf_tail, 0, 1, 6, erf_weight, 24),
    Fit("ERF_F64", "erf(x) = x + x p(x^2), |x| <= 1", erf_tail, 0, 1, 13, erf_weight),
    Fit(
        "ERFC_F32",
        "(1 + 2x) exp(x^2) erfc(x) = p(t), t = (x - 4) / (x + 4), 0 <= x <= 10.5",
        scaled_erfc,
        -1,
        ERFC_FAR_F32,
        10,
        lambda t: 1 / scaled_erfc(t),
        24,
        2,
    ),
    Fit(
        "ERFC_F64",
        "(1 + 2x) exp(x^2) erfc(x) = p(t), t = (x - 4) / (x + 4), 0 <= x <= 28",
        scaled_erfc,
        -1,
        ERFC_FAR,
        24,
        lambda t: 1 / scaled_erfc(t),
        53,
        2,
    ),
    Fit(
        "NORMAL_TAIL_F32",
        "exp(x^2 / 2) ndtr(-x) = w p(1 - w), w = 8.37109375 / (x + 4.185546875), 0 <= x <= 15",
        normal_tail,
        -1,
        NORMAL_FAR_F32,
        9,
        lambda t: 1 / normal_tail(t),
        24,
        2,
    ),
    Fit(
        "CBRT",
        "cbrt(m) = p(m), 1 <= m < 2, a first guess",
        cbrt_near,
        1,
        2,
        4,
        lambda m: 1 / mp.cbrt(m),
    ),
]

# Known numbers as sums of so many floats, each what the ones before it leave, rounded.
NUMBERS = {
    "LN2": (mp.log(2), 2, 53),
    "LN2_F32": (mp.log(2), 2, 24),
    "INV_LN2": (1 / mp.log(2), 2, 53),
    "INV_LN10": (1 / mp.log(10), 2, 53),
    "LOG10_2": (mp.log10(2), 2, 53),
    "PI": (mp.pi + 0, 3, 53),
    "PI_F32": (mp.pi + 0, 3, 24),
    "SQRT_HALF": (mp.sqrt(mp.mpf(1) / 2), 2, 53),
    "SQRT_2_PI": (mp.sqrt(2 / mp.pi), 2, 53),
    "GELU_CUBIC": (mp.mpf(0.044715), 2, 53),  # a float64 in the definition that the engine uses
    "TWO_THIRDS": (mp.mpf(2) / 3, 2, 53),
}
INVERSE_TURN_BITS = 1232  # of 1 / (2 pi), for arguments up to 2^1024


def inverse_turn() -> int:
    """2^INVERSE_TURN_BITS / (2 pi), rounded down."""
    with mp.workdps(500):
        return int(mp.floor(mp.mpf(2) ** INVERSE_TURN_BITS / (2 * mp.pi)))


HEAD = '''"""Constants, and minimax polynomials, lowest coefficient first.

Written by scripts/fit_polynomials.py: change that.

A constant is given as two or three floats: each is what the ones before it leave, rounded.
"""

# ruff: noqa: E501
# fmt: off
'''


def main(names: list[str]) -> None:
    """Fits all, or the named ones; writes the table if all were fitted."""
    text = HEAD + fitted(FITS, names)
    text += "\n# 1 / (2 pi), its first bits as an integer\n"
    text += f"INVERSE_TURN_BITS = {INVERSE_TURN_BITS}\nINVERSE_TURN = {inverse_turn():#x}\n\n"
    text += "".join(f"{name} = {tuple(parts(*what))!r}\n" for name, what in NUMBERS.items())
    if not names:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
