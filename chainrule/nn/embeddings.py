"""Tables of vectors, one for each integer: their rows, or rows put together by bags."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from chainrule.engine.tensors import Tensor, asarray, tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.nn import functional
from chainrule.nn.base.module import Module
from chainrule.nn.init import normal_
from chainrule.nn.layers import Init, check_sizes, parameter
from chainrule.ops.networks.embedding_bags import Bag
from chainrule.random import Generator


def _table(
    name: str,
    rows: int,
    width: int,
    padding_idx: int | None,
    init: Init | None,
    dtype: Any,
    generator: Generator | None,
) -> tuple[Tensor, int | None]:
    """The weight, standard normal or as `init` fills it, with zeros for the padding; its row."""
    check_sizes(name, num_embeddings=rows, embedding_dim=width)
    weight = parameter((rows, width), 0.0, dtype)
    if init is None:
        normal_(weight, generator=generator)
    else:
        init(weight)
    if padding_idx is None:
        return weight, None
    if not -rows <= padding_idx < rows:
        raise ConfigError(f"{name}: padding_idx {padding_idx} is no row of {rows}")
    padding_idx %= rows
    values = weight.detach().numpy().copy()
    values[padding_idx] = 0
    weight.data = values
    return weight, padding_idx


def _keep(weight: Tensor) -> None:
    """Leave the weight as it is: another takes its place."""


def _take_over(layer: Embedding | EmbeddingBag, embeddings: Any, freeze: bool) -> None:
    """Make a copy of `embeddings` the layer's weight, trained unless `freeze`."""
    layer.weight = tensor(asarray(embeddings).detach(), requires_grad=not freeze)


def _sizes(name: str, embeddings: Any) -> tuple[int, int]:
    shape = tuple(asarray(embeddings).shape)
    if len(shape) != 2:
        raise ShapeError(f"{name}.from_pretrained: embeddings are (rows, width), not {shape}")
    return shape


@final
class Embedding(Module):
    """Integers (..) -> rows of weight (num_embeddings, embedding_dim): (.., embedding_dim).

    The weight starts standard normal, or as `init` fills it. The row `padding_idx` starts as zeros
    and gets no gradient.

    >>> nn.Embedding(10, 3)(cr.tensor([[1, 2, 9]])).shape
    (1, 3, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        init: Init | None = None,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        self.weight, self.padding_idx = _table(
            "Embedding", num_embeddings, embedding_dim, padding_idx, init, dtype, generator
        )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None
    ) -> Embedding:
        """A layer with a copy of `embeddings`, (rows, width), as its weight.

        Unless `freeze` is False it is not trained. The row `padding_idx` stays as it is.

        >>> nn.Embedding.from_pretrained(cr.tensor([[1.0, 2.0], [3.0, 4.0]]))(cr.tensor([1]))
        tensor([[3., 4.]], dtype=float32)
        """
        layer = cls(*_sizes("Embedding", embeddings), padding_idx, init=_keep)
        _take_over(layer, embeddings, freeze)
        return layer

    def forward(self, indices: Any) -> Tensor:
        """Shapes: (...) -> (..., embedding_dim)."""
        return functional.embedding(self.weight, indices, padding_idx=self.padding_idx)


@final
class EmbeddingBag(Module):
    """Rows of the weight, those of each bag put together by `mode`: "sum", "mean" or "max".

    A bag is a row of indices, or of a flat list what begins at one of the offsets.

    >>> nn.EmbeddingBag(10, 3)(cr.tensor([[1, 2, 9], [0, 0, 1]])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        mode: Bag = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        init: Init | None = None,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        if mode not in ("sum", "mean", "max"):
            raise ConfigError(f"EmbeddingBag: mode is 'sum', 'mean' or 'max', not {mode!r}")
        self.weight, self.padding_idx = _table(
            "EmbeddingBag", num_embeddings, embedding_dim, padding_idx, init, dtype, generator
        )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.mode: Bag = mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        *,
        mode: Bag = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A layer with a copy of `embeddings`, (rows, width), as its weight.

        Unless `freeze` is False it is not trained.

        >>> nn.EmbeddingBag.from_pretrained(cr.tensor([[1.0], [3.0]]))(cr.tensor([[0, 1]]))
        tensor([[2.]], dtype=float32)
        """
        layer = cls(
            *_sizes("EmbeddingBag", embeddings), mode=mode, padding_idx=padding_idx, init=_keep,
            include_last_offset=include_last_offset,
        )  # fmt: skip
        _take_over(layer, embeddings, freeze)
        return layer

    def forward(self, indices: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        """Shapes: (B, L) -> (B, embedding_dim)."""
        return functional.embedding_bag(
            indices, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset, padding_idx=self.padding_idx,
        )  # fmt: skip
