"""Sample arguments of the elementwise table: one line per row says where its arguments may lie."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import chainrule.special
from chainrule.ops.families import rows
from chainrule.ops.rows import NotOffered
from tests.ops.sample import Sample, apart

assert chainrule.special is not None  # reading the tables is what fills `rows`

WIDE, POSITIVE, UNIT, ABOVE = (-2.1, 2.3), (0.3, 3.2), (-0.9, 0.85), (1.2, 3.4)
SHARE = (0.1, 0.9)

# fmt: off
DOMAINS: dict[str, tuple[tuple[float, float], ...]] = {
    # arithmetic
    "add": (WIDE, WIDE), "sub": (WIDE, WIDE), "mul": (WIDE, WIDE), "strong_mul": (WIDE, WIDE),
    "div": (WIDE, POSITIVE), "pow": (POSITIVE, WIDE), "neg": (WIDE,), "positive": (WIDE,),
    "reciprocal": (POSITIVE,), "square": (WIDE,), "floor_divide": ((11.2, 13.4), (3.5, 3.65)),
    "remainder": ((6.8, 7.4), (2.5, 2.9)),
    # roots, exponentials, logarithms
    "sqrt": (POSITIVE,), "cbrt": (POSITIVE,), "exp": (WIDE,), "exp2": (WIDE,), "expm1": (WIDE,),
    "log": (POSITIVE,), "log2": (POSITIVE,), "log10": (POSITIVE,), "log1p": (UNIT,),
    "logaddexp": (WIDE, WIDE), "exp_diff": (WIDE, WIDE),
    # trigonometric and hyperbolic
    "sin": (WIDE,), "cos": (WIDE,), "tan": ((-1.2, 1.3),), "asin": (UNIT,), "acos": (UNIT,),
    "atan": (WIDE,), "sinh": (WIDE,), "cosh": (WIDE,), "tanh": (WIDE,), "asinh": (WIDE,),
    "acosh": (ABOVE,), "atanh": (UNIT,), "atan2": (WIDE, WIDE), "hypot": (WIDE, WIDE),
    # steps and kinks
    "abs": (WIDE,), "sign": (WIDE,), "floor": (WIDE,), "ceil": (WIDE,),
    "trunc": (WIDE,), "round": (WIDE,),
    "maximum": (WIDE, (-2.4, 2.2)), "minimum": (WIDE, (-2.4, 2.2)),
    "at_least": (WIDE, (-2.4, 2.2)), "at_most": (WIDE, (-2.4, 2.2)),
    "copysign": (WIDE, WIDE), "nextafter": (WIDE, WIDE),
    # deep learning
    "relu": (WIDE,), "sigmoid": (WIDE,), "silu": (WIDE,), "softplus": (WIDE,), "erf": (WIDE,),
    "erfc": (WIDE,), "gelu_erf": (WIDE,), "gelu_tanh": (WIDE,), "gelu_gate": (WIDE,),
    "logistic_loss": (WIDE, (0.1, 0.9)),
    "mish": (WIDE,), "softsign": (WIDE,), "tanhshrink": (WIDE,),
    # slopes of other rows
    "cbrt_slope": (POSITIVE,),
    "one_minus_square": (UNIT,), "cos_atan": (WIDE,), "cos_angle": (WIDE, WIDE),
    "per_square": (WIDE, WIDE), "exp_product": (WIDE, (-1.1, 0.9)), "sigmoid_diff": (WIDE, WIDE),
    "logistic_density": (WIDE,), "sech_square": (WIDE,), "sech": (WIDE,),
    "gelu_erf_slope": (WIDE,), "gelu_tanh_slope": (WIDE,), "gelu_gate_slope": (WIDE,),
    "gelu_gate_density": (WIDE,), "gelu_gate_tanh": (WIDE,),
    "log1p_slope": (POSITIVE,), "atan_slope": (WIDE,), "softsign_slope": (WIDE,),
    "silu_slope": (WIDE,), "mish_slope": (WIDE,),
    "logit_slope": ((0.1, 0.9),), "erfinv_slope": (UNIT,), "ndtri_slope": ((0.1, 0.9),),
    "erfinv_bend": (UNIT,), "ndtri_bend": ((0.1, 0.9),),
    "entr_slope": (POSITIVE,),
    # special functions
    "rsqrt": (POSITIVE,), "fmod": ((6.8, 7.4), (2.5, 2.9)),
    "fmax": (WIDE, (-2.4, 2.2)), "fmin": (WIDE, (-2.4, 2.2)),
    "lgamma": (POSITIVE,), "digamma": (POSITIVE,),
    "erfinv": (UNIT,), "erfcx": (WIDE,), "ndtr": (WIDE,), "ndtri": ((0.1, 0.9),),
    "log_ndtr": (WIDE,), "logit": ((0.1, 0.9),), "entr": (POSITIVE,),
    "xlogy": (WIDE, POSITIVE), "xlog1py": (WIDE, UNIT),
    "polygamma": ((0.6, 2.4), POSITIVE), "iv": ((-1.4, 2.4), POSITIVE),
    "ive": ((-1.4, 2.4), POSITIVE),
    "jv": ((-1.4, 2.4), POSITIVE), "yv": ((0.6, 2.4), POSITIVE),
    "kv": ((0.6, 2.4), POSITIVE), "kve": ((0.6, 2.4), POSITIVE),
    "j0": (WIDE,), "j1": (WIDE,), "y0": (POSITIVE,), "y1": (POSITIVE,), "k0": (POSITIVE,),
    "k0e": (POSITIVE,), "k1": (POSITIVE,), "k1e": (POSITIVE,),
    "airy_ai": (WIDE,), "airy_ai_slope": (WIDE,),
    "gammainc": (POSITIVE, POSITIVE), "gammaincc": (POSITIVE, POSITIVE),
    "gamma_density": (POSITIVE, POSITIVE), "betainc": (POSITIVE, POSITIVE, SHARE),
    "betaincc": (POSITIVE, POSITIVE, SHARE), "beta_density": (POSITIVE, POSITIVE, SHARE),
    "zeta": (ABOVE, POSITIVE),
    "spherical_jn": ((0.6, 2.4), POSITIVE),
    "i0": (WIDE,), "i0e": (WIDE,), "i1": (WIDE,), "i1e": (WIDE,),
}
"""For each row with a derivative, the interval of each argument."""

BY_LAST = {
    n for n, r in rows.items() if r.partials and isinstance(r.partials[0].formula, NotOffered)
}
"""Rows whose derivative by all arguments but the last is not offered."""

WITHOUT: dict[str, str] = {
    "equal": "ff", "not_equal": "ff", "less": "ff", "less_equal": "ff", "greater": "ff",
    "greater_equal": "ff", "logical_and": "bb", "logical_or": "bb", "logical_xor": "bb",
    "logical_not": "b", "bitwise_and": "ii", "bitwise_or": "ii", "bitwise_xor": "ii",
    "bitwise_invert": "i", "bitwise_left_shift": "ii", "bitwise_right_shift": "ii",
    "isnan": "f", "isinf": "f", "isfinite": "f", "signbit": "f",
}
"""For each row without a derivative, the kind of each argument."""
# fmt: on

SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    1: [((2, 3),), ((),), ((2, 0, 3),), ((1, 5, 1),)],
    2: [
        ((2, 3), (2, 3)),
        ((2, 3), (3,)),
        ((2, 1), (1, 3)),
        ((), (2, 3)),
        ((4, 1, 3), (2, 1)),
        ((2, 3), ()),
        ((2, 0), (1,)),
        ((1,), ()),
    ],
    3: [((2, 3), (2, 3), (2, 3)), ((2, 1), (), (1, 3)), ((3,), (2, 1), ()), ((2, 0), (1,), ())],
}


def of_row(name: str, other: Any = None) -> list[Sample]:
    """The samples of one row that has a derivative, or of another op in its place."""
    op, domains = other or rows[name], DOMAINS[name]
    out: list[Sample] = []
    for shapes in SHAPES[len(domains)]:
        pairs = zip(shapes, domains, strict=True)
        args = tuple(apart(*s, low=a, high=b, salt=i) for i, (s, (a, b)) in enumerate(pairs))
        if name in BY_LAST:
            note = "after " + " ".join([str(x.shape) for x in args[:-1]])
            out.append(Sample(name, partial(_after, op, args[:-1]), args[-1:], note))
            continue
        out.append(Sample(name, op, args))
    if name in BY_LAST:
        return out
    if len(domains) == 2:
        left, right = [round(0.3 * a + 0.7 * b, 2) + 0.013 for a, b in domains]
        a, b = (apart(2, 3, low=low, high=high) for low, high in domains)
        out.append(Sample(name, lambda x: op(x, right), (a,), "number right"))
        out.append(Sample(name, lambda x: op(left, x), (b,), "number left"))
    return out


def _after(op: Any, first: Any, x: Any) -> Any:
    """A row of arguments that have no derivative, in the dtype of the last one."""
    return op(*[a.astype(x.dtype) for a in first], x)


def without_derivative() -> list[Sample]:
    """One sample, or with broadcasting two, for each row that has no derivative."""
    return [
        Sample(name, rows[name], tuple(_of_kind(k, s) for k, s in zip(kinds, shapes, strict=True)))
        for name, kinds in WITHOUT.items()
        for shapes in SHAPES[len(kinds)]
    ]


def _of_kind(kind: str, shape: tuple[int, ...]) -> Any:
    x = apart(*shape, salt=len(shape))
    if kind == "f":
        return x
    return x > 0.2 if kind == "b" else np.abs(np.rint(3 * x)).astype(np.int64)


SAMPLES = [sample for name in DOMAINS for sample in of_row(name)]
