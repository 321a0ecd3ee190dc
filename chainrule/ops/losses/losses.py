"""Losses beside those of `common_losses`: functions of ops.

`reduction` is "mean", "sum" or "none". Shapes must be equal where nothing else is said, so that
nothing is broadcast by accident.

Notation: B batch, C classes, d width of a vector.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.dtypes import check_real
from chainrule.errors import ConfigError, DtypeError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.accidental_broadcast import same_shapes
from chainrule.ops.fusing import fused
from chainrule.ops.indexing.selection import take, take_along_axis, where
from chainrule.ops.kernel_use import of_dtype
from chainrule.ops.losses.common_losses import classes, difference, pytorch_axis, reduce_loss
from chainrule.ops.networks.activations import logsigmoid
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import expand_dims, normalize_axis, roomy, squeeze
from chainrule.ops.special.table import xlogy

# --- Of numbers ----------------------------------------------------------------------------------


@fused("l1_loss", x="N", target="N", to="N")
def l1_loss(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """|x - target|.

    Shapes: (...), (...) -> () if reduction != "none"; (...), (...) -> (...).

    >>> nn.functional.l1_loss(cr.tensor([0.0, 0.0]), cr.tensor([1.0, 3.0]))
    tensor(2., dtype=float32)
    """
    same_shapes("l1_loss", x, target)
    return reduce_loss(ew.abs(difference(x, target)), reduction)


def huber_loss(x: Any, target: Any, *, delta: float = 1.0, reduction: str = "mean") -> Any:
    """Half the square of x - target where that is below `delta`, a straight line beyond.

    Shapes: (...), (...) -> () if reduction != "none"; (...), (...) -> (...).
    Huber 1964, doi:10.1214/aoms/1177703732.

    >>> nn.functional.huber_loss(cr.tensor([0.0, 0.0]), cr.tensor([1.0, 3.0]))
    tensor(1.5, dtype=float32)
    """
    if delta <= 0:
        raise ConfigError(f"huber_loss: delta must be positive, not {delta}")
    same_shapes("huber_loss", x, target)
    return _huber(x, target, of_dtype(x, delta), reduction)


@fused("huber_loss", x="N", target="N", delta="", to="N")
def _huber(x: Any, target: Any, delta: Any, reduction: str) -> Any:
    far = ew.abs(difference(x, target))
    near = ew.at_most(far, delta)  # near (far - near / 2) is both branches
    return reduce_loss(near * (far - 0.5 * near), reduction)


def smooth_l1_loss(x: Any, target: Any, *, beta: float = 1.0, reduction: str = "mean") -> Any:
    """`huber_loss` divided by its delta, `beta`; |x - target| for 0. Girshick 2015, 1504.08083.

    Shapes: (...), (...) -> () if reduction != "none"; (...), (...) -> (...).

    >>> nn.functional.smooth_l1_loss(cr.tensor([0.0, 0.0]), cr.tensor([1.0, 3.0]))
    tensor(1.5, dtype=float32)
    """
    if beta == 0:
        return l1_loss(x, target, reduction=reduction)
    return huber_loss(x, target, delta=beta, reduction=reduction) / beta


def poisson_nll_loss(
    x: Any,
    target: Any,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    """-log of the Poisson probability of `target` at the rate exp(x), or x if not `log_input`.

    Shapes: (...), (...) -> () if reduction != "none"; (...), (...) -> (...).
    Without log(target!), unless `full`: then with Stirling's approximation of it for targets above
    1, as PyTorch has it. `eps` keeps the logarithm of a rate of 0 finite.

    >>> nn.functional.poisson_nll_loss(cr.tensor([0.0]), cr.tensor([2.0]))
    tensor(1., dtype=float32)
    """
    check_real("poisson_nll_loss", x, target)
    same_shapes("poisson_nll_loss", x, target)
    loss = ew.exp(x) - target * x if log_input else x - target * ew.log(x + eps)
    if full:
        safe = where(target > 1, target, 1)
        stirling = safe * ew.log(safe) - safe + 0.5 * ew.log(2 * math.pi * safe)
        loss = loss + where(target > 1, stirling, 0)
    return reduce_loss(loss, reduction)


def gaussian_nll_loss(
    x: Any,
    target: Any,
    variance: Any,
    *,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """-log of the normal density of `target` at mean `x` and `variance`, which is at least `eps`.

    Shapes: (*s), (*s), variance (*v) -> () if reduction != "none";
        (*s), (*s), variance (*v) -> (*s).
    The variance has the shape of `x`, but may have size 1 along one axis, or lack the last one; so
    in PyTorch. A number stands for all. `eps` is a guard and has no gradient of its own: the
    derivative for the variance is that at max(variance, eps). Without log(2 pi) / 2 unless `full`.
    Nix & Weigend 1994, doi:10.1109/ICNN.1994.374138.

    >>> nn.functional.gaussian_nll_loss(cr.tensor([1.0]), cr.tensor([3.0]), cr.tensor([4.0]))
    tensor(1.1931472, dtype=float32)
    """
    check_real("gaussian_nll_loss", x, target)
    same_shapes("gaussian_nll_loss", x, target)
    variance = _fitting_variance(variance, tuple(x.shape))
    safe = variance + where(variance < eps, _detach(eps - variance), 0)
    loss = 0.5 * (ew.log(safe) + ew.square(difference(x, target)) / safe)
    return reduce_loss(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def _fitting_variance(variance: Any, shape: tuple[int, ...]) -> Any:
    """The variance with the axis that it lacks; raises if it would broadcast in another way."""
    own = tuple(getattr(variance, "shape", ()))
    if own in ((), shape):
        return variance
    if own == shape[:-1]:
        return expand_dims(variance, -1)
    differ = [m for m, n in zip(own, shape, strict=False) if m != n]
    if len(own) != len(shape) or differ != [1]:
        raise ShapeError(
            f"gaussian_nll_loss: a variance for x {shape} has that shape, or {shape[:-1]}, or size "
            f"1 along one axis, not {own}"
        )
    return variance


def _detach(x: Any) -> Any:
    """`x` without its derivative."""
    return x.detach() if hasattr(x, "detach") else x


# --- Of probabilities ----------------------------------------------------------------------------


@roomy
def kl_div(x: Any, target: Any, *, log_target: bool = False, reduction: str = "mean") -> Any:
    """target (log(target) - x): x is log probabilities, the target probabilities or their logs.

    Shapes: (...), (...) -> () if reduction != "none"; (...), (...) -> (...).
    Summed over all, the Kullback-Leibler divergence; the reduction "batchmean" divides that by the
    size of the first axis.

    >>> p = cr.tensor([[0.25, 0.75]])
    >>> nn.functional.kl_div(cr.log(cr.tensor([[0.5, 0.5]])), p, reduction="batchmean")
    tensor(0.13081202, dtype=float32)
    """
    check_real("kl_div", x, target)
    same_shapes("kl_div", x, target)
    loss = ew.exp(target) * (target - x) if log_target else xlogy(target, target) - target * x
    if reduction == "batchmean":
        return red.sum(loss) / (x.shape[0] if x.ndim else 1)
    return reduce_loss(loss, reduction)


def binary_cross_entropy(
    x: Any, target: Any, *, weight: Any = None, reduction: str = "mean"
) -> Any:
    """-log of the probability of `target` under the probability `x`, each logarithm above -100.

    Shapes: (...), (...), weight (...) -> () if reduction != "none";
        (...), (...), weight (...) -> (...).
    Better conditioned is `binary_cross_entropy_with_logits`.

    >>> nn.functional.binary_cross_entropy(cr.tensor([0.5, 0.9]), cr.tensor([0.0, 1.0]))
    tensor(0.39925388, dtype=float32)
    """
    check_real("binary_cross_entropy", x, target)
    same_shapes("binary_cross_entropy", x, target)
    yes, no = ew.at_least(ew.log(x), -100), ew.at_least(ew.log1p(-x), -100)
    loss = -(target * yes + (1 - target) * no)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


@roomy
def nll_loss(
    logp: Any,
    target: Any,
    *,
    axis: int = -1,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:
    """-logp at the class `target`, along `axis` of size C; the target has the other axes.

    Shapes: (*s, axis: C), (*s), weight (C) -> () if reduction != "none";
        (*s, axis: C), (*s), weight (C) -> (*s).
    `weight` (C,) multiplies each class, and the mean divides by the weights' sum. Positions whose
    index is `ignore_index` give 0 and do not count. Raises for an index outside 0..C-1.

    >>> nn.functional.nll_loss(cr.log(cr.tensor([[0.5, 0.5], [0.1, 0.9]])), cr.tensor([0, 1]))
    tensor(0.39925388, dtype=float32)
    """
    check_real("nll_loss", logp)
    if target.dtype.kind not in "iu":
        raise DtypeError(f"nll_loss: the target is class indices, not {target.dtype}")
    axis = normalize_axis(axis, logp.ndim)
    rest = (*logp.shape[:axis], *logp.shape[axis + 1 :])
    if tuple(target.shape) != tuple(rest):
        hint = pytorch_axis(logp.shape, target.shape)
        raise ShapeError(
            f"nll_loss: logp {tuple(logp.shape)} with classes along axis {axis} needs class "
            f"indices of shape {rest}, not {tuple(target.shape)}{hint}"
        )
    used = True if ignore_index is None else target != ignore_index
    index = target if ignore_index is None else where(used, target, 0)
    index = classes("nll_loss", index, logp.shape[axis])
    picked = squeeze(take_along_axis(logp, expand_dims(index, axis), axis=axis), axis)
    ones = np.ones(logp.shape[axis], logp.dtype)
    share = where(used, take(ones if weight is None else weight, index, axis=0), 0)
    return reduce_loss(where(used, -picked * share, 0), reduction, red.sum(share))


@roomy
def multilabel_soft_margin_loss(
    x: Any, target: Any, *, weight: Any = None, reduction: str = "mean"
) -> Any:
    """The mean over the last axis (.., C) of -log of the probability of `target` under sigmoid.

    Shapes: (..., C), (..., C) -> () if reduction != "none"; (..., C), (..., C) -> (...).

    >>> nn.functional.multilabel_soft_margin_loss(cr.zeros((1, 2)), cr.tensor([[1.0, 0.0]]))
    tensor(0.6931472, dtype=float32)
    """
    same_shapes("multilabel_soft_margin_loss", x, target)
    loss = -(target * logsigmoid(x) + (1 - target) * logsigmoid(-x))
    loss = loss if weight is None else loss * weight
    return reduce_loss(red.mean(loss, axis=-1), reduction)
