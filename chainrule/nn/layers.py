"""The layers: linear maps, embeddings, normalisations, dropout, activations, and their sequence.

PyTorch's names and defaults. Notation: `..` any leading axes, C channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from chainrule.arrays import admit_dtype
from chainrule.dtypes import finfo
from chainrule.errors import ConfigError
from chainrule.graph import variable
from chainrule.nn import functional
from chainrule.nn.init import normal_, uniform_
from chainrule.nn.module import Module
from chainrule.ops import elementwise as ew
from chainrule.random import Generator
from chainrule.tensors import Tensor

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
class Embedding(Module):
    """Integers (..) -> rows of weight (num_embeddings, embedding_dim): (.., embedding_dim).

    The weight starts standard normal, or as `init` fills it.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        init: Init | None = None,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        check_sizes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.weight = parameter((num_embeddings, embedding_dim), 0.0, dtype)
        if init is None:
            normal_(self.weight, generator=generator)
        else:
            init(self.weight)

    def forward(self, indices: Any) -> Tensor:
        """Shapes: (...) -> (..., embedding_dim)."""
        return functional.embedding(self.weight, indices)


@final
class LayerNorm(Module):
    """`chainrule.layer_norm` over the last axis, of size `dim`; if affine with weight and bias.

    They start as ones and zeros.
    """

    def __init__(
        self,
        dim: int,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
    ) -> None:
        check_sizes("LayerNorm", dim=dim)
        self.dim = dim
        self.eps = eps
        self.weight = parameter((dim,), 1.0, dtype) if elementwise_affine else None
        self.bias = parameter((dim,), 0.0, dtype) if elementwise_affine and bias else None

    def forward(self, x: Any) -> Tensor:
        """Shapes: (..., dim) -> (..., dim)."""
        return functional.layer_norm(x, self.weight, self.bias, eps=self.eps)


@final
class RMSNorm(Module):
    """`chainrule.rms_norm` over the last axis, of size `dim`; if affine with a weight, of ones.

    eps None stands for the spacing of the input's dtype at 1, as in PyTorch.
    """

    def __init__(
        self,
        dim: int,
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = np.float32,
    ) -> None:
        check_sizes("RMSNorm", dim=dim)
        self.dim = dim
        self.eps = eps
        self.weight = parameter((dim,), 1.0, dtype) if elementwise_affine else None

    def forward(self, x: Any) -> Tensor:
        """Shapes: (..., dim) -> (..., dim)."""
        eps = finfo(x.dtype).eps if self.eps is None else self.eps
        return functional.rms_norm(x, self.weight, eps=eps)


@final
class Dropout(Module):
    """In training, each element is 0 with probability p, else divided by 1 - p; in use, itself."""

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        if not 0 <= p <= 1:
            raise ConfigError(f"Dropout: p is a probability, not {p}")
        self.p = p
        self._generator = generator

    def forward(self, x: Any) -> Tensor:
        """Shapes: (...) -> (...)."""
        return functional.dropout(x, self.p, training=self.training, generator=self._generator)


@final
class Sequential(Module):
    """One module after the other; they are named 0, 1, ..."""

    def __init__(self, *modules: Module) -> None:
        for i, module in enumerate(modules):
            setattr(self, str(i), module)

    def forward(self, x: Any) -> Any:
        """The last module's value."""
        for module in self:
            x = module(x)
        return x

    def __iter__(self) -> Iterator[Module]:
        return iter([m for m in vars(self).values() if isinstance(m, Module)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, i: int) -> Module:
        return list(iter(self))[i]


@final
class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Any) -> Tensor:
        """Shapes: (...) -> (...)."""
        return ew.relu(x)


@final
class GELU(Module):
    """`chainrule.gelu`: exact, or with approximate="tanh" its tanh form."""

    def __init__(self, approximate: str = "none") -> None:
        if approximate not in ("none", "tanh"):
            raise ConfigError(f"GELU: approximate is 'none' or 'tanh', not {approximate!r}")
        self.approximate = approximate

    def forward(self, x: Any) -> Tensor:
        """Shapes: (...) -> (...)."""
        return functional.gelu(x, approximate=self.approximate)


@final
class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Any) -> Tensor:
        """Shapes: (...) -> (...)."""
        return ew.tanh(x)


@final
class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Any) -> Tensor:
        """Shapes: (...) -> (...)."""
        return ew.sigmoid(x)


@final
class SiLU(Module):
    """x sigmoid(x)."""

    def forward(self, x: Any) -> Tensor:
        """Shapes: (...) -> (...)."""
        return functional.silu(x)
