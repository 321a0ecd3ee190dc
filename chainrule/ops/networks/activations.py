"""Activations beside relu, gelu, silu, ...: functions of ops, any shape in and the same shape out.

At a kink the derivative is that of the flat side.
"""

from __future__ import annotations

from typing import Any

from chainrule.engine.dtypes import check_real
from chainrule.errors import ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.elementwise import mish as mish
from chainrule.ops.elementwise import softsign as softsign
from chainrule.ops.elementwise import tanhshrink as tanhshrink
from chainrule.ops.fusing import fused
from chainrule.ops.indexing.selection import clip, where
from chainrule.ops.kernel_use import of_dtype
from chainrule.ops.networks.composite import elu, softmax
from chainrule.ops.shapes.joining import split
from chainrule.ops.shapes.shaping import normalize_axis, reshape

SELU_ALPHA = 1.6732632423543772848170429916717  # Klambauer et al. 2017, arXiv:1706.02515
SELU_SCALE = 1.0507009873554804934193349852946


def hardtanh(x: Any, low: float = -1.0, high: float = 1.0) -> Any:
    """`x` limited to [low, high]; at the bounds the derivative is 0 (that of `clip` is 1).

    Shapes: (*s) -> (*s).

    >>> nn.functional.hardtanh(cr.tensor([-2.0, 0.5, 2.0]))
    tensor([-1. ,  0.5,  1. ], dtype=float32)
    """
    check_real("hardtanh", x)
    return where(x <= low, low, where(x >= high, high, x))


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta, and `x` itself where beta x exceeds the threshold.

    Shapes: (*s) -> (*s).

    >>> nn.functional.softplus(cr.tensor([0.0, 100.0]))
    tensor([  0.6931472, 100.       ], dtype=float32)
    """
    return _softplus(x, of_dtype(x, beta), of_dtype(x, threshold))


@fused("softplus", x="N", beta="", threshold="", to="N")
def _softplus(x: Any, beta: Any, threshold: Any) -> Any:
    scaled = x * beta
    return where(scaled > threshold, x, ew.softplus(ew.at_most(scaled, threshold)) / beta)


def relu6(x: Any) -> Any:
    """`x` limited to [0, 6]. Howard et al. 2017, arXiv:1704.04861.

    Shapes: (*s) -> (*s).

    >>> nn.functional.relu6(cr.tensor([-1.0, 3.0, 8.0]))
    tensor([0., 3., 6.], dtype=float32)
    """
    return hardtanh(x, 0.0, 6.0)


def hardsigmoid(x: Any) -> Any:
    """x / 6 + 1/2 limited to [0, 1].

    Shapes: (*s) -> (*s).

    >>> nn.functional.hardsigmoid(cr.tensor([-4.0, 0.0, 4.0]))
    tensor([0. , 0.5, 1. ], dtype=float32)
    """
    return hardtanh(x / 6 + 0.5, 0.0, 1.0)


@fused("hardswish", x="N", to="N")
def hardswish(x: Any) -> Any:
    """x times hardsigmoid(x). Howard et al. 2019, arXiv:1905.02244.

    Shapes: (*s) -> (*s).

    >>> nn.functional.hardswish(cr.tensor([-4.0, 1.5, 4.0]))
    tensor([-0.   ,  1.125,  4.   ], dtype=float32)
    """
    return x * hardsigmoid(x)


def hardshrink(x: Any, threshold: float = 0.5) -> Any:
    """`x` where its size exceeds `threshold`, 0 elsewhere.

    Shapes: (*s) -> (*s).

    >>> nn.functional.hardshrink(cr.tensor([-1.0, 0.3, 2.0]))
    tensor([-1.,  0.,  2.], dtype=float32)
    """
    return where(ew.abs(x) <= threshold, 0, x)


def softshrink(x: Any, threshold: float = 0.5) -> Any:
    """`x` brought nearer to 0 by `threshold`, 0 where it is nearer than that.

    Shapes: (*s) -> (*s).

    >>> nn.functional.softshrink(cr.tensor([-1.0, 0.3, 2.0]))
    tensor([-0.5,  0. ,  1.5], dtype=float32)
    """
    return x - clip(x, -threshold, threshold)


@fused("logsigmoid", x="N", to="N")
def logsigmoid(x: Any) -> Any:
    """log(sigmoid(x)), without overflow.

    Shapes: (*s) -> (*s).

    >>> nn.functional.logsigmoid(cr.tensor([-100.0, 0.0]))
    tensor([-100.       ,   -0.6931472], dtype=float32)
    """
    return -ew.softplus(-x)


def celu(x: Any, alpha: float = 1.0) -> Any:
    """x where positive, alpha (exp(x / alpha) - 1) elsewhere. Barron 2017, arXiv:1704.07483.

    Shapes: (*s) -> (*s).

    >>> nn.functional.celu(cr.tensor([-1.0, 2.0]))
    tensor([-0.63212055,  2.        ], dtype=float32)
    """
    return _celu(x, of_dtype(x, alpha))


@fused("celu", x="N", alpha="", to="N")
def _celu(x: Any, alpha: Any) -> Any:
    return where(x > 0, x, alpha * ew.expm1(ew.at_most(x, 0) / alpha))


@fused("selu", x="N", to="N")
def selu(x: Any) -> Any:
    """elu scaled so that mean 0 and variance 1 stay. Klambauer et al. 2017, arXiv:1706.02515.

    Shapes: (*s) -> (*s).

    >>> nn.functional.selu(cr.tensor([-1.0, 1.0]))
    tensor([-1.1113307,  1.050701 ], dtype=float32)
    """
    return SELU_SCALE * elu(x, SELU_ALPHA)


def threshold(x: Any, at: float, value: float) -> Any:
    """`x` where it exceeds `at`, `value` elsewhere.

    Shapes: (*s) -> (*s).

    >>> nn.functional.threshold(cr.tensor([0.5, 2.0]), 1.0, 0.0)
    tensor([0., 2.], dtype=float32)
    """
    check_real("threshold", x)
    return where(x <= at, value, x)


def glu(x: Any, axis: int = -1) -> Any:
    """The first half of `x` along `axis`, times the sigmoid of the second.

    Shapes: (*s, axis: m) -> (*s, axis: m // 2).
    Dauphin et al. 2016, arXiv:1612.08083. Raises `ShapeError` if the size is odd.

    >>> nn.functional.glu(cr.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5, 1. ], dtype=float32)
    """
    n = x.shape[normalize_axis(axis, x.ndim)]
    if n % 2:
        raise ShapeError(f"glu: axis {axis} of {x.shape} has an odd size; it is cut into halves")
    a, b = split(x, [n // 2, n // 2], axis=axis)
    return a * ew.sigmoid(b)


def prelu(x: Any, weight: Any, axis: int = 1) -> Any:
    """x where positive, weight times x elsewhere; one weight, or one for each of `axis`.

    Shapes: (*s), () -> (*s); (*s), (1) -> (*s); (*s, axis: C), (C) -> (*s, axis: C).
    He et al. 2015, arXiv:1502.01852.

    >>> nn.functional.prelu(cr.tensor([[-2.0, 3.0]]), cr.tensor([0.25]))
    tensor([[-0.5,  3. ]], dtype=float32)
    """
    if weight.shape == (1,):
        weight = reshape(weight, ())
    if weight.ndim == 1:
        place = normalize_axis(axis, x.ndim)
        weight = reshape(weight, [-1 if i == place else 1 for i in range(x.ndim)])
    check_real("prelu", x)
    return where(x > 0, x, weight * x)


def softmin(x: Any, axis: int = -1) -> Any:
    """The softmax of -x along `axis`.

    Shapes: (*s) -> (*s).

    >>> nn.functional.softmin(cr.tensor([0.0, 0.0]))
    tensor([0.5, 0.5], dtype=float32)
    """
    return softmax(-x, axis=axis)
