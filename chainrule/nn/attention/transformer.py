"""The parts of a transformer: causal self-attention, the feed-forward pair, the block of both.

Vaswani et al. 2017, arXiv:1706.03762, normalised before each part (Radford et al. 2019).

`step` computes one more position of each of several sequences, from the keys and values of earlier
ones, the cache; `prefill` begins one. They are what generating text is made of: without dropout.

Notation: T positions, C channels, H heads of width d = C / H; G sequences, and a cache of W
positions for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast, final

import numpy as np

from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError
from chainrule.nn.activations import CLASSES
from chainrule.nn.base.module import Module
from chainrule.nn.dropouts import Dropout
from chainrule.nn.layers import Init, LayerNorm, Linear, check_sizes
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.scattering import index_put
from chainrule.ops.indexing.selection import where
from chainrule.ops.networks.composite import attention_weights, scaled_dot_product_attention
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.joining import unstack
from chainrule.ops.shapes.shaping import permute_dims, reshape
from chainrule.random import Generator

Cache = tuple[Any, Any]
"""Keys (G, C, W) and values (G, W, C) of G sequences: both are read along their last axis."""


@final
class CausalSelfAttention(Module):
    """(.., T, C) -> (.., T, C), in which position t looks at positions 0..t with each of H heads.

    `qkv.weight` (3C, C) holds the weights of queries, keys and values, one below the other, so that
    one product makes them all; `proj` (C, C) mixes the heads. `dropout` falls on the attention
    weights. Raises `ConfigError` unless H divides C.

    >>> nn.CausalSelfAttention(8, 2)(cr.ones((3, 5, 8))).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        n_embd: int,
        n_head: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        init: Init | None = None,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        check_sizes("CausalSelfAttention", n_embd=n_embd, n_head=n_head)
        if n_embd % n_head:
            raise ConfigError(f"{n_head} heads do not divide {n_embd} channels evenly")
        self.n_head = n_head
        self.dropout = dropout
        self.qkv = Linear(n_embd, 3 * n_embd, bias, init=init, dtype=dtype, generator=generator)
        self.proj = Linear(n_embd, n_embd, bias, init=init, dtype=dtype, generator=generator)
        self._generator = generator

    def forward(self, x: Any) -> Tensor:
        """Shapes: (..., T, C) -> (..., T, C)."""
        q, k, v = self._heads(x)
        y = scaled_dot_product_attention(
            q, k, v, causal=True, dropout_p=self.dropout if self.training else 0.0,
            generator=self._generator,
        )  # fmt: skip
        return self._merge_heads(y, x.shape)

    def weights(self, x: Any) -> Tensor:
        """How much of each position every head takes in: (.., T, C) -> (.., H, T, T), in rows that
        sum to 1. Without dropout."""
        q, k, _ = self._heads(x)
        return attention_weights(q, k, causal=True)

    def _heads(self, x: Any) -> tuple[Any, ...]:
        """Queries, keys and values: (.., T, C) -> (.., H, T, d) each."""
        *lead, T, C = x.shape
        n = len(lead)
        heads = reshape(self.qkv(x), (*lead, T, 3, self.n_head, C // self.n_head))
        # (.., T, 3, H, d) -> (3, .., H, T, d)
        return unstack(permute_dims(heads, (n + 1, *range(n), n + 2, n, n + 3)))

    def _merge_heads(self, y: Any, shape: tuple[int, ...]) -> Tensor:
        """The heads mixed: (.., H, T, d) -> (.., T, H, d) -> (.., T, C), the `shape`."""
        n = len(shape) - 2
        y = permute_dims(y, (*range(n), n + 1, n, n + 2))
        return self.proj(reshape(y, shape))

    def prefill(self, x: Any) -> tuple[Tensor, Cache]:
        """The first T positions of G sequences, (G, T, C) -> (G, T, C), and a cache of them."""
        q, k, v = self._heads(x)
        G, T, C = x.shape
        keys = reshape(permute_dims(k, (0, 1, 3, 2)), (G, C, T))
        values = reshape(permute_dims(v, (0, 2, 1, 3)), (G, T, C))
        y = scaled_dot_product_attention(q, k, v, causal=True)
        return self._merge_heads(y, x.shape), (keys, values)

    def step(self, x: Any, at: Any, cache: Cache) -> tuple[Tensor, Cache]:
        """Position `at` (G) of G sequences, (G, C) -> (G, C), and the cache with it.

        Of positions after `at` nothing is read.
        """
        keys, values = cache
        G, W, C = cast("tuple[int, int, int]", values.shape)
        H, d = self.n_head, C // self.n_head
        q, k, v = unstack(reshape(self.qkv(x), (G, 3, C)), axis=1)
        places = np.arange(G * C).reshape(G, C) * W + reshape(at, (G, 1))
        keys = reshape(index_put(reshape(keys, (G * C * W,)), places, k), (G, C, W))
        values = reshape(values, (G * W, C))
        values = reshape(index_put(values, np.arange(G) * W + at, v), (G, W, C))
        # (G, H, d, 1) * (G, H, d, W) -> (G, H, W)
        scores = red.sum(reshape(q, (G, H, d, 1)) * reshape(keys, (G, H, d, W)), axis=2)
        read = ew.less_equal(np.arange(W), reshape(at, (G, 1, 1)))
        scores = where(read, scores / math.sqrt(d), -math.inf)
        weights = ew.exp(scores - red.max(scores, axis=2, keepdims=True))
        # (G, H, W, 1) * (G, H, W, d) -> (G, H, d)
        by_head = permute_dims(reshape(values, (G, W, H, d)), (0, 2, 1, 3))
        y = red.sum(reshape(weights, (G, H, W, 1)) * by_head, axis=2)
        y = y / red.sum(weights, axis=2, keepdims=True)
        return self.proj(reshape(y, (G, C))), (keys, values)


@final
class FeedForward(Module):
    """fc2(activation(fc1(x))) at each position by itself: (.., C) -> width `hidden` -> (.., C).

    >>> nn.FeedForward(4, 16, nn.GELU())(cr.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(
        self,
        n_embd: int,
        hidden: int,
        activation: Module,
        *,
        bias: bool = True,
        init: Init | None = None,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        self.fc1 = Linear(n_embd, hidden, bias, init=init, dtype=dtype, generator=generator)
        self.activation = activation
        self.fc2 = Linear(hidden, n_embd, bias, init=init, dtype=dtype, generator=generator)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (..., C) -> (..., C)."""
        return self.fc2(self.activation(self.fc1(x)))


@final
class Block(Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)): (.., T, C) -> (.., T, C).

    `norm(C)` makes a normalisation, `activation()` an activation; the feed-forward pair has width
    `hidden`, 4C by default. `dropout` falls on the attention weights and on both branches.

    >>> nn.Block(8, 2)(cr.ones((3, 5, 8))).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        n_embd: int,
        n_head: int,
        *,
        hidden: int | None = None,
        norm: Callable[[int], Module] = LayerNorm,
        activation: Callable[[], Module] = CLASSES["GELU"],
        bias: bool = True,
        dropout: float = 0.0,
        init: Init | None = None,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        make: dict[str, Any] = {
            "bias": bias, "init": init, "dtype": dtype, "generator": generator,
        }  # fmt: skip
        self.norm_1 = norm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, dropout=dropout, **make)
        self.norm_2 = norm(n_embd)
        self.mlp = FeedForward(n_embd, hidden or 4 * n_embd, activation(), **make)
        self.drop = Dropout(dropout, generator=generator)

    def forward(self, x: Any) -> Tensor:
        """Shapes: (..., T, C) -> (..., T, C)."""
        x = x + self.drop(self.attn(self.norm_1(x)))
        return x + self.drop(self.mlp(self.norm_2(x)))

    def prefill(self, x: Any) -> tuple[Tensor, Cache]:
        """The first T positions of G sequences, (G, T, C) -> (G, T, C), and a cache of them."""
        y, cache = self.attn.prefill(self.norm_1(x))
        x = x + y
        return x + self.mlp(self.norm_2(x)), cache

    def step(self, x: Any, at: Any, cache: Cache) -> tuple[Tensor, Cache]:
        """Position `at` (G) of G sequences, (G, C) -> (G, C), and the cache with it."""
        y, cache = self.attn.step(self.norm_1(x), at, cache)
        x = x + y
        return x + self.mlp(self.norm_2(x)), cache
