"""What each public row of the op table computes, in a sentence or two: its docstring.

Arguments are called as in the table: `x` of one; `a b`, or the letters of the literature, of
several. Conventions at kinks and edges are those of docs/conventions.md.
Sources: A&S is Abramowitz & Stegun, Handbook of Mathematical Functions; DLMF is dlmf.nist.gov.
"""

from __future__ import annotations

_SHAPES = "Arguments broadcast. Shapes: [(...)] -> (...)."

DESCRIPTIONS = {
    # arithmetic
    "add": "a + b.",
    "sub": "a - b.",
    "mul": "a * b.",
    "div": "a / b; infinite or NaN where b is 0. Integers and bools give floats.",
    "pow": "a to the power b; 1 where b is 0. NaN for a negative a and a broken b.",
    "neg": "-x.",
    "positive": "x, as it is.",
    "reciprocal": "1 / x, in the dtype of x: of integers the integer part.",
    "square": "x * x.",
    "floor_divide": "The largest integer that is at most a / b. The derivatives are 0.",
    "remainder": "a - b floor(a / b), as Python's %: it has the sign of b. See `fmod`.",
    "fmod": "a - b trunc(a / b), as C's fmod: it has the sign of a. See `remainder`.",
    # roots, exponentials, logarithms
    "sqrt": "The square root; NaN below 0. The slope at 0 is infinite.",
    "rsqrt": "1 / sqrt(x), rounded once; infinite at 0, NaN below.",
    "cbrt": "The real cube root, also of negative numbers. The slope at 0 is infinite.",
    "exp": "e to the power x.",
    "exp2": "2 to the power x.",
    "expm1": "exp(x) - 1, without cancellation near 0.",
    "log": "The natural logarithm; -inf at 0, NaN below.",
    "log2": "The logarithm to base 2; -inf at 0, NaN below.",
    "log10": "The logarithm to base 10; -inf at 0, NaN below.",
    "log1p": "log(1 + x), without cancellation near 0; NaN below -1.",
    "logaddexp": "log(exp(a) + exp(b)), without overflow.",
    "logit": "log(x / (1 - x)), the inverse of `sigmoid`; NaN outside of [0, 1].",
    "entr": "-x log(x), a term of an entropy; 0 at 0, -inf below.",
    "xlogy": "a log(b); 0 where a is 0, unless b is NaN.",
    "xlog1py": "a log(1 + b); 0 where a is 0, unless b is NaN.",
    # trigonometric and hyperbolic
    "sin": "The sine of x in radians.",
    "cos": "The cosine of x in radians.",
    "tan": "The tangent of x in radians.",
    "asin": "The angle in [-pi/2, pi/2] whose sine is x; NaN where |x| > 1.",
    "acos": "The angle in [0, pi] whose cosine is x; NaN where |x| > 1.",
    "atan": "The angle in (-pi/2, pi/2) whose tangent is x.",
    "atan2": (
        "The angle in [-pi, pi] of the point with abscissa b and ordinate a. The slopes at the\n"
        "origin are 0."
    ),
    "sinh": "The hyperbolic sine, (exp(x) - exp(-x)) / 2.",
    "cosh": "The hyperbolic cosine, (exp(x) + exp(-x)) / 2.",
    "tanh": "The hyperbolic tangent, sinh(x) / cosh(x).",
    "asinh": "The inverse of `sinh`.",
    "acosh": "The inverse of `cosh`, at least 0; NaN below 1.",
    "atanh": "The inverse of `tanh`; NaN where |x| > 1.",
    "hypot": "sqrt(a^2 + b^2), without overflow on the way. The slopes at the origin are 0.",
    # steps and kinks
    "abs": "The absolute value; of complex numbers a real one. The slope at 0 is 0.",
    "floor": "The largest integer that is at most x, in the dtype of x. The derivative is 0.",
    "ceil": "The smallest integer that is at least x, in the dtype of x. The derivative is 0.",
    "trunc": "x without its fraction, in the dtype of x. The derivative is 0.",
    "maximum": "The larger of a and b; NaN if either is. Where they are equal, each has slope 1/2.",
    "minimum": (
        "The smaller of a and b; NaN if either is. Where they are equal, each has slope 1/2."
    ),
    "fmax": "The larger of a and b; the other one if one is NaN. See `maximum`.",
    "fmin": "The smaller of a and b; the other one if one is NaN. See `minimum`.",
    "at_least": "The larger of a and b, as `maximum`; where they are equal, a has slope 1 and b 0.",
    "at_most": "The smaller of a and b, as `minimum`; where they are equal, a has slope 1 and b 0.",
    "copysign": "The size of a with the sign of b, which -0.0 has, too.",
    "nextafter": "The float next to a in the direction of b. The slope by a is 1, by b 0.",
    # deep learning
    "relu": "max(x, 0). The slope at 0 is 0.",
    "sigmoid": "1 / (1 + exp(-x)), without overflow.",
    "mish": "x tanh(softplus(x)). Misra 2019, arXiv:1908.08681.",
    "softsign": "x / (1 + |x|).",
    "tanhshrink": "x - tanh(x), without cancellation near 0.",
    "softplus": "log(1 + exp(x)), without overflow.",
    "gelu_erf": (
        "x times the normal distribution function at x. Hendrycks & Gimpel 2016,\narXiv:1606.08415."
    ),
    "gelu_tanh": (
        "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which approximates `gelu_erf`.\n"
        "Hendrycks & Gimpel 2016, arXiv:1606.08415."
    ),
    # the error function and the normal distribution
    "erf": (
        "The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x. A&S\n7.1.1."
    ),
    "erfc": "1 - erf(x), without cancellation. A&S 7.1.2.",
    "erfcx": "exp(x^2) erfc(x), without underflow. DLMF 7.2.",
    "erfinv": "The inverse of `erf`; infinite at -1 and 1, NaN beyond.",
    "ndtr": "The distribution function of the standard normal distribution.",
    "ndtri": "The quantile of the standard normal distribution, the inverse of `ndtr`.",
    "log_ndtr": "log(ndtr(x)), without underflow.",
    # the gamma function and what belongs to it
    "lgamma": "log(|gamma(x)|); infinite at 0, -1, -2, ... A&S 6.1.",
    "digamma": "The derivative of log(gamma(x)). A&S 6.3.1.",
    "polygamma": (
        "polygamma(n, x): the derivative of order n of `digamma`; n is a whole number, and has\n"
        "no derivative. A&S 6.4.1."
    ),
    "gammainc": (
        "gammainc(a, x): the regularized lower incomplete gamma function, from 0 to 1 for x\n"
        "from 0 on. There is no derivative by a: `GradientError`. DLMF 8.2.4."
    ),
    "gammaincc": (
        "gammaincc(a, x): 1 - gammainc(a, x), without cancellation. There is no derivative by\n"
        "a: `GradientError`. DLMF 8.2.4."
    ),
    "betainc": (
        "betainc(a, b, x): the regularized incomplete beta function, from 0 to 1 for x in [0,\n"
        "1]. There is no derivative by a or b: `GradientError`. DLMF 8.17.2."
    ),
    "betaincc": (
        "betaincc(a, b, x): 1 - betainc(a, b, x), without cancellation. There is no derivative\n"
        "by a or b: `GradientError`. DLMF 8.17.2."
    ),
    "zeta": (
        "zeta(s, q): Hurwitz's zeta function, the sum of (q + k)^-s over k = 0, 1, ... There is\n"
        "no derivative by s: `GradientError`. DLMF 25.11.1."
    ),
    # Bessel functions
    "j0": "The Bessel function of the first kind, of order 0. A&S 9.1.",
    "j1": "The Bessel function of the first kind, of order 1. A&S 9.1.",
    "y0": "The Bessel function of the second kind, of order 0; -inf at 0, NaN below. A&S 9.1.",
    "y1": "The Bessel function of the second kind, of order 1; -inf at 0, NaN below. A&S 9.1.",
    "i0": "The modified Bessel function of the first kind, of order 0. A&S 9.6.",
    "i0e": "exp(-|x|) i0(x), without overflow.",
    "i1": "The modified Bessel function of the first kind, of order 1. A&S 9.6.",
    "i1e": "exp(-|x|) i1(x), without overflow.",
    "k0": "The modified Bessel function of the second kind, of order 0; infinite at 0. A&S 9.6.",
    "k0e": "exp(x) k0(x), without underflow.",
    "k1": "The modified Bessel function of the second kind, of order 1; infinite at 0. A&S 9.6.",
    "k1e": "exp(x) k1(x), without underflow.",
    "jv": (
        "jv(v, x): the Bessel function of the first kind, of the real order v. There is no\n"
        "derivative by v: `GradientError`. A&S 9.1."
    ),
    "yv": (
        "yv(v, x): the Bessel function of the second kind, of the real order v. There is no\n"
        "derivative by v: `GradientError`. A&S 9.1."
    ),
    "iv": (
        "iv(v, x): the modified Bessel function of the first kind, of the real order v. There\n"
        "is no derivative by v: `GradientError`. A&S 9.6."
    ),
    "ive": (
        "ive(v, x): exp(-|x|) iv(v, x), without overflow. There is no derivative by v:\n"
        "`GradientError`."
    ),
    "kv": (
        "kv(v, x): the modified Bessel function of the second kind, of the real order v. There\n"
        "is no derivative by v: `GradientError`. A&S 9.6."
    ),
    "kve": (
        "kve(v, x): exp(x) kv(v, x), without underflow. There is no derivative by v:\n"
        "`GradientError`."
    ),
    "spherical_jn": (
        "spherical_jn(n, x): sqrt(pi / (2 x)) times jv(n + 1/2, x); n is a whole number, and\n"
        "has no derivative. A&S 10.1.1."
    ),
    "airy_ai": "The Airy function Ai, the solution of y'' = x y that falls off. A&S 10.4.2.",
    # comparisons, logic, bits
    "equal": "Whether a is b, as bools; NaN equals nothing.",
    "not_equal": "Whether a is not b, as bools; NaN differs from everything.",
    "less": "Whether a < b, as bools; false with NaN.",
    "less_equal": "Whether a <= b, as bools; false with NaN.",
    "greater": "Whether a > b, as bools; false with NaN.",
    "greater_equal": "Whether a >= b, as bools; false with NaN.",
    "logical_and": "Whether neither a nor b is 0, as bools.",
    "logical_or": "Whether a, b or both are other than 0, as bools.",
    "logical_xor": "Whether just one of a and b is 0, as bools.",
    "logical_not": "Whether x is 0, as bools.",
    "bitwise_and": "The bits that a and b both have, of integers or bools.",
    "bitwise_or": "The bits that a, b or both have, of integers or bools.",
    "bitwise_xor": "The bits that just one of a and b has, of integers or bools.",
    "bitwise_invert": "All bits the other way, of integers or bools: -x - 1 of a signed integer.",
    "bitwise_left_shift": "The bits of a moved up by b places, of integers: a 2^b.",
    "bitwise_right_shift": "The bits of a moved down by b places, of integers: floor(a / 2^b).",
    "isnan": "Whether x is NaN, as bools.",
    "isinf": "Whether x is inf or -inf, as bools.",
    "isfinite": "Whether x is neither infinite nor NaN, as bools.",
    "signbit": "Whether the sign of x is minus, as bools: so it is of -0.0.",
}
"""By the label of the row."""


def description(label: str) -> str | None:
    """The docstring of a row; None for one that is not public."""
    text = DESCRIPTIONS.get(label)
    return None if text is None else f"{text}\n\n{_SHAPES}"
