"""The smooth ops in mpmath: one row each, what it is and where it is sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp

from ops import exact as e


@dataclass(frozen=True)
class Row:
    """A function of exact numbers; its domain; where it changes quickly; how far it is not flat."""

    f: Callable[..., Any]
    low: float = -math.inf
    high: float = math.inf
    near: tuple[float, ...] = ()
    reach: float = 800.0


ANY, ABOVE_0 = {}, {"low": 0.0}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + e.exp(-x))


def softplus(x: Any) -> Any:
    return e.log1p(e.exp(x)) if e.plain(x) < 0 else x + e.log1p(e.exp(-x))


def _cubic(x: Any) -> Any:
    return (x + x * x * x * mp.mpf(0.044715)) * (2 * mp.sqrt(2 / mp.pi))


def _ndtr(x: Any) -> Any:
    return e.erfc(-x / mp.sqrt(2)) / 2


def _elu(x: Any, alpha: Any = 1) -> Any:
    return x if e.plain(x) > 0 else alpha * e.expm1(x)


SELU = (mp.mpf(1.6732632423543772848170429916717), mp.mpf(1.0507009873554804934193349852946))

UNARY: dict[str, Row] = {
    "neg": Row(lambda x: -x), "positive": Row(lambda x: x), "reciprocal": Row(e.reciprocal),
    "square": Row(lambda x: x * x),
    "sqrt": Row(e.sqrt, low=0), "cbrt": Row(e.cbrt), "rsqrt": Row(lambda x: 1 / e.sqrt(x), low=0),
    "exp": Row(e.exp, reach=760), "exp2": Row(lambda x: e.exp(x * mp.log(2)), reach=1080),
    "expm1": Row(e.expm1, reach=760),
    "log": Row(e.log, low=0, near=(1,)), "log2": Row(lambda x: e.log(x) / mp.log(2), low=0, near=(1,)),
    "log10": Row(lambda x: e.log(x) / mp.log(10), low=0, near=(1,)), "log1p": Row(e.log1p, low=-1, near=(-1,)),
    "sin": Row(e.sin), "cos": Row(e.cos), "tan": Row(e.tan),
    "asin": Row(e.asin, -1, 1, (-1, 1)), "acos": Row(lambda x: mp.pi / 2 - e.asin(x), -1, 1, (-1, 1)),
    "atan": Row(e.atan), "sinh": Row(e.sinh), "cosh": Row(e.cosh), "tanh": Row(e.tanh, reach=400),
    "asinh": Row(e.asinh), "acosh": Row(e.acosh, low=1, near=(1,)), "atanh": Row(e.atanh, -1, 1, (-1, 1)),
    "sigmoid": Row(sigmoid), "softplus": Row(softplus), "silu": Row(lambda x: x * sigmoid(x)),
    "erf": Row(e.erf, reach=28), "erfc": Row(e.erfc, reach=28),
    "gelu_erf": Row(lambda x: x * _ndtr(x), reach=40),
    "gelu_gate": Row(lambda x: sigmoid(_cubic(x)), reach=23),
    "gelu_tanh": Row(lambda x: x * sigmoid(_cubic(x)), reach=23),
    "ndtr": Row(_ndtr, reach=40),
    "logit": Row(lambda x: e.log(x / (1 - x)), 0, 1, (0.5, 1)),
    "entr": Row(lambda x: -x * e.log(x), low=0, near=(1,)),
    "elu": Row(_elu), "celu": Row(_elu), "selu": Row(lambda x: _elu(x, SELU[0]) * SELU[1]),
    "softsign": Row(lambda x: x / (1 + e.size(x))),
    "logsigmoid": Row(lambda x: -softplus(-x)), "tanhshrink": Row(lambda x: x - e.tanh(x)),
    "mish": Row(lambda x: x * e.tanh(softplus(x))),
}
