"""A softmax over very many classes, of which rare ones have fewer parameters each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.nn import functional
from chainrule.nn.base.containers import ModuleList, Sequential
from chainrule.nn.base.module import Module
from chainrule.nn.layers import Linear, check_sizes
from chainrule.ops.indexing.selection import take_along_axis, where
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.joining import concat
from chainrule.ops.shapes.shaping import expand_dims, squeeze
from chainrule.random import Generator


class AdaptiveLogSoftmax(NamedTuple):
    """What `AdaptiveLogSoftmaxWithLoss` gives: log-probabilities of the targets, and their loss."""

    output: Tensor
    loss: Tensor


@final
class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of n_classes classes, sorted by how frequent they are.

    `cutoffs` part the classes. The head scores the first ones, and each later part as a whole. The
    classes of part i are scored by a matrix of rank in_features / div_value ** i. Grave et al.
    2017, arXiv:1609.04309.

    A call gives the log-probability of each example's target, and minus their mean. All parts are
    computed for all examples, so that no shape depends on the targets: this saves parameters, not
    time.

    >>> model = nn.AdaptiveLogSoftmaxWithLoss(8, 100, cutoffs=[10, 50], div_value=2.0)
    >>> model(cr.ones((5, 8)), cr.arange(5))[0].shape
    (5,)
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        check_sizes(name, in_features=in_features, n_classes=n_classes)
        ends = [int(c) for c in cutoffs]
        if not ends or any(a >= b for a, b in zip([0, *ends], [*ends, n_classes], strict=True)):
            raise ConfigError(
                f"{name}: cutoffs are integers from 1 to {n_classes - 1}, each larger than the one "
                f"before, not {cutoffs!r}"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs, self.div_value, self.head_bias = [*ends, n_classes], div_value, head_bias
        more: dict[str, Any] = {"dtype": dtype, "generator": generator}
        self.head = Linear(in_features, ends[0] + len(ends), bias=head_bias, **more)
        self.tail = ModuleList([])
        for i, (low, high) in enumerate(self._parts(), start=1):
            rank = int(in_features // div_value**i)
            check_sizes(f"{name} (rank of part {i})", rank=rank)
            first = Linear(in_features, rank, bias=False, **more)
            self.tail.append(Sequential(first, Linear(rank, high - low, bias=False, **more)))

    def _parts(self) -> list[tuple[int, int]]:
        """The first class of each part but the head's, and the one after its last."""
        return list(zip(self.cutoffs, self.cutoffs[1:], strict=False))

    def forward(self, x: Any, target: Any) -> AdaptiveLogSoftmax:
        """Shapes: (*n, in_features), (*n) -> (*n), ()."""
        if x.ndim not in (1, 2) or tuple(target.shape) != tuple(x.shape[:-1]):
            raise ShapeError(
                f"{type(self).__name__}: x is (N, {self.in_features}) and target (N,), or both "
                f"without N, not {tuple(x.shape)} and {tuple(target.shape)}"
            )
        head = functional.log_softmax(self.head(x))
        output = _picked(head, where(target < self.cutoffs[0], target, 0))
        for i, (low, high) in enumerate(self._parts()):
            inside = (target >= low) & (target < high)
            here = functional.log_softmax(self.tail[i](x))
            both = _picked(here, where(inside, target - low, 0)) + head[..., self.cutoffs[0] + i]
            output = where(inside, both, output)
        return AdaptiveLogSoftmax(output, -red.mean(output))

    def log_prob(self, x: Any) -> Tensor:
        """The log-probabilities of all classes.

        Shapes: (..., in_features) -> (..., n_classes).
        """
        head, first = functional.log_softmax(self.head(x)), self.cutoffs[0]
        parts = [
            functional.log_softmax(tail(x)) + head[..., first + i : first + i + 1]
            for i, tail in enumerate(self.tail)
        ]
        return concat([head[..., :first], *parts], axis=-1)

    def predict(self, x: Any) -> Tensor:
        """The class of the largest probability.

        Shapes: (..., in_features) -> (...).
        """
        return red.argmax(self.log_prob(x), axis=-1)


def _picked(x: Any, classes: Any) -> Any:
    """The element of each row of x at its class."""
    return squeeze(take_along_axis(x, expand_dims(classes, -1), axis=-1), -1)
