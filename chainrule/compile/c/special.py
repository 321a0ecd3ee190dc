"""Special functions in C, short enough to be read: series, recurrences, Newton's method.

They compute in double, whatever `REAL` is, and so are right to about 15 digits, or to those of a
float. Formulas: NIST Digital Library of Mathematical Functions (dlmf.nist.gov). The texts have the
form of `functions.py`: what it is, its parameters, its body.
"""

from __future__ import annotations

import math
from typing import Final

from chainrule.compile.mathlib.special import spherical
from chainrule.compile.mathlib.special.gamma import ORDERS, border, cotangent, series


def _horner(coefficients: list[str], x: str) -> str:
    """c[0] + x (c[1] + x (c[2] + ...)) in C."""
    *rest, text = coefficients
    for c in reversed(rest):
        text = f"{c} + {x} * ({text})"
    return text


def _polygamma(n: int) -> str:
    """The text of the derivative of digamma of order `n`."""
    slope = _horner([f"{float(c)}" for c in cotangent(n)], "c")
    tail = _horner([repr(c) for c in series(n)], "u")
    sign = 1 - 2 * (n % 2 == 0)
    return (
        f"the derivative of order {n} of digamma: shifted beyond {border(n):g}, where its series\n"
        "   serves (DLMF 5.15.8); on the left by the derivative of the cotangent (5.15.6)|REAL x"
        f"|double y = -0.0, z = x, sign = {sign}; /* -0: adding it changes nothing */\n"
        "if (z <= 0 && z == floor(z)) return sign * INFINITY;\n"
        "if (z < 0) {\n"
        "    const double c = cotangent#(z);\n"
        f"    y = -{math.pi ** (n + 1)!r}\n        * ({slope});\n"
        "    z = 1 - z;\n    sign = -1;\n}\n"
        "double sum = 0;\n"
        f"for (; z < {border(n):g}; z++) sum += {math.factorial(n)} / pow(z, {n + 1});\n"
        "const double u = 1 / (z * z);\n"
        f"const double tail = 1 + {n / 2} / z\n    + u * ({_wrap_sum(tail)});\n"
        f"return y + sign * (sum + {math.factorial(n - 1)} / pow(z, {n}) * tail);"
    )


def _wrap_sum(text: str, width: int = 78) -> str:
    """The text on lines of at most about that width, broken before a `+`."""
    lines = [""]
    for part in text.split(" + "):
        if len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += (" + " if lines[-1] or len(lines) > 1 else "") + part
    return "\n       ".join(lines)


def _bessel(n: int, scaled: bool) -> str:
    what = f"the modified Bessel function I_{n}" + (" times exp(-abs(x))" if scaled else "")
    odd = "(x < 0 ? -1 : 1) * " if n == 1 else ""
    if scaled:
        return f"{what}|REAL x|return {odd}bessel_scaled#({n}, x);"
    return (
        f"{what}|REAL x|const double e = exp(fabs((double)x) / 2); /* its square can overflow */\n"
        f"return {odd}e * bessel_scaled#({n}, x) * e;"
    )


def _spherical(n: int) -> str:
    return f"the spherical Bessel function j_{n}|REAL x|return spherical#({n}, x);"


TEXTS: Final = {
    "gate_decay": "exp(-rate * abs(v)), v the exponent of GELU's tanh form, s (x + c x^3);\n"
    "   fma: what its products have lost, which exp would multiply|double x, double rate"
    "|const double s = 1.5957691216057308, c = 0.044715, z = x * x;\n"
    "const double w = 1 + c * z, p = s * x, v = p * w;\n"
    "if (fabs(v) > 1000) return 0;\n"
    "const double w_lost = fma(c, z, 1 - w) + c * fma(x, x, -z);\n"
    "const double p_lost = fma(s, x, -p) - 9.96930880911092e-17 * x;\n"
    "const double lost = fma(p, w, -v) + p * w_lost + p_lost * w;\n"
    "const double e = exp(-rate * fabs(v));\n"
    "return e - e * rate * (v < 0 ? -lost : lost);",
    "cotangent": "the cotangent of pi x, which is no whole number|double x"
    "|const double r = x - rint(x);\n"
    "if (fabs(r) <= 0.25) return 1 / tan(3.141592653589793 * r);\n"
    "return tan(3.141592653589793 * (copysign(0.5, r) - r));",
    "lgamma": "the logarithm of the size of gamma(x); at -infinity that|REAL x"
    "|return x == -INFINITY ? x : lgamma#(x);",
    "digamma": "the derivative of log(gamma(x)): shifted beyond 10, where its series serves\n"
    "   (DLMF 5.11.2); on the left by reflection (5.5.4)|REAL x"
    "|double y = 0, z = x;\n"
    "if (x == 0) return -1 / x;\n"
    "if (z < 0) {\n"
    "    if (z == floor(z)) return NAN;\n"
    "    y = -3.141592653589793 * cotangent#(z);\n"
    "    z = 1 - z;\n}\n"
    "for (; z < 10; z++) y -= 1 / z;\n"
    "const double u = 1 / (z * z);\n"
    "const double tail = 1 / 12. - u * (1 / 120. - u * (1 / 252. - u * (1 / 240.\n"
    "    - u * (1 / 132. - u * (691 / 32760. - u / 12)))));\n"
    "return y + (log(z) - 0.5 / z - u * tail);",
    **{f"polygamma{n}": _polygamma(n) for n in ORDERS},
    "erfcx": "exp(x * x) * erfc(x) without overflow: a continued fraction from 4 on (DLMF 7.9.1)"
    "|REAL x|const double z = x;\n"
    "if (z < -27) return INFINITY;\n"
    "if (z < 4) {\n"
    "    const double s = z * z; /* fma: the rest of the square, which exp multiplies */\n"
    "    return exp(s) * (1 + fma(z, z, -s)) * erfc(z);\n}\n"
    "double below = z;\n"
    "for (int k = 20; k > 0; k--) below = z + k / (2 * below);\n"
    "return 0.5641895835477563 / below;",
    "log_ndtr": "the logarithm of the probability that a normal number is below x|REAL x"
    "|const double z = x;\n"
    "if (z < -1) return log(erfcx#(-z * 0.7071067811865476) / 2) - z * z / 2;\n"
    "return log1p(-erfc(z * 0.7071067811865476) / 2);",
    "erfc_inverse": "the x > 0 whose erfc is q <= 1/2, by Newton's method on log(erfc(x))|REAL q"
    "|double x = sqrt(-log(q));\n"
    "for (int k = 0; k < 8; k++) {\n"
    "    const double e = erfcx#(x);\n"
    "    x += (log(e) - x * x - log(q)) * e * 0.886226925452758;\n}\n"
    "return x;",
    "erfinv": "the x whose erf is y, by Newton's method|REAL y"
    "|const double a = fabs((double)y);\n"
    "if (!(a < 1)) return a == 1 ? y * INFINITY : NAN;\n"
    "double x = a * 0.886226925452758;\n"
    "if (a > 0.5) x = erfc_inverse#(1 - a);\n"
    "else for (int k = 0; k < 5; k++) x -= (erf(x) - a) * exp(x * x) * 0.886226925452758;\n"
    "return y < 0 ? -x : x;",
    "ndtri": "the x below which a normal number is with probability p|REAL p"
    "|if (!(p >= 0 && p <= 1)) return NAN;\n"
    "const double q = p < 0.5 ? p : 1 - p;\n"
    "if (q == 0) return p > 0 ? INFINITY : -INFINITY;\n"
    "const double x = q < 0.25 ? erfc_inverse#(2 * q) : erfinv#(1 - 2 * q);\n"
    "return (p < 0.5 ? -x : x) * 1.4142135623730951;",
    "bessel_scaled": "the modified Bessel function I_n(x) times exp(-abs(x)): its series to 30,\n"
    "   the asymptotic one beyond (DLMF 10.25.2, 10.40.1)|int n, REAL x"
    "|const double a = fabs((double)x);\n"
    "double term = 1, sum = 1;\n"
    "if (a < 30) {\n"
    "    for (int k = 1; k <= n; k++) term *= a / (2 * k);\n"
    "    sum = term;\n"
    "    for (int k = 1; term > 1e-17 * sum; k++) sum += term *= a * a / (4. * k * (k + n));\n"
    "    return exp(-a) * sum;\n}\n"
    "for (int k = 1; fabs(term) > 1e-17; k++)\n"
    "    sum += term *= ((2. * k - 1) * (2 * k - 1) - 4 * n * n) / (8 * k * a);\n"
    "return sum / sqrt(6.283185307179586 * a);",
    "spherical": "the spherical Bessel function j_n(x): its series, or from n + 1/2 on the\n"
    "   recurrence from cosine and sine upwards (DLMF 10.53.1, 10.51.1)|int n, REAL x"
    "|const double a = fabs((double)x), sign = x < 0 && n % 2 ? -1 : 1;\n"
    "if (a == INFINITY) return sign * 0;\n"
    "if (a < n + 0.5) {\n"
    "    double term = sign;\n"
    "    for (int k = 1; k <= n; k++) term *= a / (2 * k + 1);\n"
    "    double sum = term;\n"
    "    for (int k = 1; fabs(term) > 1e-17 * fabs(sum); k++)\n"
    "        sum += term *= -a * a / (2. * k * (2 * (n + k) + 1));\n"
    "    return sum;\n}\n"
    "double below = cos(a), y = sin(a);\n"
    "for (int k = 0; k < n; k++) {\n"
    "    const double next = (2 * k + 1) / a * y - below;\n"
    "    below = y;\n    y = next;\n}\n"
    "return sign * y / a;",
    **{f"spherical_jn{n}": _spherical(n) for n in spherical.ORDERS},
    "i0": _bessel(0, scaled=False), "i0e": _bessel(0, scaled=True),
    "i1": _bessel(1, scaled=False), "i1e": _bessel(1, scaled=True),
    "iv2": _bessel(2, scaled=False), "ive2": _bessel(2, scaled=True),
}  # fmt: skip

_BELOW: Final = {
    **dict.fromkeys(
        ["gelu_tanh", "gelu_gate", "gelu_gate_slope", "gelu_gate_density", "gelu_tanh_slope"],
        ("gate_decay",),
    ),
    **dict.fromkeys(["digamma", *[f"polygamma{n}" for n in ORDERS]], ("cotangent",)),
    "log_ndtr": ("erfcx",),
    "erfc_inverse": ("erfcx",),
    "erfinv": ("erfcx", "erfc_inverse"),
    "ndtri": ("erfcx", "erfc_inverse", "erfinv"),
    **dict.fromkeys(["i0", "i0e", "i1", "i1e", "iv2", "ive2"], ("bessel_scaled",)),
    **dict.fromkeys([f"spherical_jn{n}" for n in spherical.ORDERS], ("spherical",)),
}


def below(name: str) -> tuple[str, ...]:
    """The helpers that the text of `name` calls, in the order in which they are written."""
    return _BELOW.get(name, ())
