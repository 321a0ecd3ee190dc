"""How exact the derivatives of the smooth ops are: bounds of their errors.

Whole numbers above the worst errors seen, eager and compiled; NumPy's float32 exponential and
logarithm, which eager code uses, are off by 2.6 and 3.5 units.
"""

from __future__ import annotations

Bounds = tuple[tuple[int, int], tuple[int, int]]
"""Of the first and second derivatives: in float64, in float32."""

BOUNDS: dict[str, Bounds] = {
    "add": ((0, 0), (0, 0)),
    "sub": ((0, 0), (0, 0)),
    "mul": ((0, 0), (0, 0)),
    "div": ((2, 3), (2, 3)),
    "pow": ((3, 4), (4, 6)),
    "neg": ((0, 0), (0, 0)),
    "positive": ((0, 0), (0, 0)),
    "reciprocal": ((2, 4), (2, 4)),
    "square": ((0, 0), (0, 0)),
    "sqrt": ((2, 6), (2, 6)),
    "cbrt": ((4, 5), (1, 1)),
    "rsqrt": ((2, 4), (1, 1)),
    "exp": ((1, 1), (3, 3)),
    "exp2": ((2, 3), (4, 5)),
    "expm1": ((1, 1), (3, 3)),
    "log": ((1, 2), (1, 2)),
    "log2": ((1, 2), (1, 2)),
    "log10": ((1, 2), (1, 2)),
    "log1p": ((2, 4), (2, 1)),
    "logaddexp": ((3, 4), (1, 1)),
    "sin": ((1, 1), (2, 2)),
    "cos": ((1, 1), (2, 2)),
    "tan": ((2, 4), (3, 4)),
    "asin": ((3, 7), (1, 1)),
    "acos": ((3, 7), (1, 1)),
    "atan": ((3, 5), (3, 1)),
    "sinh": ((2, 2), (2, 2)),
    "cosh": ((2, 2), (2, 2)),
    "tanh": ((4, 5), (5, 1)),
    "asinh": ((2, 6), (1, 1)),
    "acosh": ((4, 7), (1, 1)),
    "atanh": ((3, 6), (1, 1)),
    "atan2": ((4, 7), (1, 1)),
    "hypot": ((2, 6), (1, 1)),
    "sigmoid": ((4, 4), (5, 1)),
    "softplus": ((3, 4), (4, 5)),
    "silu": ((4, 6), (6, 1)),
    "mish": ((7, 8), (1, 1)),
    "softsign": ((2, 4), (2, 1)),
    "tanhshrink": ((3, 5), (1, 1)),
    "erf": ((2, 4), (3, 3)),
    "erfc": ((2, 4), (3, 3)),
    "gelu_erf": ((5, 6), (6, 1)),
    "gelu_gate": ((5, 8), (1, 1)),
    "gelu_tanh": ((4, 5), (5, 1)),
    "elu": ((1, 1), (3, 3)),
    "celu": ((1, 1), (3, 3)),
    "selu": ((2, 2), (3, 3)),
    "logistic_loss": ((2, 4), (4, 5)),
    "logsigmoid": ((3, 4), (4, 5)),
    "ndtr": ((3, 5), (2, 2)),
    "logit": ((2, 7), (1, 1)),
    "entr": ((2, 1), (1, 1)),
    "xlogy": ((1, 2), (4, 2)),
    "xlog1py": ((2, 4), (1, 2)),
    "erfinv": ((5, 7), (1, 1)),
    "ndtri": ((5, 8), (1, 1)),
    "lgamma": ((4, 8), (1, 1)),
    "digamma": ((8, 7), (1, 1)),
    "i0": ((4, 6), (1, 2)),
}
"""By row or composite, in units in the last place."""
