"""Normalisation over the batch, over groups of channels, over each example. PyTorch's names.

`batch_norm` returns the running statistics; the modules here keep them, as buffers.
"""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np

from chainrule.engine.arrays import admit_dtype
from chainrule.engine.graph import variable
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.nn import functional
from chainrule.nn.base.module import Module
from chainrule.nn.layers import check_sizes, parameter
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.joining import tile
from chainrule.ops.shapes.shaping import expand_dims, reshape, squeeze


class _Running(Module):
    """C channels: a weight and a bias if affine, running statistics if they are tracked."""

    ndims: ClassVar[tuple[int, ...]]
    """How many axes x may have."""

    def _begin(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        dtype: Any,
        bias: bool,
    ) -> None:
        """Set the settings, the weight and bias if `affine`, and the running statistics if they are
        tracked."""
        check_sizes(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = parameter((num_features,), 1.0, dtype) if affine else None
        self.bias = parameter((num_features,), 0.0, dtype) if affine and bias else None
        self.running_mean = self.running_var = self.num_batches_tracked = None
        if track_running_stats:
            self.running_mean = variable(np.zeros(num_features, admit_dtype(dtype)))
            self.running_var = variable(np.ones(num_features, admit_dtype(dtype)))
            self.num_batches_tracked = variable(np.zeros((), np.int64))

    def _check(self, x: Any) -> None:
        if x.ndim not in self.ndims:
            raise ShapeError(
                f"{type(self).__name__}: x has {' or '.join(map(str, self.ndims))} axes, not "
                f"{tuple(x.shape)}"
            )

    def _rate(self) -> Any:
        """How far the running statistics move; without a momentum they are means of all batches."""
        if self.num_batches_tracked is None:
            return 0.1
        count = self.num_batches_tracked + 1
        self.num_batches_tracked.data = count
        if self.momentum is not None:
            return self.momentum
        assert self.running_mean is not None
        return 1 / count.astype(self.running_mean.dtype)


class _BatchNorm(_Running):
    """Each channel with mean 0 and variance 1 over batch and places; times weight, plus bias.

    In training the running statistics move towards those of the batch by `momentum` (None: they
    are the mean of all batches); in use they take their place. Ioffe & Szegedy 2015,
    arXiv:1502.03167.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        self._begin(num_features, eps, momentum, affine, track_running_stats, dtype, bias)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (N, num_features, *s) -> (N, num_features, *s)."""
        self._check(x)
        training = self.training or self.running_mean is None
        rate = self._rate() if self.training else 0.1
        y, mean, var = functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            training=training, momentum=rate, eps=self.eps,
        )  # fmt: skip
        if self.training and self.running_mean is not None and self.running_var is not None:
            self.running_mean.data, self.running_var.data = mean, var
        return y


@final
class BatchNorm1d(_BatchNorm):
    """`BatchNorm` of (N, C) or (N, C, L).

    >>> nn.BatchNorm1d(3)(cr.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    ndims: ClassVar[tuple[int, ...]] = (2, 3)


@final
class BatchNorm2d(_BatchNorm):
    """`BatchNorm` of (N, C, H, W).

    >>> nn.BatchNorm2d(3)(cr.ones((2, 3, 4, 5))).shape
    (2, 3, 4, 5)
    """

    ndims: ClassVar[tuple[int, ...]] = (4,)


@final
class BatchNorm3d(_BatchNorm):
    """`BatchNorm` of (N, C, D, H, W).

    >>> nn.BatchNorm3d(3)(cr.ones((2, 3, 4, 5, 6))).shape
    (2, 3, 4, 5, 6)
    """

    ndims: ClassVar[tuple[int, ...]] = (5,)


class _InstanceNorm(_Running):
    """Each channel of each example with mean 0 and variance 1. Ulyanov et al. 2016, 1607.08022.

    If running statistics are tracked they are used outside of training. An example may come without
    the axis of the batch.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        self._begin(num_features, eps, momentum, affine, track_running_stats, dtype, bias)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        self._check(x)
        if x.ndim == min(self.ndims):
            return squeeze(self._of_batch(expand_dims(x, 0)), 0)
        return self._of_batch(x)

    def _of_batch(self, x: Any) -> Tensor:
        """Each channel of each example by its own statistics; in use, by the running ones."""
        mean, var = self.running_mean, self.running_var
        if mean is None or var is None:
            return functional.instance_norm(x, self.weight, self.bias, eps=self.eps)
        if not self.training:
            args = (x, mean, var, self.weight, self.bias)
            return functional.batch_norm(*args, eps=self.eps).y
        n, c = int(x.shape[0]), int(x.shape[1])
        rate = 0.1 if self.momentum is None else self.momentum
        wide = reshape(x, (1, n * c, *x.shape[2:]))  # a channel for each of each example
        y, means, variances = functional.batch_norm(
            wide, tile(mean, (n,)), tile(var, (n,)), training=True, momentum=rate, eps=self.eps
        )
        mean.data, var.data = [red.mean(reshape(t, (n, c)), axis=0) for t in (means, variances)]
        y = reshape(y, tuple(x.shape))
        shape = (c, *[1] * (x.ndim - 2))
        y = y if self.weight is None else y * reshape(self.weight, shape)
        return y if self.bias is None else y + reshape(self.bias, shape)


@final
class InstanceNorm1d(_InstanceNorm):
    """`InstanceNorm` of (N, C, W), or (C, W).

    >>> nn.InstanceNorm1d(3)(cr.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    ndims: ClassVar[tuple[int, ...]] = (2, 3)


@final
class InstanceNorm2d(_InstanceNorm):
    """`InstanceNorm` of (N, C, H, W), or (C, H, W).

    >>> nn.InstanceNorm2d(3)(cr.ones((2, 3, 4, 5))).shape
    (2, 3, 4, 5)
    """

    ndims: ClassVar[tuple[int, ...]] = (3, 4)


@final
class InstanceNorm3d(_InstanceNorm):
    """`InstanceNorm` of (N, C, D, H, W), or (C, D, H, W).

    >>> nn.InstanceNorm3d(3)(cr.ones((2, 3, 4, 5, 6))).shape
    (2, 3, 4, 5, 6)
    """

    ndims: ClassVar[tuple[int, ...]] = (4, 5)


@final
class GroupNorm(Module):
    """Each example's channels in groups, each with mean 0 and variance 1; times weight.

    Wu & He 2018, arXiv:1803.08494.

    >>> nn.GroupNorm(3, 6)(cr.ones((2, 6, 5))).shape
    (2, 6, 5)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        check_sizes("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ConfigError(f"GroupNorm: {num_groups} groups do not divide {num_channels}")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = parameter((num_channels,), 1.0, dtype) if affine else None
        self.bias = parameter((num_channels,), 0.0, dtype) if affine and bias else None

    def forward(self, x: Any) -> Tensor:
        """Shapes: (N, num_channels, *s) -> (N, num_channels, *s)."""
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, eps=self.eps)


@final
class LocalResponseNorm(Module):
    """x / (k + alpha times the mean square of `size` neighbouring channels) ** beta.

    Krizhevsky et al. 2012, NeurIPS, section 3.3, in PyTorch's form.

    >>> nn.LocalResponseNorm(2)(cr.ones((1, 4, 5))).shape
    (1, 4, 5)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        check_sizes("LocalResponseNorm", size=size)
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        return functional.local_response_norm(
            x, self.size, alpha=self.alpha, beta=self.beta, k=self.k
        )
