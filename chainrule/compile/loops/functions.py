"""The functions of the loop language: what every target has to have code for.

Those of `BASIC` are a few instructions; all others are those of `mathlib`, of floats alone.
"""

from __future__ import annotations

from typing import Any, Final

from chainrule.dtypes import NARROW

BASIC: Final = frozenset({
    "add", "sub", "mul", "div", "neg", "positive", "square", "reciprocal", "conj", "strong_mul",
    "pow", "sqrt", "abs", "sign", "relu", "floor", "ceil", "trunc", "round", "maximum", "minimum",
    "at_least", "at_most", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "isnan", "isinf",
    "isfinite", "signbit", "bits", "floor_divide", "remainder",
})  # fmt: skip
FLOATS_ONLY: Final = frozenset({"pow", "sqrt", "reciprocal"})
"""Those of `BASIC` that integers do not have."""


def known(name: str, dtype: Any) -> bool:
    """Whether `name` is a function of the language for arguments of `dtype`. float16 and bfloat16
    are only moved and cast."""
    if dtype.char in NARROW:
        return False
    if name in BASIC:
        return dtype.kind == "f" or name not in FLOATS_ONLY
    from chainrule.compile import mathlib

    return dtype.kind == "f" and name in mathlib.names()
