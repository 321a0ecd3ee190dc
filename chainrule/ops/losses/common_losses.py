"""The losses of most training: cross entropy, of classes and of yes or no, and mean squares.

Notation: C classes.
"""

from __future__ import annotations

import math
from typing import Any

from chainrule.engine.dtypes import INEXACT, REAL, check_real, int64
from chainrule.engine.op import Spec
from chainrule.errors import ConfigError, DtypeError, IndexingError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.accidental_broadcast import same_shapes
from chainrule.ops.complex import squared_size
from chainrule.ops.fusing import fused
from chainrule.ops.indexing.selection import take, take_along_axis, where
from chainrule.ops.networks.composite import log_softmax
from chainrule.ops.reductions import norms
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import (
    astype,
    expand_dims,
    normalize_axis,
    reshape,
    roomy,
    squeeze,
)


def difference(a: Any, b: Any) -> Any:
    """a - b; of whole numbers in float64: 1 - 2 is 255 in uint8."""
    return a - b if b.dtype.kind in INEXACT else red.floating(a) - b


def reduce_loss(loss: Any, reduction: str, count: Any = None) -> Any:
    """The loss of each element, their sum, or their mean: the sum divided by `count`, if given."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return red.sum(loss)
    if reduction == "mean":
        return red.mean(loss) if count is None else red.sum(loss) / count
    raise ConfigError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")


# --- Cross entropy -------------------------------------------------------------------------------


@fused("cross_entropy", logits="NC", target="N", weight="C", to="N")
@roomy
def cross_entropy(
    logits: Any,
    target: Any,
    *,
    axis: int | None = None,
    weight: Any = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """-log softmax(logits) at the target, along `axis` of size C, by default the last.

    Shapes: (*s, axis or -1: C), (*s), weight (C) -> () if reduction != "none";
        (*s, axis or -1: C), (*s, axis or -1: C), weight (C) -> () if reduction != "none";
        (*s, axis or -1: C), weight (C) -> (*s).
    `target`: class indices (integers; the shape of `logits` without `axis`), or probabilities
    (floats; the shape of `logits`). Positions whose index is `ignore_index` give loss 0 and do not
    count in the mean. With label smoothing s the target is (1 - s) target + s / C. What a class
    costs is multiplied by its `weight`. The mean is over positions; for class indices with weights
    it is, as in PyTorch, the sum divided by the weights of the targets; NaN if all are ignored.
    Raises for an index outside 0..C-1, and for probabilities with three axes or more if no `axis`
    is given: PyTorch's classes are along axis 1.

    >>> cr.cross_entropy(cr.tensor([[0.0, 0.0], [0.0, 2.0]]), cr.tensor([0, 1]))
    tensor(0.4100376, dtype=float32)
    """
    if not 0 <= label_smoothing <= 1:
        raise ConfigError(f"label_smoothing is between 0 and 1, not {label_smoothing}")
    check_real("cross_entropy", logits)
    if axis is None and target.dtype.kind in REAL and logits.ndim > 2:
        raise ConfigError(
            f"cross_entropy: say along which axis of {tuple(logits.shape)} the classes lie: axis=1 "
            "as in PyTorch, or axis=-1"
        )
    axis = normalize_axis(-1 if axis is None else axis, logits.ndim)
    if weight is not None and tuple(weight.shape) != (logits.shape[axis],):
        raise ShapeError(
            f"cross_entropy: logits {logits.shape} with classes along axis {axis} need weights of "
            f"shape ({logits.shape[axis]},), not {tuple(weight.shape)}"
        )
    if target.dtype.kind in REAL:
        return _of_probabilities(logits, target, axis, weight, label_smoothing, reduction)
    _check_targets(logits, target, axis)
    used = None if ignore_index is None else target != ignore_index
    index = target if used is None else where(used, target, 0)
    index = classes("cross_entropy", index, logits.shape[axis])
    return _of_classes(logits, index, used, weight, axis, label_smoothing, reduction)


def _of_classes(
    logits: Any, index: Any, used: Any, weight: Any, axis: int, smooth: float, reduction: str
) -> Any:
    """The cross entropy of class indices, which all are classes; those not `used` cost nothing."""
    rest, total, shift = norms.shift_by_max(logits, axis=axis)
    picked = squeeze(take_along_axis(logits, expand_dims(index, axis), axis=axis), axis)
    total = squeeze(total, axis)
    loss = total - (picked - squeeze(shift, axis))
    counts: Any = None if used is None else astype(used, logits.dtype)
    if weight is not None:
        share = take(weight, index, axis=0)
        loss, counts = loss * share, share if used is None else where(used, share, 0)
    if smooth:
        flat = _of_all_classes(rest, total, axis, weight)
        loss = (1 - smooth) * loss + smooth * flat
    loss = loss if used is None else where(used, loss, 0)
    return reduce_loss(loss, reduction, None if counts is None else red.sum(counts))


def _of_all_classes(logits: Any, total: Any, axis: int, weight: Any) -> Any:
    """The mean over classes of what each would cost as the target."""
    if weight is None:
        return total - red.mean(logits, axis=axis)
    return red.mean((expand_dims(total, axis) - logits) * _along(weight, logits, axis), axis=axis)


def _along(weight: Any, logits: Any, axis: int) -> Any:
    """The weights of the classes, lying along `axis`."""
    return reshape(weight, (-1, *[1] * (logits.ndim - 1 - axis)))


def _check_targets(logits: Any, target: Any, axis: int) -> None:
    """Raise unless `target` is integers of the shape of `logits` without `axis`."""
    if target.dtype.kind not in "iu":
        raise DtypeError(f"cross_entropy: a target is integers or floats, not {target.dtype}")
    rest = tuple([n for i, n in enumerate(logits.shape) if i != axis])
    if tuple(target.shape) != rest:
        raise ShapeError(
            f"cross_entropy: logits {logits.shape} with classes along axis {axis} need class "
            f"indices of shape {rest}, not {target.shape}{pytorch_axis(logits.shape, target.shape)}"
        )


def pytorch_axis(shape: Any, target: Any) -> str:
    """What to say where a target fits PyTorch's axis of classes, which is the second."""
    fits = len(shape) > 2 and (*shape[:1], *shape[2:]) == tuple(target)
    return "; for classes along axis 1, as in PyTorch, say axis=1" if fits else ""


def classes(what: str, index: Any, count: int) -> Any:
    """`index`; raises for a class outside 0..count - 1: a negative one would count from the end.

    Where values are not known yet it is put beyond the end, which a compiled call notices.
    """
    value = getattr(index, "value", index)
    if isinstance(value, Spec):
        # widened first: as an int8 a count of 200 is negative
        return index if value.dtype.kind == "u" else where(index < 0, count, astype(index, int64))
    if value.size == 0:
        return index
    # those below 0, read without a sign, are beyond what an array with a sign can hold
    unsigned = value.view(f"u{value.itemsize}") if value.dtype.kind == "i" else value
    if unsigned.max() < min(count, 1 << (8 * value.itemsize - 1)):
        return index
    for wrong in (value.min(), value.max()):
        if not 0 <= wrong < count:
            raise IndexingError(
                f"{what}: class {wrong} is not among 0..{count - 1}; positions to be left "
                "out carry the number that is given as ignore_index"
            )
    return index


def _of_probabilities(
    logits: Any, target: Any, axis: int, weight: Any, smooth: float, how: str
) -> Any:
    """The cross entropy of probabilities of all classes."""
    if tuple(target.shape) != tuple(logits.shape):
        raise ShapeError(
            f"cross_entropy: probabilities must have the shape of the logits, {logits.shape}, "
            f"not {target.shape}"
        )
    if smooth:
        target = (1 - smooth) * target + smooth / logits.shape[axis]
    logp = log_softmax(logits, axis=axis)
    # a class of probability 0 costs nothing, even where its log probability is -inf
    costless = ew.logical_and(target == 0, logp == -math.inf)
    loss = target * where(costless, 0, logp)
    if weight is not None:
        loss = loss * _along(weight, logits, axis)
    return reduce_loss(-red.sum(loss, axis=axis), how)


def binary_cross_entropy_with_logits(
    x: Any, target: Any, *, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Any:
    """-log of the probability of `target` (in [0, 1]) under sigmoid(x), without overflow.

    Shapes: (...), (...), weight (...), pos_weight (...) -> () if reduction != "none";
        (...), (...), weight (...), pos_weight (...) -> (...).
    `weight` multiplies each element's loss, `pos_weight` its part for the target 1; both broadcast.

    >>> cr.binary_cross_entropy_with_logits(cr.tensor([0.0, 2.0]), cr.tensor([0.0, 1.0]))
    tensor(0.41003758, dtype=float32)
    """
    same_shapes("binary_cross_entropy_with_logits", x, target)
    return _of_bits(x, target, weight, pos_weight, reduction)


@fused("binary_cross_entropy_with_logits", x="N", target="N", to="N")
def _of_bits(x: Any, target: Any, weight: Any, pos_weight: Any, reduction: str) -> Any:
    if pos_weight is None:
        loss = ew.logistic_loss(x, target)
    else:
        loss = (1 - target) * ew.softplus(x) + pos_weight * target * ew.softplus(-x)
    return reduce_loss(loss if weight is None else loss * weight, reduction)


# --- Squares -------------------------------------------------------------------------------------


@fused("mse_loss", x="N", target="N", to="N")
def mse_loss(x: Any, target: Any, *, reduction: str = "mean") -> Any:
    """|x - target| squared; shapes must be equal, so that nothing is broadcast by accident.

    Shapes: (*s), (*s) -> () if reduction != "none"; (*s), (*s) -> (*s).

    >>> cr.mse_loss(cr.tensor([1.0, 2.0]), cr.tensor([1.0, 4.0]))
    tensor(2., dtype=float32)
    """
    same_shapes("mse_loss", x, target)
    return reduce_loss(squared_size(difference(x, target)), reduction)
