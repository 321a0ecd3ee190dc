"""Gradient accumulation: one step from several backward passes, as if all rows had come at once.

A mean loss of a part is a mean over its own rows. What belongs into the gradient of the whole is
its share, the part's count over the count of all parts: 1 / (number of parts) if they are even.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.engine.arrays import operand
from chainrule.engine.graph import tracer
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, GradientError
from chainrule.tree import flatten

if TYPE_CHECKING:
    from chainrule.amp.scaler import GradScaler

Count = Callable[[Any], int]
"""How much a part counts for: a function of it."""


def accumulate(
    parts: Iterable[Any], by: str | Count = "rows", *, ignore_index: int | None = None
) -> Accumulation:
    """Iterate over the parts of one batch, each with the share that its loss has in the whole.

    `by` says what a mean loss is a mean over. "rows" is the first axis of a part's first array.
    "tokens" are the elements of its last array, the targets, except those that are `ignore_index`.
    A function gives the count of a part. All parts are counted before the first is used.

    >>> import chainrule as cr
    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> rows = cr.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> for micro in optim.accumulate([rows[:2], rows[2:]]):
    ...     micro.backward((micro.part @ w).mean())
    >>> w.grad  # that of (rows @ w).mean()
    tensor([0.6666667, 0.6666667], dtype=float32)
    """
    return Accumulation(list(parts), _counter(by, ignore_index))


def _counter(by: str | Count, ignore_index: int | None) -> Count:
    if callable(by):
        return by
    if by == "rows":
        return _rows
    if by == "tokens":
        return lambda part: _tokens(part, ignore_index)
    raise ConfigError(f"accumulate: by is 'rows', 'tokens' or a function, not {by!r}")


def _arrays(part: Any) -> list[Any]:
    arrays = [x for x in flatten(part)[0] if hasattr(x, "shape")]
    if not arrays or not arrays[0].shape:
        raise ConfigError(
            f"accumulate: there is no array to count in a part of type {type(part).__name__}; give "
            "a function from a part to its count as `by`"
        )
    return arrays


def _rows(part: Any) -> int:
    return int(_arrays(part)[0].shape[0])


def _tokens(part: Any, ignore_index: int | None) -> int:
    targets = _arrays(part)[-1]
    if ignore_index is None:
        return math.prod(targets.shape)
    values = targets.detach().numpy() if isinstance(targets, Tensor) else targets
    array = np.asarray(operand(values))
    return int(np.count_nonzero(array != ignore_index))


@final
class Micro:
    """One part of a batch: `part` itself, its `count`, and its `share` of the whole, at most 1.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> for micro in optim.accumulate([cr.ones((2, 2)), cr.ones((1, 2))]):
    ...     micro.backward((micro.part @ w).mean())
    >>> w.grad
    tensor([1., 1.], dtype=float32)
    """

    def __init__(self, part: Any, count: int, total: int) -> None:
        self.part = part
        self.count = count
        self.share = count / total
        self.loss: Any = None
        """What the loss adds to that of the whole, a float (inside `jit` a tensor); None before
        `backward`."""

    def backward(
        self, loss: Tensor, *, reduction: str = "mean", scaler: GradScaler | None = None
    ) -> None:
        """Add this part's contribution to the gradients: `loss` is the mean, or sum, over the part.

        A part with nothing to count has no contribution (its mean loss is NaN). With a `scaler` the
        contribution is scaled by it.
        """
        if reduction not in ("mean", "sum"):
            raise ConfigError(f"reduction is 'mean' or 'sum', not {reduction!r}")
        if self.loss is not None:
            raise GradientError("backward: this part has had its backward; it would count twice")
        if not self.count:
            self.loss = 0.0
            return
        mine = loss * (self.share if reduction == "mean" else self.share / self.count)
        self.loss = float(mine.item()) if tracer() is None else mine.detach()
        (mine if scaler is None else scaler.scale(mine)).backward()


@final
class Accumulation:
    """The parts of a batch, to iterate over once; then `loss` is that of the whole batch.

    >>> parts = optim.accumulate([cr.ones((2, 3)), cr.ones((1, 3))])
    >>> len(parts), parts.total
    (2, 3)
    """

    def __init__(self, parts: Sequence[Any], count: Count) -> None:
        counts = [count(part) for part in parts]
        for n in counts:
            if n < 0:
                raise ConfigError(f"accumulate: a part cannot count {n}")
        self.total = sum(counts)
        """What all parts count for together."""
        if not self.total:
            raise ConfigError(
                f"accumulate: {len(parts)} parts with nothing to count: there is no mean over them"
            )
        self.micros = [Micro(part, n, self.total) for part, n in zip(parts, counts, strict=True)]

    def __iter__(self) -> Iterator[Micro]:
        for i, micro in enumerate(self.micros):
            yield micro
            if micro.count and micro.loss is None:
                raise GradientError(
                    f"accumulate: part {i} of {len(self.micros)} was passed over: call "
                    "micro.backward(loss) for each, or the gradient lacks its share of "
                    f"{micro.share:.3g}"
                )

    def __len__(self) -> int:
        return len(self.micros)

    @property
    def loss(self) -> Any:
        """The mean loss of the whole batch, of the parts that have had their backward: a float
        (inside `jit` a tensor)."""
        losses = [m.loss for m in self.micros if m.loss is not None]
        traced = any(isinstance(loss, Tensor) for loss in losses)
        return sum(losses[1:], losses[0]) if traced else math.fsum(losses)
