"""Composites: functions of ops, whose derivatives are all derived.

Activations, softmax, losses, normalisation, dropout, embedding, attention.

Notation: B batch, T positions, C channels or classes, H heads, d width of a head.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.dtypes import REAL
from chainrule.errors import ConfigError, DtypeError, IndexingError, ShapeError
from chainrule.graph import Variable
from chainrule.op import Spec
from chainrule.ops import elementwise as ew
from chainrule.ops import reduction as red
from chainrule.ops.accident import same_shapes
from chainrule.ops.contraction import matmul, matmul_t
from chainrule.ops.selection import take, take_along_axis, where
from chainrule.ops.shaping import (
    astype,
    beside,
    expand_dims,
    normalize_axis,
    roomy,
    squeeze,
)
from chainrule.random import Generator, default_generator

# --- Activations ---------------------------------------------------------------------------------


def gelu(x: Any, *, approximate: str = "none") -> Any:
    """x times the normal distribution function of x; with approximate="tanh" its tanh form.

    Shapes: (*s) -> (*s).
    Any shape, same shape out. Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
    """
    if approximate not in ("none", "tanh"):
        raise ConfigError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return ew.gelu_tanh(x) if approximate == "tanh" else ew.gelu_erf(x)


def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """x where positive, `slope` times x elsewhere; the derivative at 0 is `slope`.

    Shapes: (*s) -> (*s).
    """
    return where(x > 0, x, x * slope)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """x where positive, alpha (exp(x) - 1) elsewhere. Clevert et al. 2015, arXiv:1511.07289.

    Shapes: (*s) -> (*s).
    """
    return where(x > 0, x, alpha * ew.expm1(ew.at_most(x, 0)))


# --- Softmax -------------------------------------------------------------------------------------


@roomy
def softmax(x: Any, *, axis: int = -1) -> Any:
    """exp(x) / sum(exp(x)) along `axis`, without overflow; zeros along a row of -inf.

    Shapes: (*s) -> (*s).
    """
    return ew.exp_diff(x, red.logsumexp(x, axis=axis, keepdims=True))


def _finite(y: Any) -> Any:
    """A log-sum-exp with 0 where it is -inf, so that -inf minus it stays -inf."""
    return where(y == -math.inf, 0, y)


@roomy
def log_softmax(x: Any, *, axis: int = -1) -> Any:
    """log(softmax(x)) along `axis`, without overflow; -inf along a row of -inf.

    Shapes: (*s) -> (*s).
    """
    return x - _finite(red.logsumexp(x, axis=axis, keepdims=True))


# --- Losses --------------------------------------------------------------------------------------


def reduce_loss(loss: Any, reduction: str, count: Any = None) -> Any:
    """The loss of each element, their sum, or their mean: the sum divided by `count`, if given."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return red.sum(loss)
    if reduction == "mean":
        return red.mean(loss) if count is None else red.sum(loss) / count
    raise ConfigError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")


@roomy
def cross_entropy(
    logits: Any,
    target: Any,
    *,
    axis: int = -1,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """-log softmax(logits) at the target, along `axis` of size C.

    Shapes: (*s, axis: C), (*s) -> () if reduction != "none";
        (*s, axis: C), (*s, axis: C) -> () if reduction != "none";
        (*s, axis: C) -> (*s).
    `target`: class indices (integers; the shape of `logits` without `axis`), or probabilities
    (floats; the shape of `logits`). Positions whose index is `ignore_index` give loss 0 and do not
    count in the mean. With label smoothing s the target is (1 - s) target + s / C. The mean is over
    positions; NaN if all are ignored. Raises for an index outside 0..C-1.
    """
    if not 0 <= label_smoothing <= 1:
        raise ConfigError(f"label_smoothing is between 0 and 1, not {label_smoothing}")
    axis = normalize_axis(axis, logits.ndim)
    if target.dtype.kind in REAL:
        return _soft_cross_entropy(logits, target, axis, label_smoothing, reduction)
    _check_targets(logits, target, axis)
    used = None if ignore_index is None else target != ignore_index
    index = target if used is None else where(used, target, 0)
    check_classes("cross_entropy", index, logits.shape[axis])
    total = red.logsumexp(logits, axis=axis)
    picked = squeeze(take_along_axis(logits, expand_dims(index, axis), axis=axis), axis)
    loss = total - picked
    if label_smoothing:
        flat = total - red.mean(logits, axis=axis)
        loss = (1 - label_smoothing) * loss + label_smoothing * flat
    if used is None:
        return reduce_loss(loss, reduction)
    loss = where(used, loss, 0)
    return reduce_loss(loss, reduction, red.sum(astype(used, logits.dtype)))


def _check_targets(logits: Any, target: Any, axis: int) -> None:
    """Raise unless `target` is integers of the shape of `logits` without `axis`."""
    if target.dtype.kind not in "iu":
        raise DtypeError(f"cross_entropy: a target is integers or floats, not {target.dtype}")
    rest = tuple([n for i, n in enumerate(logits.shape) if i != axis])
    if tuple(target.shape) != rest:
        raise ShapeError(
            f"cross_entropy: logits {logits.shape} with classes along axis {axis} need class "
            f"indices of shape {rest}, not {target.shape}"
        )


def check_classes(what: str, index: Any, count: int) -> None:
    """Raise for a class outside 0..count - 1: a negative index would count from the end."""
    value = index.value if isinstance(index, Variable) else index
    if isinstance(value, Spec) or value.size == 0:
        return
    for wrong in (value.min(), value.max()):
        if not 0 <= wrong < count:
            raise IndexingError(
                f"{what}: class {wrong} is not among 0..{count - 1}; positions to be left "
                "out carry the number that is given as ignore_index"
            )


def _soft_cross_entropy(
    logits: Any, target: Any, axis: int, label_smoothing: float, reduction: str
) -> Any:
    if tuple(target.shape) != tuple(logits.shape):
        raise ShapeError(
            f"cross_entropy: probabilities must have the shape of the logits, {logits.shape}, "
            f"not {target.shape}"
        )
    classes = logits.shape[axis]
    if label_smoothing:
        target = (1 - label_smoothing) * target + label_smoothing / classes
    logp = log_softmax(logits, axis=axis)
    # a class of probability 0 costs nothing, even where its log probability is -inf
    costless = ew.logical_and(target == 0, logp == -math.inf)
    loss = -red.sum(target * where(costless, 0, logp), axis=axis)
    return reduce_loss(loss, reduction)


def mse_loss(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """(x - target) squared; shapes must be equal, so that nothing is broadcast by accident.

    Shapes: (*s), (*s) -> () if reduction != "none"; (*s), (*s) -> (*s).
    """
    same_shapes("mse_loss", x, target)
    return reduce_loss(ew.square(x - target), reduction)


def binary_cross_entropy_with_logits(
    x: Any, target: Any, *, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Any:
    """-log of the probability of `target` (in [0, 1]) under sigmoid(x), without overflow.

    Shapes: (...), (...), weight (...), pos_weight (...) -> () if reduction != "none";
        (...), (...), weight (...), pos_weight (...) -> (...).
    `weight` multiplies each element's loss, `pos_weight` its part for the target 1; both broadcast.
    """
    same_shapes("binary_cross_entropy_with_logits", x, target)
    if pos_weight is None:
        loss = ew.softplus(x) - x * target
    else:
        loss = (1 - target) * x + (1 + (pos_weight - 1) * target) * ew.softplus(-x)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


# --- Normalisation -------------------------------------------------------------------------------


def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """(x - mean) / sqrt(variance + eps) over the last axis, times weight, plus bias.

    Shapes: (*s, C), (C), (C) -> (*s, C).
    Ba, Kiros & Hinton 2016, arXiv:1607.06450, equation 4.
    """
    return _affine(standardized(x, eps), weight, bias)


def rms_norm(x: Any, weight: Any = None, *, eps: float = 1e-5) -> Any:
    """x / sqrt(mean(x^2) + eps) over the last axis, times weight.

    Shapes: (*s, C), (C) -> (*s, C).
    Zhang & Sennrich 2019, arXiv:1910.07467, equation 4.
    """
    return _affine(_rescaled(x, eps), weight, None)


@roomy  # squares of numbers beyond 255 are infinite in float16
def standardized(x: Any, eps: float) -> Any:
    """`x` minus its mean, by its deviation, the root of variance plus eps: over the last axis."""
    centered = x - red.mean(x, axis=-1, keepdims=True)
    return centered / ew.sqrt(red.mean(ew.square(centered), axis=-1, keepdims=True) + eps)


@roomy
def _rescaled(x: Any, eps: float) -> Any:
    return x * (red.mean(ew.square(x), axis=-1, keepdims=True) + eps) ** -0.5


def _affine(y: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


# --- Dropout, embedding, attention ---------------------------------------------------------------


def dropout(
    x: Any, p: float = 0.5, *, training: bool = True, generator: Generator | None = None
) -> Any:
    """`x` with each element set to 0 with probability p and the others divided by 1 - p.

    Shapes: (*s) -> (*s).
    The identity if not `training`. Srivastava et al. 2014, JMLR 15, section 10.
    """
    if not 0 <= p <= 1:
        raise ConfigError(f"dropout: p is a probability, not {p}")
    if not training or p == 0:
        return x
    if p == 1:
        return where(np.zeros(x.shape, bool), x, 0)
    kept = (generator or default_generator).bernoulli(1 - p, x.shape)
    return where(kept, x * (1 / (1 - p)), 0)


def embedding(weight: Any, indices: Any) -> Any:
    """Rows of `weight` at integer `indices` of any shape.

    Shapes: (N, C), (*s) -> (*s, C).
    """
    if weight.ndim != 2:
        raise ShapeError(f"embedding: the table must have shape (rows, width), not {weight.shape}")
    return take(weight, indices, axis=0)


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """x times the transpose of weight, plus bias.

    Shapes: (..., n), (m, n), (m) -> (..., m).
    """
    y = matmul_t(x, weight)
    return y if bias is None else y + beside(bias, y)


def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    generator: Generator | None = None,
) -> Any:
    """softmax(q kT * scale + mask) v, T queries of size d over S keys with values of size e.

    Shapes: (..., T, d), (..., S, d), (..., S, e) -> (..., T, e).
    `mask` (broadcast to (.., T, S)): bools that say what may be looked at, or floats that are
    added. With `causal` position t looks at 0..t + S - T only. scale is 1 / sqrt(d) if None. A row
    that may look at nothing gives zeros. Vaswani et al. 2017, arXiv:1706.03762, equation 1.
    """
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"attention: q {q.shape}, k {k.shape}, v {v.shape} need the forms (.., T, d), "
            "(.., S, d), (.., S, e)"
        )
    scores = matmul_t(q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        t, s = q.shape[-2], k.shape[-2]
        scores = where(np.tri(t, s, s - t, dtype=bool), scores, -math.inf)
    if mask is not None:
        scores = where(mask, scores, -math.inf) if mask.dtype.kind == "b" else scores + mask
    weights = softmax(scores)
    if dropout_p:
        weights = dropout(weights, dropout_p, generator=generator)
    return matmul(weights, v)
