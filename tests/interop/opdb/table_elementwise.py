"""The elementwise part of the table."""

from __future__ import annotations

from typing import Any

import chainrule as cr
from chainrule import special as sp
from chainrule.nn import functional
from chainrule.ops.complex import angle, complex, conj, polar, real
from chainrule.ops.networks import activations as act
from tests.interop.opdb.harness import Row
from tests.interop.opdb.translate import words

UNARY: dict[str, Any] = {
    **{
        name: getattr(cr, name)
        for name in [
            "abs",
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "atanh",
            "ceil",
            "cos",
            "cosh",
            "exp",
            "exp2",
            "expm1",
            "floor",
            "log",
            "log10",
            "log1p",
            "log2",
            "neg",
            "positive",
            "reciprocal",
            "sigmoid",
            "sign",
            "sin",
            "sinh",
            "sqrt",
            "square",
            "tan",
            "tanh",
            "trunc",
            "erf",
            "erfc",
        ]
    },
    **{
        name: getattr(sp, name)
        for name in ["digamma", "erfinv", "lgamma", "sinc", "i0", "rsqrt", "frac"]
    },
    **{
        f"special.{name}": getattr(sp, name)
        for name in ["i0e", "i1", "i1e", "ndtr", "entr", "ndtri", "log_ndtr", "erfcx"]
    },
    **{
        f"nn.functional.{name}": getattr(act, name)
        for name in [
            "relu6",
            "hardsigmoid",
            "hardswish",
            "tanhshrink",
            "softsign",
            "logsigmoid",
            "mish",
            "selu",
        ]
    },
    "deg2rad": sp.deg2rad,
    "rad2deg": sp.rad2deg,
    "sgn": cr.sign,
    "angle": angle,
    "conj": conj,
    "conj_physical": conj,
    "real": real,
    "nn.functional.relu": cr.relu,
    "nn.functional.silu": cr.silu,
}


def _logit(x: Any, eps: float | None = None) -> Any:
    return sp.logit(x if eps is None else cr.clip(x, eps, 1 - eps))


def _swapped(f: Any) -> Any:
    return lambda a, b: f(b, a)


def _scaled(f: Any) -> Any:
    return lambda a, b, *, alpha=1: f(a, b * alpha)


def _rsub(a: Any, b: Any, alpha: float = 1) -> Any:
    return b - a * alpha


def _clamped(x: Any, min: Any = None, max: Any = None) -> Any:
    """PyTorch's `clamp`, which takes the upper bound where the bounds cross, as ours."""
    return cr.clip(x, min, max)


ELEMENTWISE = [
    *[Row(name, f) for name, f in UNARY.items()],
    Row("round", cr.round),
    Row("round.decimals_0", cr.round),
    Row("round.decimals_3", cr.round),
    Row("round.decimals_neg_3", cr.round),
    Row("logit", _logit),
    Row("nan_to_num", words(sp.nan_to_num, "input nan=nan posinf=posinf neginf=neginf")),
    Row("nn.functional.gelu", words(cr.gelu, "input approximate=approximate")),
    Row("nn.functional.leaky_relu", words(cr.leaky_relu, "input negative_slope=slope")),
    Row("nn.functional.elu", words(cr.elu, "input alpha=alpha")),
    Row("nn.functional.celu", words(act.celu, "input alpha=alpha")),
    Row("nn.functional.hardtanh", words(act.hardtanh, "input min_val=low max_val=high")),
    Row("nn.functional.hardshrink", words(act.hardshrink, "input lambd=threshold")),
    Row("nn.functional.softshrink", words(act.softshrink, "input lambd=threshold")),
    Row("nn.functional.threshold", words(act.threshold, "input threshold=at value=value")),
    Row(
        "nn.functional.softplus", words(functional.softplus, "input beta=beta threshold=threshold")
    ),
    Row("nn.functional.prelu", act.prelu),
    Row("nn.functional.glu", words(act.glu, "input dim=axis")),
    *[Row(f"polygamma.polygamma_n_{n}", lambda x, n: sp.polygamma(n, x)) for n in range(5)],
    Row("special.polygamma.special_polygamma_n_0", lambda x, n: sp.polygamma(n, x)),
    *[Row(f"mvlgamma.mvlgamma_p_{p}", words(sp.multigammaln, "input p=p")) for p in (1, 3, 5)],
    # two arguments
    Row("add", _scaled(cr.add)),
    Row("sub", _scaled(cr.sub)),
    Row("rsub", _rsub),
    Row("mul", cr.mul),
    Row("div.no_rounding_mode", cr.divide),
    Row("div.trunc_rounding", cr.divide),
    Row("div.floor_rounding", cr.divide),
    Row("true_divide", cr.div),
    Row("pow", cr.pow),
    Row("float_power", cr.pow),
    Row("atan2", cr.atan2),
    Row("hypot", cr.hypot),
    Row("copysign", cr.copysign),
    Row("nextafter", cr.nextafter),
    Row("remainder", cr.remainder),
    Row("fmod", sp.fmod),
    Row("fmax", sp.fmax),
    Row("fmin", sp.fmin),
    Row("maximum", cr.maximum),
    Row("minimum", cr.minimum),
    Row("max.binary", cr.maximum),
    Row("min.binary", cr.minimum),
    Row("logaddexp", cr.logaddexp),
    Row("logaddexp2", sp.logaddexp2),
    Row("ldexp", sp.ldexp),
    Row("xlogy", sp.xlogy),
    Row("special.xlog1py", sp.xlog1py),
    Row("polar", polar),
    Row("complex", complex),
    Row("lerp", sp.lerp),
    Row("clamp", _clamped),
    Row("clamp_min", lambda x, min: cr.clip(x, min=min)),
    Row("clamp_max", lambda x, max: cr.clip(x, max=max)),
    Row("__radd__", _swapped(cr.add)),
    Row("__rsub__", _swapped(cr.sub)),
    Row("__rmul__", _swapped(cr.mul)),
    Row("__rdiv__", _swapped(cr.div)),
    Row("__rmod__", _swapped(cr.remainder)),
    Row("__rpow__", _swapped(cr.pow)),
    Row("addcmul", lambda x, a, b, *, value=1: x + a * b * value),
    Row("addcdiv", lambda x, a, b, *, value=1: x + a / b * value),
]
