"""MLP: linear layers with an activation between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, final

import numpy as np

from chainrule import nn
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError
from chainrule.random import Generator

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
}


@final
class MLP(nn.Module):
    """(.., sizes[0]) -> (.., sizes[-1]) through the widths between, with activations there.

    `activation` is "relu", "gelu", "tanh", "sigmoid" or "silu". No activation follows the last
    layer.

    >>> import chainrule as cr
    >>> from chainrule.models.mlp import MLP
    >>> MLP([4, 32, 3])(cr.zeros((5, 4))).shape
    (5, 3)
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str = "relu",
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        if len(sizes) < 2:
            raise ConfigError(
                f"MLP: sizes are those of input, ..., output: at least 2, not {sizes}"
            )
        if activation not in _ACTIVATIONS:
            raise ConfigError(f"activation is one of {', '.join(_ACTIVATIONS)}, not {activation!r}")
        self.activation = _ACTIVATIONS[activation]()
        self.layers = [
            nn.Linear(n, m, dtype=dtype, generator=generator) for n, m in pairwise(sizes)
        ]

    def forward(self, x: Any) -> Tensor:
        """(.., sizes[0]) -> (.., sizes[-1])."""
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)
