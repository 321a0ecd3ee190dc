"""The loss of connectionist temporal classification: labels in order, at steps that nobody marked.

Graves et al. 2006, doi:10.1145/1143844.1143891. The labels, with blanks before, between and behind
them, are the states of a path; a step stays, moves to the next state, or leaves out a blank between
different labels. The probability of all paths is summed step by step (their section 4.1), in
logarithms; its derivative is that of these sums.

Notation: T steps, N sequences, C classes, S labels at most, P = 2 S + 1 states.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.dtypes import check_real
from chainrule.engine.graph import value_of
from chainrule.engine.op import Spec
from chainrule.engine.tensors import asarray
from chainrule.errors import ConfigError, DtypeError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.selection import take, take_along_axis, where
from chainrule.ops.losses.common_losses import classes
from chainrule.ops.reductions import norms
from chainrule.ops.reductions import reduction as red
from chainrule.ops.reductions.scan import cumsum
from chainrule.ops.shapes.joining import concat, stack
from chainrule.ops.shapes.shaping import astype, broadcast_to, expand_dims, reshape, roomy
from chainrule.transforms.scan import scan


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """-log of the probability of all ways in which T steps spell the targets, as in PyTorch.

    Shapes: (T, N, C), (*s), (N), (N) -> () if reduction != "none";
        (T, N, C), (*s), (N), (N) -> (N);
        (T, C), targets (S) -> ().
    `log_probs` are logarithms of probabilities, as of `log_softmax`. Targets are (N, S), or those
    of all sequences in a row; none is `blank`. The mean is over sequences, each divided by the
    number of its labels. A sequence with fewer steps than its labels need costs infinity, or 0 with
    `zero_infinity`.

    >>> logs = cr.log_softmax(cr.zeros((4, 1, 3)), axis=-1)
    >>> nn.functional.ctc_loss(logs, cr.tensor([[1, 2]]), cr.tensor([4]), cr.tensor([2]))
    tensor(0.8431995, dtype=float32)
    """
    check_real("ctc_loss", log_probs)
    if log_probs.ndim == 2:
        steps = reshape(asarray(input_lengths), (-1,))
        counts = reshape(asarray(target_lengths), (-1,))
        loss: Any = _losses(expand_dims(log_probs, 1), targets, steps, counts, blank)[0]
        counts = counts[0]
    else:
        counts = asarray(target_lengths)
        loss = _losses(log_probs, targets, asarray(input_lengths), counts, blank)
    if zero_infinity:
        loss = where(loss == math.inf, 0, loss)
    if reduction == "mean":
        return red.mean(loss / astype(ew.at_least(counts, 1), loss.dtype))
    if reduction not in ("sum", "none"):
        raise ConfigError(f"ctc_loss: reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    return red.sum(loss) if reduction == "sum" else loss


def _losses(logp: Any, targets: Any, steps: Any, counts: Any, blank: int) -> Any:
    """(T, N, C) -> (N)."""
    _check(logp, targets, steps, counts, blank)
    labels = classes("ctc_loss", _to_rows(targets, counts), logp.shape[2])
    return _of_rows(logp, labels, steps, counts, blank)


def _check(logp: Any, targets: Any, steps: Any, counts: Any, blank: int) -> None:
    """Raise for arguments whose shapes, lengths or labels do not fit."""
    if logp.ndim != 3 or not 0 <= blank < logp.shape[2]:
        raise ShapeError(
            "ctc_loss: log_probs are (T, N, C) or (T, C), and blank is one of C classes, not "
            f"{tuple(logp.shape)} and {blank}"
        )
    n = logp.shape[1]
    for name, x in (("input_lengths", steps), ("target_lengths", counts)):
        if tuple(x.shape) != (n,) or x.dtype.kind not in "iu":
            raise ShapeError(
                f"ctc_loss: {name} are {n} integers, one for each sequence, not {x.dtype} "
                f"{tuple(x.shape)}"
            )
        least, most = (0, logp.shape[0]) if x is steps else (0, None)
        if not _within(x, least, most):
            raise ConfigError(
                f"ctc_loss: {name} are from {least} to {most}, not {value_of(x).tolist()}"
            )
    if targets.dtype.kind not in "iu":
        raise DtypeError(f"ctc_loss: targets are class indices, not {targets.dtype}")
    if targets.ndim not in (1, 2) or (targets.ndim == 2 and targets.shape[0] != n):
        raise ShapeError(
            f"ctc_loss: targets are ({n}, S), or all labels in a row, not {tuple(targets.shape)}"
        )


def _within(x: Any, least: int, most: int | None) -> bool:
    """Whether integers are within bounds, as far as they are known."""
    value = value_of(x)
    if type(value) is Spec or not value.size:
        return True
    return value.min() >= least and (most is None or value.max() <= most)


def _to_rows(targets: Any, counts: Any) -> Any:
    """Targets as rows (N, S); of all labels in a row each sequence takes what is its own."""
    if targets.ndim == 2:
        return targets
    total = int(targets.shape[0])
    known: Any = value_of(counts)
    traced = isinstance(known, Spec)
    longest = total if traced else int(known.max(initial=0))
    if not traced and int(known.sum()) != total:
        raise ShapeError(
            f"ctc_loss: target_lengths {known.tolist()} add up to {known.sum()}, but there are "
            f"{total} targets"
        )
    start = cumsum(counts, axis=0) - counts
    at = expand_dims(start, 1) + np.arange(longest)
    return take(targets, ew.at_most(at, max(total - 1, 0)), axis=0) if total else at


@roomy
def _of_rows(logp: Any, labels: Any, steps: Any, counts: Any, blank: int) -> Any:
    """(T, N, C), (N, S), (N), (N) -> (N)."""
    T, N, _ = logp.shape
    S = int(labels.shape[1])
    P = 2 * S + 1
    blanks = np.full((N, S, 1), blank, labels.dtype)
    pairs = reshape(concat([blanks, expand_dims(labels, -1)], axis=-1), (N, 2 * S))
    states = concat([pairs, np.full((N, 1), blank, labels.dtype)], axis=1)
    emitted = take_along_axis(logp, broadcast_to(expand_dims(states, 0), (T, N, P)), axis=2)
    two_back = concat([np.full((N, min(2, P)), blank, labels.dtype), states[:, :-2]], axis=1)
    skips = ew.logical_and(states != blank, states != two_back)
    inside = expand_dims(ew.less(np.arange(T)[:, None], steps), -1)

    def step(before: Any, now: Any) -> tuple[Any, Any]:
        scores, here = now
        from_two = where(skips, _shift_right(before, 2), -math.inf)
        paths = norms.logsumexp(stack([before, _shift_right(before, 1), from_two]), axis=0)
        return where(here, paths + scores, before), None

    first = asarray(np.where(np.arange(P) == 0, 0, np.full((N, P), -math.inf)).astype(logp.dtype))
    last, _ = scan(step, first, (emitted, inside))
    ends = expand_dims(2 * astype(counts, np.int64), 1)
    at_blank = take_along_axis(last, ends, axis=1)
    at_label = take_along_axis(last, ew.at_least(ends - 1, 0), axis=1)
    at_label = where(ends > 0, at_label, -math.inf)
    return -norms.logsumexp(concat([at_blank, at_label], axis=1), axis=1)


def _shift_right(x: Any, places: int) -> Any:
    """(N, P), moved to the right; -inf comes in."""
    N, P = x.shape
    empty = np.full((N, min(places, P)), -math.inf, x.dtype)
    return concat([empty, x[:, : max(P - places, 0)]], axis=1)
