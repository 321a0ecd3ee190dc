"""Normalisation over the batch, over groups of channels, over each example's channels.

x is (N, C, *size) with C channels; `weight` and `bias` are (C,).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from chainrule.engine.graph import Variable, apply, may_join, variable
from chainrule.engine.op import Detach
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.complex import squared_size
from chainrule.ops.fusing import fused
from chainrule.ops.networks.composite import standardize
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.padding_last import pad
from chainrule.ops.shapes.shaping import expand_dims, reshape
from chainrule.ops.windows.pooling import avg_pool2d


class BatchNorm(NamedTuple):
    """What `batch_norm` gives: the result, and the running statistics as they are now."""

    y: Any
    running_mean: Any
    running_var: Any


def _check(what: str, x: Any, per_channel: dict[str, Any]) -> None:
    if x.ndim < 2:
        raise ShapeError(f"{what}: x is (N, C, ...) with at least 2 axes, not {tuple(x.shape)}")
    for name, v in per_channel.items():
        if v is not None and tuple(v.shape) != (x.shape[1],):
            raise ShapeError(
                f"{what}: x {tuple(x.shape)} has {x.shape[1]} channels, so {name} has shape "
                f"({x.shape[1]},), not {tuple(v.shape)}"
            )


def _per_channel(v: Any, ndim: int) -> Any:
    """(C,) as it broadcasts to (N, C, *size)."""
    return reshape(v, (-1, *[1] * (ndim - 2)))


def _affine(y: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        y = y * _per_channel(weight, y.ndim)
    return y if bias is None else y + _per_channel(bias, y.ndim)


def batch_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    *,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> BatchNorm:
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel, and the running statistics.

    Shapes: (N, C, *s), (C), (C), (C), (C) -> (N, C, *s), (C), (C).
    In training mean and variance are those of the batch, over all axes but 1. The running ones come
    back without a gradient, moved towards them by `momentum` (the variance with correction 1, as in
    PyTorch). Otherwise they are the running ones, which come back as they are. They are (C,), or
    None, which stays None. Raises in training on one element per channel. Ioffe & Szegedy 2015,
    arXiv:1502.03167, algorithm 1.

    >>> nn.functional.batch_norm(cr.tensor([[1.0], [3.0]]), training=True)[0]
    tensor([[-0.999995],
            [ 0.999995]], dtype=float32)
    """
    given = {"running_mean": running_mean, "running_var": running_var}
    _check("batch_norm", x, {**given, "weight": weight, "bias": bias})
    if not training:
        if running_mean is None or running_var is None:
            raise ConfigError("batch_norm: needs running_mean and running_var unless training=True")
        centered = x - _per_channel(running_mean, x.ndim)
        y = centered * (_per_channel(running_var, x.ndim) + eps) ** -0.5
        return BatchNorm(_affine(y, weight, bias), running_mean, running_var)
    axes = (0, *range(2, x.ndim))
    count = math.prod([x.shape[a] for a in axes])
    if count < 2:
        raise ShapeError(f"batch_norm: training needs 2 elements a channel; x is {tuple(x.shape)}")
    y, mean, var = (_of_rows if x.ndim == 2 else _of_batch)(x, weight, bias, eps)
    moved = [
        _update_running(running_mean, mean, momentum),
        _update_running(running_var, var, momentum, count / (count - 1)),
    ]
    return BatchNorm(y, *moved)


def _normalized(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """x normalised over all axes but 1, times weight, plus bias; its mean and its variance."""
    axes = (0, *range(2, x.ndim))
    mean = red.mean(x, axis=axes, keepdims=True)
    centered = x - mean
    var = red.mean(squared_size(centered), axis=axes, keepdims=True)
    y = _affine(centered * (var + eps) ** -0.5, weight, bias)
    return y, reshape(mean, (-1,)), reshape(var, (-1,))


_PER_CHANNEL = {"weight": "C", "bias": "C"}
_of_batch = fused("batch_norm", x="BCL", **_PER_CHANNEL, to=("BCL", "C", "C"))(_normalized)
_of_rows = fused("batch_norm1d", x="NC", **_PER_CHANNEL, to=("NC", "C", "C"))(_normalized)
"""Where nothing follows the channels these are contiguous, and loops run along them."""


def _update_running(running: Any, now: Any, momentum: float, scale: float = 1.0) -> Any:
    """The running value moved towards `scale` times the present one, as a constant."""
    if running is None:
        return None
    if isinstance(momentum, float) and may_join(running) and may_join(now):
        before, latest = [v.value if isinstance(v, Variable) else v for v in (running, now)]
        moved = (1 - momentum) * before + momentum * (latest if scale == 1 else latest * scale)
        return variable(moved) if isinstance(now, Variable) else moved
    before, now = apply(Detach(), running), apply(Detach(), now)
    return (1 - momentum) * before + momentum * (now if scale == 1 else now * scale)


def group_norm(
    x: Any, groups: int, weight: Any = None, bias: Any = None, *, eps: float = 1e-5
) -> Any:
    """Each example's channels in `groups` groups, each with mean 0 and variance 1; times weight.

    Shapes: (N, C, *s), weight (C), bias (C) -> (N, C, *s).
    Same shape and dtype as x. Wu & He 2018, arXiv:1803.08494, section 3.1.

    >>> nn.functional.group_norm(cr.ones((2, 6, 5)), 3).shape
    (2, 6, 5)
    """
    _check("group_norm", x, {"weight": weight, "bias": bias})
    n, c = x.shape[:2]
    if groups < 1 or c % groups:
        raise ShapeError(f"group_norm: {c} channels of x {tuple(x.shape)} in {groups} groups")
    each = (groups, c // groups)
    parts = reshape(x, (n, *each, math.prod(x.shape[2:])))
    scale, shift = [None if v is None else reshape(v, each) for v in (weight, bias)]
    return reshape(_of_groups(parts, scale, shift, eps), tuple(x.shape))


@fused("group_norm", x="BGCL", weight="GC", bias="GC", to="BGCL")
def _of_groups(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    """x (B, G, C, L) normalised over its last two axes, times weight, plus bias."""
    rows = reshape(x, (*x.shape[:2], math.prod(x.shape[2:])))
    y = reshape(standardize(rows, eps), tuple(x.shape))
    y = y if weight is None else y * expand_dims(weight, -1)
    return y if bias is None else y + expand_dims(bias, -1)


def local_response_norm(
    x: Any, count: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """x / (k + alpha times the mean square of `count` neighbouring channels) ** beta.

    Shapes: (N, C, *s) -> (N, C, *s).
    Krizhevsky et al. 2012, NeurIPS, section 3.3, in PyTorch's form.

    >>> nn.functional.local_response_norm(cr.ones((1, 4, 5)), 2).shape
    (1, 4, 5)
    """
    if x.ndim < 3:
        raise ShapeError(f"local_response_norm: x is (N, C, *size), not {tuple(x.shape)}")
    if count < 1:
        raise ConfigError(f"local_response_norm: count is a positive integer, not {count}")
    rows = (int(x.shape[0]), 1, int(x.shape[1]), math.prod(x.shape[2:]))
    squares = pad(reshape(x * x, rows), (0, 0, count // 2, (count - 1) // 2))
    mean = reshape(avg_pool2d(squares, (count, 1), stride=1), tuple(x.shape))
    return x / (k + alpha * mean) ** beta


def instance_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """Each channel of each example with mean 0 and variance 1, times weight, plus bias.

    Shapes: (N, C, *s), weight (C), bias (C) -> (N, C, *s).
    Same shape and dtype as x. Ulyanov et al. 2016, arXiv:1607.08022.

    >>> nn.functional.instance_norm(cr.ones((2, 3, 4))).shape
    (2, 3, 4)
    """
    _check("instance_norm", x, {"weight": weight, "bias": bias})
    return group_norm(x, x.shape[1], weight, bias, eps=eps)
