"""Derives the constants of the special functions (`chainrule.compile.mathlib`, `chainrule.ops`).

    python scripts/fit_special.py             write special_coefficients.py, say how good each is
    python scripts/fit_special.py I0_NEAR ... only say how good these are

The method is in minimax.py. Each function is divided by what makes it steep, so that
what is left is a polynomial whose first coefficient is most of it: then rounding errors of the
others count little.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mpmath as mp
from minimax import Fit, fitted, parts

TARGET = Path(__file__).parent.parent / "chainrule/ops/values/special_coefficients.py"

mp.mp.dps = 60
ROOT_PI = mp.sqrt(mp.pi)
MIDDLE = mp.mpf("1.46875")  # where lgamma(x) / ((x - 1) (x - 2)) is nearly a float
DIGAMMA_ZERO = mp.findroot(mp.digamma, (mp.mpf("1.4"), mp.mpf("1.5")), solver="anderson")


def moved(t: Any, c: Any) -> Any:
    """The x of t = (x - c) / (x + c)."""
    return c * (1 + t) / (1 - t)


def place(x: Any, c: Any) -> Any:
    """The t of that x."""
    return (mp.mpf(x) - c) / (mp.mpf(x) + c)


def erfinv(y: Any) -> Any:
    """The x whose erf it is, 0 < y < 1."""
    return mp.erfinv(y)


def inverse_tail(s: Any) -> Any:
    """x / t where erfc(x) = exp(-t^2) and s = (t - 2) / (t + 2)."""
    t = moved(s, mp.mpf(2))
    x = t if t > 2 else mp.erfinv(1 - mp.exp(-t * t))
    for _ in range(60):  # Newton's method on log erfc, which is nearly a parabola
        step = (mp.log(mp.erfc(x)) + t * t) * mp.erfc(x) * ROOT_PI / 2 * mp.exp(x * x)
        x += step
        if abs(step) < mp.mpf(10) ** -50:
            break
    return x / t


def lgamma_near(t: Any) -> Any:
    """lgamma(x) / ((x - 1) (x - 2)) where t = (x - 1.46875) / (x + 1.46875)."""
    x = moved(t, MIDDLE)
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def lgamma_far(z: Any) -> Any:
    """What Stirling's formula leaves of lgamma(x), times x, at z = 1 / x^2. DLMF 5.11.1."""
    x = 1 / mp.sqrt(z)
    return (mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def digamma_near(t: Any) -> Any:
    """digamma(x) / (x - its zero) where t = (x - 1.75) / (x + 1.75)."""
    x = moved(t, mp.mpf("1.75"))
    return mp.digamma(x) / (x - DIGAMMA_ZERO)


def digamma_far(z: Any) -> Any:
    """(log(x) - 1 / (2 x) - digamma(x)) x^2 at z = 1 / x^2. DLMF 5.11.2."""
    x = 1 / mp.sqrt(z)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / z


def bessel_near(n: int) -> Fit:
    """f - 1 = z p(z) where I_n(x) = (x / 2)^n f / n!, and z = x^2 / 4. DLMF 10.25.2."""
    return Fit(
        f"I{n}_NEAR",
        f"I{n}(x) = (x / 2)^{n} (1 + z p(z)) / {n}!, z = x^2 / 4, |x| <= 8",
        lambda z: (mp.hyp0f1(n + 1, z) - 1) / z,
        0,
        16,
        14,
        lambda z: z / mp.hyp0f1(n + 1, z),
        rounded=6,
    )


def bessel_far(n: int) -> Fit:
    """f - 1 = u p(s) where I_n(x) = exp(x) f / sqrt(2 pi x), s = 16 u - 1. DLMF 10.40.1."""

    def g(s: Any) -> Any:
        with mp.workdps(90):
            u = (1 + s) / 16
            return (mp.sqrt(2 * mp.pi / u) * mp.exp(-1 / u) * mp.besseli(n, 1 / u) - 1) / u

    return Fit(
        f"I{n}_FAR",
        f"I{n}(x) = exp(x) (1 + u p(16 u - 1)) / sqrt(2 pi x), u = 1 / x, x >= 8",
        g,
        -1,
        1,
        23,
        lambda s: (1 + s) / 16,
        rounded=0,
    )


def erfcx_far(u: Any) -> Any:
    """(f - 1) / u where erfcx(x) = f / (x sqrt(pi)) and u = 1 / x^2. DLMF 7.12.1."""
    x = 1 / mp.sqrt(u)
    with mp.workdps(90):
        return (mp.exp(x * x) * mp.erfc(x) * x * ROOT_PI - 1) / u


FITS = [
    Fit(
        "ERFINV_NEAR",
        "erfinv(y) = y + y p(y^2), |y| <= 1 / 2",
        lambda z: erfinv(mp.sqrt(z)) / mp.sqrt(z) - 1,
        0,
        mp.mpf("0.25"),
        13,
        lambda z: mp.sqrt(z) / erfinv(mp.sqrt(z)),
    ),
    Fit(
        "ERFC_INVERSE",
        "x = t p(s), s = (t - 2) / (t + 2), where erfc(x) = exp(-t^2) >= 2^-1075, a first guess",
        inverse_tail,
        place(mp.sqrt(mp.log(2)), 2),
        place(mp.sqrt(1075 * mp.log(2)), 2),
        13,
        lambda s: 1 / inverse_tail(s),
        rounded=0,
    ),
    Fit(
        "ERFCX_FAR",
        "erfcx(x) = (1 + u p(u)) / (x sqrt(pi)), u = 1 / x^2, x >= 28",
        erfcx_far,
        0,
        mp.mpf(1) / 784,
        4,
        lambda u: u,
    ),
    *[bessel_near(n) for n in range(3)],
    *[bessel_far(n) for n in range(3)],
    Fit(
        "LGAMMA_NEAR",
        "lgamma(x) = (x - 1) (x - 2) p(t), t = (x - 1.46875) / (x + 1.46875), 0.75 <= x <= 3",
        lgamma_near,
        place("0.75", MIDDLE),
        place(3, MIDDLE),
        21,
        lambda t: 1 / lgamma_near(t),
        rounded=0,
    ),
    Fit(
        "LGAMMA_FAR",
        "lgamma(x) = (x - 1/2) log(x) - x + log(2 pi) / 2 + p(1 / x^2) / x, x >= 3",
        lgamma_far,
        0,
        mp.mpf(1) / 9,
        10,
        lambda z: mp.sqrt(z) / mp.loggamma(1 / mp.sqrt(z)),
    ),
    Fit(
        "DIGAMMA_NEAR",
        "digamma(x) = (x - its zero) p(t), t = (x - 1.75) / (x + 1.75), 1 <= x <= 3",
        digamma_near,
        place(1, mp.mpf("1.75")),
        place(3, mp.mpf("1.75")),
        20,
        lambda t: 1 / digamma_near(t),
        rounded=0,
    ),
    Fit(
        "DIGAMMA_FAR",
        "digamma(x) = log(x) - 1 / (2 x) - p(1 / x^2) / x^2, x >= 3",
        digamma_far,
        0,
        mp.mpf(1) / 9,
        11,
        lambda z: z / mp.digamma(1 / mp.sqrt(z)),
    ),
]

# As in fit_polynomials.py: a number, as how many floats, of how many bits.
NUMBERS = {
    "HALF_ROOT_PI": (ROOT_PI / 2, 2, 53),
    "INV_ROOT_PI": (1 / ROOT_PI, 2, 53),
    "INV_ROOT_2_PI": (1 / mp.sqrt(2 * mp.pi), 2, 53),
    "ROOT_2": (mp.sqrt(2), 2, 53),
    "LOG_PI": (mp.log(mp.pi), 2, 53),
    "STIRLING": (mp.log(2 * mp.pi) / 2 - mp.mpf(1) / 2, 2, 53),
    "DIGAMMA_ZERO": (DIGAMMA_ZERO, 2, 53),
}

HEAD = '''"""Constants and minimax polynomials of the special functions, lowest coefficient first.

Written by scripts/fit_special.py: change that.

A constant is given as two floats: the second is what the first leaves, rounded.
"""

# ruff: noqa: E501
# fmt: off
'''


def main(names: list[str]) -> None:
    """Fits all, or the named ones; writes the table if all were fitted."""
    text = HEAD + fitted(FITS, names) + "\n"
    text += "".join(f"{name} = {tuple(parts(*what))!r}\n" for name, what in NUMBERS.items())
    if not names:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
