"""The functions of the loop language: what every target has to have code for.

Programs are simplified by them before anything is compiled, so that their names stand here, where
nothing has to be imported for them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from chainrule.engine.dtypes import NARROW

BASIC: Final = frozenset({
    "add", "sub", "mul", "div", "neg", "positive", "square", "reciprocal", "conj", "strong_mul",
    "pow", "sqrt", "abs", "sign", "relu", "floor", "ceil", "trunc", "round", "maximum", "minimum",
    "at_least", "at_most", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "isnan", "isinf",
    "isfinite", "signbit", "bits", "floor_divide", "remainder",
})  # fmt: skip
"""Those that are a few instructions."""
MATHEMATICS: Final = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh",
    "digamma", "entr_slope", "erf", "erfc", "erfcx", "erfinv", "exp", "exp2", "exp_diff",
    "exp_product", "expm1", "floor_divide", "fmod", "gelu_erf", "gelu_erf_slope", "gelu_gate",
    "gelu_gate_density", "gelu_gate_slope", "gelu_gate_tanh", "gelu_tanh", "gelu_tanh_slope",
    "hypot", "i0", "i0e",
    "i1", "i1e", "iv2", "ive2", "lgamma", "log", "log10", "log1p", "log2", "log_ndtr",
    "logaddexp", "logistic_density", "ndtr", "ndtri", "nextafter", "polygamma1", "polygamma2",
    "polygamma3", "polygamma4", "pow", "remainder", "round", "sech", "sech_square", "sigmoid",
    "sigmoid_diff", "sign", "silu", "silu_slope", "sin", "sinh", "softplus", "spherical_jn0",
    "spherical_jn1", "spherical_jn2", "spherical_jn3", "spherical_jn4", "tan", "tanh",
})  # fmt: skip
"""Those that `mathlib` writes out, of floats alone."""
COMPARISONS: Final = frozenset({
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
})  # fmt: skip
TRUTHS: Final = COMPARISONS | {
    "logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite",
    "signbit",
}  # fmt: skip
"""Those whose value is a bool."""
FLOATS_ONLY: Final = frozenset({"pow", "sqrt", "reciprocal"})
"""Those of `BASIC` that integers do not have."""


def is_function(name: str, dtype: Any) -> bool:
    """Whether `name` is a function of the language for arguments of `dtype`. float16 and bfloat16
    are only moved and cast."""
    if dtype.char in NARROW:
        return False
    if name in BASIC:
        return dtype.kind == "f" or name not in FLOATS_ONLY
    return dtype.kind == "f" and name in MATHEMATICS


def value_dtype(name: str, *args: Any) -> Any:
    """The dtype of a function's value, for arguments of these dtypes; `cast` may have any."""
    if name in TRUTHS:
        return np.dtype(bool)
    if name == "bits":
        return np.dtype(f"u{args[0].itemsize}")
    return args[1 if name == "where" else 0]


def identity(fold: str, dtype: Any) -> Any:
    """The number that changes nothing when it is folded in."""
    if fold in ("maximum", "minimum"):
        if dtype.kind == "f":
            return float("-inf") if fold == "maximum" else float("inf")
        if dtype.kind == "b":
            return fold == "minimum"
        info = np.iinfo(dtype)
        return int(info.min if fold == "maximum" else info.max)
    return {"add": 0, "mul": 1, "logical_or": False, "logical_and": True}[fold]
