"""Attention between two sequences.

Vaswani et al. 2017, arXiv:1706.03762. Names, arguments and defaults are PyTorch's.

Notation: T queries, S keys, B sequences, E width, H heads of width d = E / H.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.nn import functional
from chainrule.nn.base.module import Module
from chainrule.nn.init import normal_, xavier_uniform_
from chainrule.nn.layers import Linear, check_sizes, parameter
from chainrule.ops.contraction import matmul
from chainrule.ops.indexing.selection import where
from chainrule.ops.networks.composite import attention_weights
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.joining import concat, split
from chainrule.ops.shapes.shaping import (
    astype,
    broadcast_to,
    expand_dims,
    permute_dims,
    reshape,
    squeeze,
    swapaxes,
)
from chainrule.random import Generator


@final
class MultiheadAttention(Module):
    """How much each query takes in of each value, with each of H heads.

    Keys have width `kdim` and values `vdim`, by default E. Of masks True means *not* looked at;
    numbers are added to the scores. `dropout` falls on the weights, in training. `add_bias_kv` adds
    a key and a value that are learned, `add_zero_attn` a key and a value of zeros.

    >>> x = cr.ones((5, 2, 8))
    >>> y, weights = nn.MultiheadAttention(8, 2)(x, x, x)
    >>> y.shape, weights.shape
    ((5, 2, 8), (2, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        check_sizes("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise ConfigError(
                f"MultiheadAttention: {num_heads} heads do not divide {embed_dim} evenly"
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.dropout, self.batch_first = dropout, batch_first
        self._generator = generator
        E = embed_dim
        for weight in self._add_projections(kdim or E, vdim or E, dtype):
            xavier_uniform_(weight, generator=generator)
        self.in_proj_bias = parameter((3 * E,), 0.0, dtype) if bias else None
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            self.bias_k, self.bias_v = [parameter((1, 1, E), 0.0, dtype) for _ in "kv"]
            for t in (self.bias_k, self.bias_v):
                normal_(t, std=math.sqrt(1 / E), generator=generator)
        self._zero = add_zero_attn
        self.out_proj = Linear(E, E, bias, dtype=dtype, generator=generator)
        if self.out_proj.bias is not None:
            self.out_proj.bias.data = np.zeros(E, dtype)

    def _add_projections(self, k: int, v: int, dtype: Any) -> list[Tensor]:
        """Set the weights of queries, keys and values: one matrix where all have width E."""
        E = self.embed_dim
        self.in_proj_weight: Tensor | None = None
        if k == v == E:
            self.in_proj_weight = parameter((3 * E, E), 0.0, dtype)
            return [self.in_proj_weight]
        self.q_proj_weight = parameter((E, E), 0.0, dtype)
        self.k_proj_weight = parameter((E, k), 0.0, dtype)
        self.v_proj_weight = parameter((E, v), 0.0, dtype)
        return [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Shapes: query (*s, embed_dim), key (*t, n), value (*t, m) -> (*s, embed_dim), (*u)."""
        xs = [query, key, value]
        single = query.ndim == 2
        if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
            raise ShapeError(
                "MultiheadAttention: query, key and value have 3 axes each, or 2 for one sequence, "
                f"not {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
            )
        if single:
            xs = [expand_dims(x, 0) for x in xs]
            key_padding_mask = _batch_of(key_padding_mask)
        elif not self.batch_first:
            xs = [swapaxes(x, 0, 1) for x in xs]
        if is_causal and attn_mask is None:
            raise ConfigError("MultiheadAttention: is_causal says what attn_mask is: give it, too")
        q, k, v = self._project(*xs)
        keys = int(k.shape[1])
        q, k, v = [self._heads(x) for x in (q, *self._longer(k, v))]
        mask = self._mask(attn_mask, key_padding_mask, q, keys, int(k.shape[2]) - keys)
        y, weights = self._attend(q, k, v, mask, need_weights)
        y = permute_dims(y, (0, 2, 1, 3))  # (B, H, T, d) -> (B, T, H, d)
        y = self.out_proj(reshape(y, (*y.shape[:2], self.embed_dim)))
        if weights is not None and average_attn_weights:
            weights = red.mean(weights, axis=1)
        if single:
            return squeeze(y, 0), None if weights is None else squeeze(weights, 0)
        return y if self.batch_first else swapaxes(y, 0, 1), weights

    def _attend(
        self, q: Any, k: Any, v: Any, mask: Any, need_weights: bool
    ) -> tuple[Any, Any | None]:
        """What each head answers, (B, H, T, d), and its weights (B, H, T, S) if they are asked for.

        Without them the kernel is taken that never holds them."""
        p = self.dropout if self.training else 0.0
        if not need_weights:
            y = functional.scaled_dot_product_attention(
                q, k, v, mask=mask, dropout_p=p, generator=self._generator
            )
            return y, None
        weights = attention_weights(q, k, mask=mask)
        dropped = functional.dropout(weights, p, generator=self._generator) if p else weights
        return matmul(dropped, v), weights

    def _project(self, q: Any, k: Any, v: Any) -> list[Any]:
        """Queries, keys and values: (B, T, n) -> (B, T, E)."""
        if self.in_proj_weight is not None:
            weights = split(self.in_proj_weight, [self.embed_dim] * 3)
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        biases: Any = [None] * 3
        if self.in_proj_bias is not None:
            biases = split(self.in_proj_bias, [self.embed_dim] * 3)
        return [functional.linear(*a) for a in zip((q, k, v), weights, biases, strict=True)]

    def _longer(self, k: Any, v: Any) -> tuple[Any, Any]:
        """Keys and values (B, S, E), and those that were asked for besides."""
        B, _, E = k.shape
        if self.bias_k is not None and self.bias_v is not None:
            k = concat([k, broadcast_to(self.bias_k, (B, 1, E))], axis=1)
            v = concat([v, broadcast_to(self.bias_v, (B, 1, E))], axis=1)
        if self._zero:
            zeros = np.zeros((B, 1, E), k.dtype)
            k, v = concat([k, zeros], axis=1), concat([v, zeros], axis=1)
        return k, v

    def _heads(self, x: Any) -> Any:
        """(B, T, E) -> (B, H, T, d)."""
        B, T, E = x.shape
        return permute_dims(reshape(x, (B, T, self.num_heads, E // self.num_heads)), (0, 2, 1, 3))

    def _mask(self, attn_mask: Any, padding: Any, q: Any, S: int, more: int) -> Any:
        """What is added to scores (B, H, T, S + more), of both masks; None without any."""
        B, H, T, _ = q.shape
        total: Any = None
        if attn_mask is not None:
            if tuple(attn_mask.shape) not in ((T, S), (B * H, T, S)):
                raise ShapeError(
                    f"MultiheadAttention: attn_mask is {(T, S)}, or one for each sequence and "
                    f"head, {(B * H, T, S)}, not {tuple(attn_mask.shape)}"
                )
            total = _as_summand(attn_mask, q.dtype)
            total = reshape(total, (B, H, T, S)) if total.ndim == 3 else total
        if padding is not None:
            if tuple(padding.shape) != (B, S):
                raise ShapeError(
                    f"MultiheadAttention: key_padding_mask is {(B, S)}, not {tuple(padding.shape)}"
                )
            row = reshape(_as_summand(padding, q.dtype), (B, 1, 1, S))
            total = row if total is None else total + row
        return functional.pad(total, (0, more)) if more and total is not None else total


def _batch_of(mask: Any) -> Any:
    return mask if mask is None or mask.ndim == 2 else expand_dims(mask, 0)


def _as_summand(mask: Any, dtype: Any) -> Any:
    """-inf where a mask of bools is True; numbers as they are."""
    if mask.dtype.kind != "b":
        return astype(mask, dtype)
    return where(mask, np.asarray(-math.inf, dtype), np.asarray(0, dtype))
