"""The functions of the loop language in C: operators, those of math.h, and helpers written out.

A helper's text has `REAL` for its type, which is part of its name where both floats use it. A `#`
after a function of math.h stands for the letter that its float version ends with.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from chainrule.compile.c import special

INFIX: Final = {
    "mul": ("*", 12), "div": ("/", 12), "add": ("+", 11), "sub": ("-", 11),
    "less": ("<", 9), "less_equal": ("<=", 9), "greater": (">", 9), "greater_equal": (">=", 9),
    "equal": ("==", 8), "not_equal": ("!=", 8), "logical_and": ("&&", 4), "logical_or": ("||", 3),
    "bitwise_and": ("&", 7), "bitwise_xor": ("^", 6), "bitwise_or": ("|", 5),
}  # fmt: skip
"""By function: its operator, and how tightly that binds."""
UNARY, PRIMARY, CHOICE = 13, 15, 2

LIBRARY: Final = {
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin",
    "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "atan2": "atan2", "hypot": "hypot",
    "cbrt": "cbrt", "copysign": "copysign", "nextafter": "nextafter", "erf": "erf", "erfc": "erfc",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "pow": "pow",
    "fmod": "fmod", "abs": "fabs",
}  # fmt: skip
"""By function of floats: that of math.h."""
TESTS: Final = {"isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite"}

_HELPERS: Final = {
    "maximum": "the larger one; NaN if one of them is"
    "|REAL a, REAL b|return a > b || a != a ? a : b;",
    "minimum": "the smaller one; NaN if one of them is"
    "|REAL a, REAL b|return a < b || a != a ? a : b;",
    "bits": "the bits that x is made of|REAL x"
    "|union { REAL x; WORD bits; } same = {x};\nreturn same.bits;",
    "relu": "x where it is positive, else 0|REAL x|return x > 0 || x != x ? x : 0;",
    "strong_mul": "g * d, and 0 wherever g is 0, whatever d is"
    "|REAL g, REAL d|return g == 0 ? 0 : g * d;",
    "sign": "-1, 0 or 1; NaN of NaN|REAL x|return x > 0 ? 1 : x < 0 ? -1 : x;",
    "exp_diff": "exp(a - b), and 0 where a is -infinity, whatever b is|REAL a, REAL b"
    "|return a == -INFINITY ? 0 : exp#(a - b);",
    "sigmoid": "1 / (1 + exp(-x)), without overflow|REAL x"
    "|REAL e = exp#(-fabs#(x));\nreturn x >= 0 ? 1 / (1 + e) : x < 0 ? e / (1 + e) : x;",
    "silu": "x * sigmoid(x)|REAL x|return x / (1 + exp#(-x));",
    "softplus": "log(1 + exp(x)), without overflow|REAL x"
    "|return x != x ? x : (x > 0 ? x : 0) + log1p#(exp#(-fabs#(x)));",
    "logaddexp": "log(exp(a) + exp(b)), without overflow|REAL a, REAL b"
    "|if (a == b) return a + LN_2;\nREAL d = a - b;\n"
    "return d > 0 ? a + log1p#(exp#(-d)) : d <= 0 ? b + log1p#(exp#(d)) : d;",
    "gelu_erf": "x times the probability that a normal number is below x|REAL x"
    "|return x * (HALF * erfc#(-x * ROOT_HALF));",
    "gelu_tanh": "the tanh form of GELU: x / (1 + exp(-v)), v a cubic of x|REAL x"
    "|double e = gate_decay#(x, 1);\nreturn x < 0 ? x * e / (1 + e) : x / (1 + e);",
    "gelu_gate": "what the tanh form of GELU multiplies x by|REAL x"
    "|double e = gate_decay#(x, 1);\nreturn x < 0 ? e / (1 + e) : 1 / (1 + e);",
    "exp_product": "exp(a * b); fma: what the product has lost, which exp would multiply"
    "|REAL a, REAL b|REAL p = a * b;\n"
    "return exp#(p) * (fabs#(p) < 1000 ? 1 + fma#(a, b, -p) : 1);",
    "sigmoid_diff": "1 / (1 + exp(b - a)), and 0 where a is -infinity|REAL a, REAL b"
    "|if (a == -INFINITY) return 0;\nREAL d = a - b, e = exp#(-fabs#(d));\n"
    "return d >= 0 ? 1 / (1 + e) : d < 0 ? e / (1 + e) : d;",
    "logistic_density": "the derivative of 1 / (1 + exp(-x))|REAL x"
    "|REAL e = exp#(-fabs#(x));\nreturn e / ((1 + e) * (1 + e));",
    "sech_square": "1 / cosh(x)^2, the derivative of tanh|REAL x"
    "|REAL e = exp#(-2 * fabs#(x));\nreturn 4 * e / ((1 + e) * (1 + e));",
    "sech": "1 / cosh(x), without overflow|REAL x"
    "|REAL e = exp#(-fabs#(x));\nreturn 2 * e / (1 + e * e);",
    "silu_slope": "the derivative of x / (1 + exp(-x))|REAL x"
    "|REAL a = fabs#(x), e = exp#(-a);\n"
    "REAL m = e == 0 ? 0 : (1 + e - a) / ((1 + e) * (1 + e)) * e;\nreturn x < 0 ? m : 1 - m;",
    "gelu_gate_slope": "the derivative of what the tanh form of GELU multiplies x by|REAL x"
    "|double e = gate_decay#(x, 1);\nif (e == 0) return 0;\n"
    "return e * (2 * ROOT_2_PI * (1 + 3 * CUBIC * x * x)) / ((1 + e) * (1 + e));",
    "gelu_gate_density": "2^17 e / (1 + e)^2, e = exp(-abs(v)), v as above|REAL x"
    "|double e = gate_decay#(x, 1);\nreturn e * 131072.0 / ((1 + e) * (1 + e));",
    "gelu_gate_tanh": "tanh(v / 2), v as above|REAL x"
    "|return tanh#(ROOT_2_PI * (x + CUBIC * x * x * x));",
    "gelu_tanh_slope": "the derivative of the tanh form of GELU|REAL x"
    "|double e = gate_decay#(x, 1), m = 0;\n"
    "if (e != 0) m = (1 + e - fabs#(x) * (2 * ROOT_2_PI * (1 + 3 * CUBIC * x * x)))\n"
    "    / ((1 + e) * (1 + e)) * e;\nreturn x < 0 ? m : 1 - m;",
    "gelu_erf_slope": "the derivative of GELU|REAL x"
    "|REAL p = exp#(-HALF * x * x);\n"
    "return HALF * erfc#(-x * ROOT_HALF) + (p == 0 ? 0 : x * p * (HALF * ROOT_2_PI));",
    "ndtr": "the probability that a normal number is below x|REAL x"
    "|return HALF * erfc#(-x * ROOT_HALF);",
    "entr_slope": "the derivative of -x * log(x)|REAL x|return -log#(x) - 1;",
    "remainder": "what is left of a / b, with the sign of b|REAL a, REAL b"
    "|REAL r = fmod#(a, b);\nif (b == 0 || r != r) return r;\n"
    "return r == 0 ? copysign#(0, b) : (r < 0) != (b < 0) ? r + b : r;",
    "floor_divide": "the largest whole number that is at most a / b|REAL a, REAL b"
    "|if (b == 0) return a / b;\nREAL r = fmod#(a, b), q = (a - r) / b;\n"
    "if (r != 0 && (r < 0) != (b < 0)) q -= 1;\n"
    "if (q == 0) return copysign#(0, a / b);\n"
    "return q - floor#(q) > HALF ? floor#(q) + 1 : floor#(q);",
    **special.TEXTS,
}  # fmt: skip
"""By function: what it is, its parameters and its body."""

_WHOLE: Final = {
    "maximum": "the larger one|REAL a, REAL b|return a > b ? a : b;",
    "minimum": "the smaller one|REAL a, REAL b|return a < b ? a : b;",
    "relu": "x where it is positive, else 0|REAL x|return x > 0 ? x : 0;",
    "strong_mul": _HELPERS["strong_mul"],
    "abs": "without its sign|REAL x|return x < 0 ? -x : x;",
    "sign": "-1, 0 or 1|REAL x|return (x > 0) - (x < 0);",
    "pow": "a to the power of b, which is not negative|REAL a, REAL b"
    "|REAL y = 1;\nfor (; b > 0; b /= 2) {\n    if (b % 2) y *= a;\n    a *= a;\n}\nreturn y;",
    "floor_divide": "a / b rounded down; 0 for a divisor of 0|REAL a, REAL b"
    "|if (b == 0) return 0;\nif (b + 1 == 0) return -a;\nREAL q = a / b;\n"
    "return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;",
    "remainder": "what is left of a / b, with the sign of b; 0 for a divisor of 0|REAL a, REAL b"
    "|if (b == 0 || b + 1 == 0) return 0;\nREAL r = a % b;\n"
    "return r != 0 && (r < 0) != (b < 0) ? r + b : r;",
    "bitwise_left_shift": "a * 2^n, 0 if all bits are gone|REAL a, REAL n"
    "|return n < 0 || n >= (REAL)(8 * sizeof a) ? 0 : (REAL)((uint64_t)a << n);",
    "bitwise_right_shift": "a / 2^n, rounded down|REAL a, REAL n"
    "|REAL last = 8 * sizeof a - 1;\nif (n >= 0 && n <= last) return a >> n;\n"
    "return a < 0 ? -1 : 0;",
}  # fmt: skip
"""The same for integers."""

_UNSIGNED: Final = _WHOLE | {
    "sign": "0 or 1|REAL x|return x > 0;",
    "floor_divide": "a / b; 0 for a divisor of 0|REAL a, REAL b|return b == 0 ? 0 : a / b;",
    "remainder": "what is left of a / b; 0 for a divisor of 0|REAL a, REAL b"
    "|return b == 0 ? 0 : a % b;",
    "bitwise_left_shift": "a * 2^n, 0 if all bits are gone|REAL a, REAL n"
    "|return n >= 8 * sizeof a ? 0 : (REAL)((uint64_t)a << n);",
    "bitwise_right_shift": "a / 2^n, rounded down|REAL a, REAL n"
    "|return n >= 8 * sizeof a ? 0 : a >> n;",
}  # fmt: skip
"""The same for integers that are never negative."""

INDEX: Final = "index_in"
_INDEX_TEXT = (
    "/* where i is along an axis of n: a negative one counts from the end, one outside is the\n"
    "   nearest */\n"
    "static inline int index_in(int64_t i, int n) {\n"
    "    if (i < 0) i += n;\n"
    "    return (int)(i < 0 ? 0 : i >= n ? n - 1 : i);\n"
    "}\n"
)

_MATMUL = """\
/* out (m, n) = a (m, k) @ b (k, n), added to what is there if `add`; of each matrix how far apart
   its rows and its columns are. Panels of b are copied to where they fit into the cache. */
static void matmul(int m, int n, int k, const REAL *a, int a_row, int a_col,
                   const REAL *b, int b_row, int b_col, REAL *out, int out_row, int out_col,
                   int add) {
    enum { DEPTH = 128, WIDTH = 256 };
    REAL panel[DEPTH][WIDTH], row[WIDTH];
    for (int j0 = 0; j0 < n; j0 += WIDTH) {
        const int w = n - j0 < WIDTH ? n - j0 : WIDTH;
        for (int k0 = 0; k0 < k; k0 += DEPTH) {
            const int d = k - k0 < DEPTH ? k - k0 : DEPTH;
            for (int l = 0; l < d; l++)
                for (int j = 0; j < w; j++)
                    panel[l][j] = b[(size_t)(k0 + l) * b_row + (size_t)(j0 + j) * b_col];
            for (int i = 0; i < m; i++) {
                REAL *c = out + (size_t)i * out_row + (size_t)j0 * out_col;
                const int fresh = k0 == 0 && !add;
                for (int j = 0; j < w; j++) row[j] = fresh ? 0 : c[(size_t)j * out_col];
                for (int l = 0; l < d; l++) {
                    const REAL x = a[(size_t)i * a_row + (size_t)(k0 + l) * a_col];
                    for (int j = 0; j < w; j++) row[j] += x * panel[l][j];
                }
                for (int j = 0; j < w; j++) c[(size_t)j * out_col] = row[j];
            }
        }
    }
}
"""

_CONSTANTS: Final = {
    "HALF": 0.5, "LN_2": np.log(2), "ROOT_HALF": np.sqrt(0.5), "ROOT_2_PI": np.sqrt(2 / np.pi),
    "CUBIC": 0.044715,
}  # fmt: skip


def type_of(dtype: Any) -> str:
    """C's type of numbers of `dtype`."""
    match dtype.kind:
        case "f":
            return "float" if dtype.itemsize == 4 else "double"
        case "b":
            return "bool"
        case _:
            return f"{'u' if dtype.kind == 'u' else ''}int{8 * dtype.itemsize}_t"


def literal(value: Any, dtype: Any) -> str:
    """The number `value` as C writes it."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind != "f":
        if dtype.itemsize < 8:
            return f"{value}" + ("u" if dtype.kind == "u" and dtype.itemsize == 4 else "")
        if dtype.kind == "u":
            return f"UINT64_C({value})"
        return str(value) if abs(value) < 2**31 else _long(value)
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    shortest = str(np.float32(value)) if dtype.itemsize == 4 else repr(float(value))
    return shortest + ("f" if dtype.itemsize == 4 else "")


def _long(value: int) -> str:
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"


def suffix(dtype: Any) -> str:
    """What the float version of a function of math.h ends with."""
    return "f" if dtype.kind == "f" and dtype.itemsize == 4 else ""


def has_helper(name: str, dtype: Any) -> bool:
    """Whether `name` is written out for numbers of `dtype`."""
    return name in _helpers(dtype)


def _helpers(dtype: Any) -> dict[str, str]:
    if dtype.kind == "f":
        return _HELPERS
    return _WHOLE if dtype.kind == "i" else _UNSIGNED


_RENAMED: Final = {"remainder": "modulo", "lgamma": "log_gamma"}
"""Helpers that are not what math.h calls by their name."""


def needs(name: str) -> tuple[str, ...]:
    """`name`, after the helpers that its text calls."""
    return (*special.below(name), name)


def helper_names() -> set[str]:
    """What helpers may be called."""
    words = [*_HELPERS, "matmul"]
    return {INDEX, *[helper_name(name, np.dtype(d)) for name in words for d in ("f4", "f8")]}


def helper_name(name: str, dtype: Any) -> str:
    """What the helper `name` for numbers of `dtype` is called: the float32 one as in math.h."""
    name = _RENAMED.get(name, name)
    if dtype.kind == "f":
        return name + suffix(dtype)
    return f"{name}_{dtype.kind}{8 * dtype.itemsize}"


def helper(name: str, dtype: Any) -> str:
    """The text of a helper."""
    if name == INDEX:
        return _INDEX_TEXT
    if name == "matmul":
        return _MATMUL.replace("matmul", helper_name(name, dtype)).replace("REAL", type_of(dtype))
    about, parameters, body = _helpers(dtype)[name].split("|", 2)
    real = type_of(dtype)
    body = re.sub("#", suffix(dtype), body)
    for word, value in _CONSTANTS.items():
        body = re.sub(rf"\b{word}\b", literal(float(value), dtype), body)
    lines = "".join([f"    {line}\n" for line in body.split("\n")])
    word = type_of(np.dtype(f"u{dtype.itemsize}"))
    result = word if name == "bits" else real
    head = f"static inline {result} {helper_name(name, dtype)}({parameters})"
    lines = re.sub(r"\bWORD\b", word, lines)
    text = f"/* {about} */\n{head} {{\n{lines}}}\n"
    return re.sub(r"\bREAL\b", real, text)
