"""The transformer of two sequences: an encoder of one, a decoder of the other that reads the first.

Vaswani et al. 2017, arXiv:1706.03762. Names, arguments and defaults are PyTorch's.

Notation: E width (`d_model`); masks are those of `MultiheadAttention`: True means not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any, final

import numpy as np

from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ConfigError, ShapeError
from chainrule.nn import functional
from chainrule.nn.attention.multihead import MultiheadAttention
from chainrule.nn.base.module import Module
from chainrule.nn.dropouts import Dropout
from chainrule.nn.init import xavier_uniform_
from chainrule.nn.layers import LayerNorm, Linear, check_sizes
from chainrule.ops import elementwise as ew
from chainrule.random import Generator

Activation = str | Callable[[Any], Any]
_KNOWN: dict[str, Callable[[Any], Any]] = {"relu": ew.relu, "gelu": functional.gelu}


class _Layer(Module):
    """Attention of a sequence to itself and a feed-forward pair, each added to what went in.

    Each is normalised afterwards, or before with `norm_first`. `activation` is "relu", "gelu" or a
    function. A decoder's layer also attends to the memory.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        if not callable(activation) and activation not in _KNOWN:
            raise ConfigError(
                f"{name}: activation is 'relu', 'gelu' or a function, not {activation!r}"
            )
        make: dict[str, Any] = {"dtype": dtype, "generator": generator}
        decodes = isinstance(self, TransformerDecoderLayer)
        for attention in ("self_attn", "multihead_attn") if decodes else ("self_attn",):
            made = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, **make
            )
            setattr(self, attention, made)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **make)
        self.dropout = Dropout(dropout, generator=generator)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **make)
        for i in (1, 2, 3) if decodes else (1, 2):
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
            setattr(self, f"norm{i}", norm)
            setattr(self, f"dropout{i}", Dropout(dropout, generator=generator))
        self.norm_first = norm_first
        self._activation = activation if callable(activation) else _KNOWN[activation]

    def _through(self, x: Any, parts: list[Callable[[Any], Any]]) -> Any:
        """What the parts add to x, one after the other."""
        own = vars(self)
        for i, part in enumerate(parts, 1):
            norm, drop = own[f"norm{i}"], own[f"dropout{i}"]
            x = x + drop(part(norm(x))) if self.norm_first else norm(x + drop(part(x)))
        return x

    def _attend(
        self, attention: str, memory: Any, mask: Any, padding: Any, is_causal: bool | None
    ) -> Callable[[Any], Any]:
        """Attention to the memory, to x itself if that is None."""

        def attend(x: Any) -> Any:
            keys = x if memory is None else memory
            layer = vars(self)[attention]
            return layer(x, keys, keys, padding, False, mask, is_causal=bool(is_causal))[0]

        return attend

    def _feed(self, x: Any) -> Any:
        return self.linear2(self.dropout(self._activation(self.linear1(x))))


@final
class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself and a feed-forward pair, each added to what went in.

    Each is normalised afterwards, or before with `norm_first`. `activation` is "relu", "gelu" or a
    function.

    >>> nn.TransformerEncoderLayer(8, 2, 16)(cr.ones((5, 3, 8))).shape
    (5, 3, 8)
    """

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        own = self._attend("self_attn", None, src_mask, src_key_padding_mask, is_causal)
        return self._through(src, [own, self._feed])


@final
class TransformerDecoderLayer(_Layer):
    """`TransformerEncoderLayer` with attention to the encoder's result, `memory`, in between.

    >>> layer = nn.TransformerDecoderLayer(8, 2, 16)
    >>> layer(cr.ones((4, 3, 8)), cr.ones((5, 3, 8))).shape
    (4, 3, 8)
    """

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Shapes: (*s), (*t) -> (*s)."""
        own = self._attend("self_attn", None, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = self._attend(
            "multihead_attn", memory, memory_mask, memory_key_padding_mask, memory_is_causal
        )
        return self._through(tgt, [own, other, self._feed])


def _copies(what: str, layer: Module, num_layers: int) -> list[Module]:
    check_sizes(what, num_layers=num_layers)
    return [deepcopy(layer) for _ in range(num_layers)]


@final
class TransformerEncoder(Module):
    """`num_layers` copies of a layer, one after the other, and a normalisation if one is given.

    >>> model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), num_layers=2)
    >>> model(cr.ones((5, 3, 8))).shape
    (5, 3, 8)
    """

    def __init__(
        self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        self.layers = _copies("TransformerEncoder", encoder_layer, num_layers)
        self.norm = norm

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Shapes: (*s) -> (*s)."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


@final
class TransformerDecoder(Module):
    """`num_layers` copies of a layer, one after the other, and a normalisation if one is given.

    >>> model = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), num_layers=2)
    >>> model(cr.ones((4, 3, 8)), cr.ones((5, 3, 8))).shape
    (4, 3, 8)
    """

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        self.layers = _copies("TransformerDecoder", decoder_layer, num_layers)
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Shapes: (*s), (*t) -> (*s)."""
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                memory_key_padding_mask, bool(tgt_is_causal), memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


@final
class Transformer(Module):
    """An encoder of `src`, and a decoder of `tgt` that reads what the encoder makes of it.

    Both end with a normalisation. `custom_encoder` and `custom_decoder` stand in their place.
    Matrices are drawn by `init.xavier_uniform_`.

    >>> model = nn.Transformer(8, 2, 1, 1, 16)
    >>> model(cr.ones((5, 3, 8)), cr.ones((4, 3, 8))).shape
    (4, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        settings: tuple[Any, ...] = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias,
        )  # fmt: skip
        make: dict[str, Any] = {"dtype": dtype, "generator": generator}

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)

        self.encoder: Module = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*settings, **make), num_encoder_layers, norm()
        )
        self.decoder: Module = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*settings, **make), num_decoder_layers, norm()
        )
        for _, p in self.named_parameters():
            if p.ndim > 1:
                xavier_uniform_(p, generator=generator)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Shapes: (*s), (*t) -> (*t)."""
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                f"Transformer: src and tgt have d_model {self.d_model} elements along their last "
                f"axis, not {tuple(src.shape)} and {tuple(tgt.shape)}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(size: int, *, dtype: Any = np.float32) -> Tensor:
        """The mask (size, size) that lets each position look at itself and at those before."""
        return asarray(np.triu(np.full((size, size), -math.inf, dtype), 1))
