"""Activations as modules: a table of their functions, with PyTorch's names and defaults."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from chainrule.engine.tensors import Tensor
from chainrule.nn import functional
from chainrule.nn.base.function_modules import Check, FunctionModule, Row, class_of_row
from chainrule.nn.base.module import Module
from chainrule.nn.layers import check_sizes, parameter
from chainrule.ops import elementwise as ew
from chainrule.ops.shapes.shaping import normalize_axis, reshape


def _along(f: Any) -> Any:
    """PyTorch's softmax without a dimension is along 0 of 0, 1 or 3 axes, else along 1."""

    def call(x: Any, dim: int | None) -> Any:
        axis = (0 if x.ndim in (0, 1, 3) else 1) if dim is None else dim
        if x.ndim == 0:
            return reshape(f(reshape(x, (1,)), axis=normalize_axis(axis, 1)), ())
        return f(x, axis=normalize_axis(axis, x.ndim))

    return call


def _of_channels(x: Any) -> Any:
    """Along the channels of (N, C, H, W) or (C, H, W)."""
    return functional.softmax(x, axis=-3)


_TANH: Check = (lambda x: x in ("none", "tanh"), "'none' or 'tanh'")

ROWS: dict[str, Row] = {
    "ReLU": Row(ew.relu, doc="max(x, 0)."),
    "ReLU6": Row(functional.relu6, doc="x limited to [0, 6]."),
    "LeakyReLU": Row(
        functional.leaky_relu, {"negative_slope": 0.01}, {"negative_slope": "slope"},
        "x where positive, elsewhere x times a slope.",
    ),
    "ELU": Row(functional.elu, {"alpha": 1.0}, doc="x where positive, elsewhere alpha (exp(x) - 1)."),
    "CELU": Row(functional.celu, {"alpha": 1.0}, doc="x where positive, else alpha (exp(x / alpha) - 1)."),
    "SELU": Row(functional.selu, doc="ELU scaled so that mean 0 and variance 1 stay."),
    "GELU": Row(
        functional.gelu, {"approximate": "none"}, checks={"approximate": _TANH},
        doc='x times the normal distribution at x; with approximate="tanh" by a formula of tanh.',
    ),
    "SiLU": Row(functional.silu, doc="x sigmoid(x)."),
    "Mish": Row(functional.mish, doc="x tanh(softplus(x))."),
    "Sigmoid": Row(ew.sigmoid, doc="1 / (1 + exp(-x))."),
    "LogSigmoid": Row(functional.logsigmoid, doc="log(sigmoid(x)), without overflow."),
    "Hardsigmoid": Row(functional.hardsigmoid, doc="x / 6 + 1 / 2 limited to [0, 1]."),
    "Hardswish": Row(functional.hardswish, doc="x times hardsigmoid(x)."),
    "Tanh": Row(ew.tanh, doc="The hyperbolic tangent."),
    "Hardtanh": Row(
        functional.hardtanh, {"min_val": -1.0, "max_val": 1.0}, {"min_val": "low", "max_val": "high"},
        "x limited to [min_val, max_val].",
    ),
    "Tanhshrink": Row(functional.tanhshrink, doc="x - tanh(x)."),
    "Softplus": Row(
        functional.softplus, {"beta": 1.0, "threshold": 20.0},
        doc="log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold.",
        checks={"beta": (lambda x: x != 0, "a number other than 0")},
    ),
    "Softsign": Row(functional.softsign, doc="x / (1 + |x|)."),
    "Softshrink": Row(
        functional.softshrink, {"lambd": 0.5}, {"lambd": "threshold"}, "x moved by lambd towards 0, and no further: 0 where |x| <= lambd.",
        checks={"lambd": (lambda x: x >= 0, "a number that is not negative")},
    ),
    "Hardshrink": Row(
        functional.hardshrink, {"lambd": 0.5}, {"lambd": "threshold"}, "x, or 0 where |x| is at most lambd.",
    ),
    "Threshold": Row(
        functional.threshold, {"threshold": ..., "value": ...}, {"threshold": "at"},
        "x where it exceeds the threshold, the value elsewhere.",
    ),
    "GLU": Row(
        functional.glu, {"dim": -1}, {"dim": "axis"}, "The first half along dim times sigmoid(the second).",
        "(*s) -> (*t)",
    ),
    "Softmax": Row(
        _along(functional.softmax), {"dim": None}, doc="exp(x) over its sum along dim, as in PyTorch."
    ),
    "LogSoftmax": Row(_along(functional.log_softmax), {"dim": None}, doc="The logarithm of `Softmax`."),
    "Softmin": Row(_along(functional.softmin), {"dim": None}, doc="The `Softmax` of -x."),
    "Softmax2d": Row(_of_channels, doc="The softmax over the channels of (N, C, H, W)."),
}  # fmt: skip
CLASSES: dict[str, type[FunctionModule]] = {
    name: class_of_row(name, "chainrule.nn", r) for name, r in ROWS.items()
}


@final
class PReLU(Module):
    """x where positive, elsewhere x times a weight, which is learned: one, or one a channel.

    He et al. 2015, arXiv:1502.01852.

    >>> nn.PReLU()(cr.tensor([-4.0, 2.0]))
    tensor([-1.,  2.], dtype=float32, made by where)
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, *, dtype: Any = np.float32
    ) -> None:
        check_sizes("PReLU", num_parameters=num_parameters)
        self.weight = parameter((num_parameters,), init, dtype)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        return functional.prelu(x, self.weight)
