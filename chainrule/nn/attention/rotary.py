"""Positions as rotations of queries and keys."""

from __future__ import annotations

from typing import Any, cast, final

import numpy as np

from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.nn.base.module import Module
from chainrule.nn.layers import check_sizes
from chainrule.ops import elementwise as ew
from chainrule.ops.shapes.joining import concat, split
from chainrule.ops.shapes.shaping import astype, expand_dims, reshape


@final
class RotaryEmbedding(Module):
    """Positions as rotations: pairs of elements of a head turn by position times a frequency.

    Of a width d, element i and element i + d / 2 are a pair (with `interleaved` 2 i and 2 i + 1),
    whose frequency is base ** (-2 i / d). Su et al. 2021, arXiv:2104.09864, equation 34.

    >>> nn.RotaryEmbedding(4)(cr.ones((2, 5, 4))).shape
    (2, 5, 4)
    """

    def __init__(self, dim: int, base: float = 10000.0, interleaved: bool = False) -> None:
        check_sizes("RotaryEmbedding", dim=dim)
        if dim % 2 or not base > 0:
            raise ConfigError(
                f"RotaryEmbedding: dim is even and base positive, not {dim} and {base}"
            )
        self.dim, self.base, self.interleaved = dim, base, interleaved

    def forward(self, x: Any, positions: Any = None) -> Tensor:
        """Shapes: (*s, T, dim), positions (T) -> (*s, T, dim)."""
        if x.ndim < 2 or x.shape[-1] != self.dim:
            raise ShapeError(f"RotaryEmbedding: x is (..., T, {self.dim}), not {tuple(x.shape)}")
        half = self.dim // 2
        frequency = np.asarray(self.base ** (-np.arange(half) / half), x.dtype)
        at = cast(Any, np.arange(x.shape[-2]) if positions is None else positions)
        angle = expand_dims(astype(at, x.dtype), -1) * frequency
        cos, sin = ew.cos(angle), ew.sin(angle)
        if self.interleaved:
            pairs = reshape(x, (*x.shape[:-1], half, 2))
            a, b = pairs[..., 0], pairs[..., 1]
        else:
            a, b = split(x, [half, half], axis=-1)
        first, second = a * cos - b * sin, a * sin + b * cos
        if not self.interleaved:
            return concat([first, second], axis=-1)
        pairs = concat([expand_dims(first, -1), expand_dims(second, -1)], axis=-1)
        return reshape(pairs, tuple(x.shape))
