"""The layers: linear maps, normalisations over the last axis.

PyTorch's names and defaults. Notation: `..` any leading axes, C channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from chainrule.engine.arrays import admit_dtype
from chainrule.engine.dtypes import finfo
from chainrule.engine.graph import variable
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.nn import functional
from chainrule.nn.base.module import Module
from chainrule.nn.init import uniform_
from chainrule.ops.shapes.shaping import reshape
from chainrule.random import Generator

Init = Callable[[Tensor], Any]
"""Gives a tensor its initial values: a function of `nn.init`, say."""


def check_sizes(what: str, **sizes: int) -> None:
    """Raise `ConfigError` unless every size is a positive integer."""
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise ConfigError(f"{what}: {name} is a positive integer, not {size!r}")


def parameter(shape: tuple[int, ...], value: float, dtype: Any) -> Tensor:
    """A tensor full of `value` that requires a gradient."""
    return variable(np.full(shape, value, admit_dtype(dtype))).requires_grad_()


@final
class Linear(Module):
    """x (.., n) -> x weightT + bias (.., m), for weight (m, n): n in_features, m out_features.

    Both start uniform in +-1 / sqrt(n); or `init` fills the weight, and the bias starts at 0.

    >>> layer = nn.Linear(2, 3)
    >>> layer(cr.ones((5, 2))).shape, layer.weight.shape
    ((5, 3), (3, 2))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        init: Init | None = None,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.weight = parameter((out_features, in_features), 0.0, dtype)
        self.bias = parameter((out_features,), 0.0, dtype) if bias else None
        if init is not None:
            init(self.weight)
            return
        bound = 1 / math.sqrt(in_features)
        for t in (self.weight, self.bias):
            if t is not None:
                uniform_(t, -bound, bound, generator=generator)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (..., in_features) -> (..., out_features)."""
        return functional.linear(x, self.weight, self.bias)


@final
class Bilinear(Module):
    """x1 (.., n), x2 (.., m) -> x1 weight x2 + bias (.., k), for weight (k, n, m).

    Both start uniform in +-1 / sqrt(n).

    >>> nn.Bilinear(2, 3, 4)(cr.ones((5, 2)), cr.ones((5, 3))).shape
    (5, 4)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        sizes = {"in1_features": in1_features, "in2_features": in2_features}
        check_sizes("Bilinear", **sizes, out_features=out_features)
        self.weight = parameter((out_features, in1_features, in2_features), 0.0, dtype)
        self.bias = parameter((out_features,), 0.0, dtype) if bias else None
        bound = 1 / math.sqrt(in1_features)
        for t in (self.weight, self.bias):
            if t is not None:
                uniform_(t, -bound, bound, generator=generator)

    def forward(self, x1: Any, x2: Any) -> Tensor:
        """Shapes: (..., n), (..., m) -> (..., k)."""
        return functional.bilinear(x1, x2, self.weight, self.bias)


class _RowNorm(Module):
    """The last axes, of `normalized_shape`, as one row, which is normalised."""

    def _begin(self, normalized_shape: int | Sequence[int]) -> None:
        shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        if not shape:
            raise ConfigError(f"{type(self).__name__}: normalized_shape has at least one axis")
        for n in shape:
            check_sizes(type(self).__name__, normalized_shape=n)
        self.normalized_shape = tuple(shape)

    def _row(self, x: Any) -> Any:
        """x with those axes as one."""
        n = len(self.normalized_shape)
        if tuple(x.shape[-n:]) != self.normalized_shape:
            raise ShapeError(
                f"{type(self).__name__}: the last axes of x are {self.normalized_shape}, not "
                f"{tuple(x.shape)}"
            )
        return x if n == 1 else reshape(x, (*x.shape[:-n], -1))

    @staticmethod
    def _flat(t: Tensor | None) -> Any:
        return t if t is None or t.ndim == 1 else reshape(t, (-1,))


@final
class LayerNorm(_RowNorm):
    """`chainrule.layer_norm` over the last axes; if affine with weight and bias, ones and zeros.

    >>> nn.LayerNorm(4)(cr.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
    ) -> None:
        self._begin(normalized_shape)
        self.eps = eps
        shape, affine = self.normalized_shape, elementwise_affine
        self.weight = parameter(shape, 1.0, dtype) if affine else None
        self.bias = parameter(shape, 0.0, dtype) if affine and bias else None

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        weight, bias = self._flat(self.weight), self._flat(self.bias)
        y = functional.layer_norm(self._row(x), weight, bias, eps=self.eps)
        return reshape(y, tuple(x.shape)) if y.ndim < x.ndim else y


@final
class RMSNorm(_RowNorm):
    """`chainrule.rms_norm` over the last axes; if affine with a weight, of ones.

    eps None stands for the spacing of the input's dtype at 1, as in PyTorch.

    >>> nn.RMSNorm(4)(cr.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = np.float32,
    ) -> None:
        self._begin(normalized_shape)
        self.eps = eps
        shape = self.normalized_shape
        self.weight = parameter(shape, 1.0, dtype) if elementwise_affine else None

    def forward(self, x: Any) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        eps = finfo(x.dtype).eps if self.eps is None else self.eps
        y = functional.rms_norm(self._row(x), self._flat(self.weight), eps=eps)
        return reshape(y, tuple(x.shape)) if y.ndim < x.ndim else y
