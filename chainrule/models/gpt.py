"""GPT: one model that is microgpt, GPT-2, or what else its `GPTConfig` says; and drawing from it.

The order of the parameters is also that of the random numbers that they start from:

* `wte` (V, C), `wpe` (block_size, C), `lm_head` (V, C) unless tied;
* for each block `attn.qkv` (3C, C), the rows of queries, of keys, of values; `attn.proj` (C, C);
  `mlp.fc1` (mC, C), `mlp.fc2` (C, mC).

Notation: V tokens, T positions, C channels, m the config's `mlp_ratio`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, cast, final

import numpy as np

from chainrule import nn
from chainrule.engine.creation import zeros
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, NonFiniteError, ShapeError
from chainrule.models.config import GPTConfig
from chainrule.models.generation import NOT_FINITE, CompiledLoops, check_request, generate
from chainrule.nn.attention.transformer import Cache
from chainrule.ops.losses import common_losses
from chainrule.ops.networks.linear import linear
from chainrule.ops.shapes.joining import concat
from chainrule.random import Generator
from chainrule.transforms.functional import no_grad

__all__ = [
    "GPT",
    "Draw",
    "GPTConfig",
    "generator_draw",
    "initial_std",
    "parameter_shapes",
    "python_draw",
    "sample",
]

Draw = Callable[[tuple[int, ...], float], Any]
"""`draw(shape, std)`: an array of normally distributed numbers with mean 0."""


def python_draw(rng: Random) -> Draw:
    """Draw with `rng.gauss`, one number after the other, row by row; float64.

    >>> from random import Random
    >>> from chainrule.models.gpt import python_draw
    >>> python_draw(Random(0))((2, 3), 0.08).shape
    (2, 3)
    """

    def draw(shape: tuple[int, ...], std: float) -> Array:
        return np.array([rng.gauss(0, std) for _ in range(math.prod(shape))]).reshape(shape)

    return draw


def generator_draw(generator: Generator) -> Draw:
    """Draw from a chainrule generator: fast, for models of any size; float64.

    >>> from chainrule.models.gpt import generator_draw
    >>> generator_draw(cr.Generator(0))((2, 3), 0.08).shape
    (2, 3)
    """

    def draw(shape: tuple[int, ...], std: float) -> Array:
        return generator.normal(shape, std=std, dtype=np.float64).numpy()

    return draw


def initial_std(config: GPTConfig, name: str) -> float | None:
    """Deviation with which the parameter `name` starts; None if it is not drawn.

    >>> from chainrule.models.gpt import GPTConfig, initial_std
    >>> initial_std(GPTConfig.microgpt(27), "blocks.0.mlp.fc1.weight")
    0.08
    """
    if name.endswith("bias") or "norm" in name:
        return None
    branch_end = name.endswith(("attn.proj.weight", "mlp.fc2.weight"))
    return config.branch_std if branch_end else config.init_std


def parameter_shapes(config: GPTConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names and shapes of the parameters of `GPT(config)`, without making any.

    >>> from chainrule.models.gpt import GPTConfig, parameter_shapes
    >>> sum(np.prod(shape) for _, shape in parameter_shapes(GPTConfig.microgpt(27))).item()
    4192
    """
    C, hidden = config.n_embd, config.mlp_ratio * config.n_embd
    yield "wte.weight", (config.vocab_size, C)
    yield "wpe.weight", (config.block_size, C)
    if not config.tied:
        yield "lm_head.weight", (config.vocab_size, C)
    if config.embedding_norm:
        yield from _norm_shapes(config, "embedding_norm")
    for i in range(config.n_layer):
        layers = {"attn.qkv": (3 * C, C), "attn.proj": (C, C)}
        layers |= {"mlp.fc1": (hidden, C), "mlp.fc2": (C, hidden)}
        for name, shape in layers.items():
            yield f"blocks.{i}.{name}.weight", shape
            if config.bias:
                yield f"blocks.{i}.{name}.bias", shape[:1]
        for name in ("norm_1", "norm_2"):
            yield from _norm_shapes(config, f"blocks.{i}.{name}")
    if config.final_norm:
        yield from _norm_shapes(config, "final_norm")


def _norm_shapes(config: GPTConfig, name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    if config.norm_affine:
        yield f"{name}.weight", (config.n_embd,)
        if config.norm == "layer" and config.bias:
            yield f"{name}.bias", (config.n_embd,)


@final
class GPT(nn.Module):
    """A transformer that predicts the next token: tokens (.., T) -> logits (.., T, V).

    Weights are drawn by `draw` in the order above, in `dtype`; biases start at 0, norms at 1. As
    everywhere, `GPT(..).eval()` switches dropout off.

    >>> from chainrule.models.gpt import GPT, GPTConfig, generator_draw
    >>> model = GPT(GPTConfig.microgpt(27), draw=generator_draw(cr.Generator(0)))
    >>> model(cr.zeros((2, 3), dtype=cr.int64)).shape
    (2, 3, 27)
    """

    def __init__(self, config: GPTConfig, *, draw: Draw, dtype: Any = np.float32) -> None:
        c = config
        # zeros, because `draw` replaces what the layers would take from the user's random numbers
        make: dict[str, Any] = {"dtype": dtype, "init": nn.init.zeros_}
        self.config = c
        self._loops = CompiledLoops()
        self.wte = nn.Embedding(c.vocab_size, c.n_embd, **make)
        self.wpe = nn.Embedding(c.block_size, c.n_embd, **make)
        self.lm_head = None if c.tied else nn.Linear(c.n_embd, c.vocab_size, False, **make)
        self.embedding_norm = self._norm(c.n_embd, dtype) if c.embedding_norm else None
        self.drop = nn.Dropout(c.dropout)
        self.blocks = [
            nn.Block(
                c.n_embd, c.n_head, hidden=c.mlp_ratio * c.n_embd,
                norm=lambda size: self._norm(size, dtype), activation=self._activation,
                bias=c.bias, dropout=c.dropout, **make,
            )
            for _ in range(c.n_layer)
        ]  # fmt: skip
        self.final_norm = self._norm(c.n_embd, dtype) if c.final_norm else None
        for name, parameter in self.named_parameters():
            std = initial_std(c, name)
            if std is not None:
                parameter.data = np.asarray(draw(parameter.shape, std), dtype)

    def _norm(self, size: int, dtype: Any) -> nn.Module:
        c = self.config
        if c.norm == "rms":
            return nn.RMSNorm(size, c.norm_eps, c.norm_affine, dtype=dtype)
        return nn.LayerNorm(size, c.norm_eps, c.norm_affine, c.bias, dtype=dtype)

    def _activation(self) -> nn.Module:
        return nn.ReLU() if self.config.activation == "relu" else nn.GELU("tanh")

    def forward(self, tokens: Any) -> Tensor:
        """Integers (.., T), T at most the block size -> logits (.., T, V)."""
        tokens = _array(tokens)
        T = tokens.shape[-1]
        if self.config.block_size < T:
            raise ShapeError(
                f"{T} tokens are more than the model's {self.config.block_size} positions: cut the "
                "sequence, or build the model with a larger block_size"
            )
        x = self.wte(tokens) + self.wpe.weight[:T]
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        return self._logits(x)

    def step(self, tokens: Any, at: Any, cache: Sequence[Cache]) -> tuple[Tensor, list[Cache]]:
        """Integers (G), each at position `at` (G) of its sequence -> logits (G, V), and the cache
        of each layer with them; the first is `empty_cache`. Without dropout."""
        x = self.wte(tokens) + self.wpe(at)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        now: list[Cache] = []
        for block, before in zip(self.blocks, cache, strict=True):
            x, after = block.step(x, at, before)
            now.append(after)
        return self._logits(x), now

    def prefill(self, tokens: Any, positions: int) -> list[Cache]:
        """A cache of the first T of so many positions: integers (G, T), read in one pass."""
        G, T = tokens.shape
        x = self.wte(tokens) + self.wpe.weight[:T]
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        C, rest = self.config.n_embd, positions - T
        made: list[Cache] = []
        for block in self.blocks:
            x, (keys, values) = block.prefill(x)
            blank = zeros((G, C, rest), dtype=keys.dtype), zeros((G, rest, C), dtype=keys.dtype)
            made.append((concat([keys, blank[0]], axis=2), concat([values, blank[1]], axis=1)))
        return made

    def empty_cache(self, sequences: int, positions: int) -> list[Cache]:
        """Room for the keys and values of so many sequences of so many positions."""
        C, dtype = self.config.n_embd, self.wte.weight.dtype
        shapes = (sequences, C, positions), (sequences, positions, C)
        return [(zeros(shapes[0], dtype=dtype), zeros(shapes[1], dtype=dtype)) for _ in self.blocks]

    def _logits(self, x: Any) -> Tensor:
        if self.final_norm is not None:
            x = self.final_norm(x)
        return linear(x, self.wte.weight) if self.lm_head is None else self.lm_head(x)

    def loss(self, tokens: Any, targets: Any, *, ignore_index: int | None = None) -> Tensor:
        """The mean of -log softmax(logits) at the targets, integers of the tokens' shape.

        Positions whose target is `ignore_index` do not count.
        """
        return common_losses.cross_entropy(self(tokens), _array(targets), ignore_index=ignore_index)

    def generate(
        self,
        prompts: Any,
        *,
        max_new_tokens: int,
        stop: int | None = None,
        temperature: float = 1.0,
        generator: Generator | Random | None = None,
        one_by_one: bool = False,
        compiled: bool = True,
    ) -> Any:
        """The tokens drawn to continue each prompt: lists of whole numbers, without the prompts.

        `prompts` is a prompt, a list of tokens, or a list of prompts, which may differ in length;
        for one prompt the result is one list. A list has at most `max_new_tokens` tokens, and ends
        before the first `stop`. Each token is drawn with probabilities softmax(logits /
        temperature), as `random.choices` does it; at temperature 0 it is the first of the most
        probable. The logits are those of `next_logits`, to rounding: past `block_size` tokens the
        last `block_size` are read. Keys and values are kept, so that a token costs one position;
        past `block_size` it costs `block_size` of them, for all positions have changed. Prompts
        of large models are read in one pass. Dropout plays no part, also in training.

        `generator` is a `chainrule.Generator`, by default that of `manual_seed`, or a
        `random.Random`. Each prompt takes `max_new_tokens` numbers from it, used or not: so a batch
        gives what its prompts give one call after the other, to rounding. With `one_by_one` a
        prompt takes as many as tokens are drawn for it, `stop` included, which are those that
        `sample` takes; then prompts with a `stop` cannot be worked on side by side. At temperature
        0 none are taken.

        The first call compiles the loop, or with `compiled=False` it runs op by op: slower, to the
        same tokens. Weights that change between calls count. Raises `NonFiniteError` where logits
        are NaN or infinite.
        """
        request, single = check_request(
            self.config.vocab_size, prompts, max_new_tokens, stop, temperature, one_by_one
        )
        loops = self._loops if compiled else None
        drawn = generate(self, loops, request, generator)
        return drawn[0] if single else drawn

    def next_logits(self, tokens: Sequence[int]) -> list[float]:
        """V logits of the token that follows `tokens`, of which the last block_size are read."""
        recent = np.array(tokens[-self.config.block_size :], np.int64)
        with no_grad():
            return self(recent).tolist()[-1]


def _array(x: Any) -> Any:
    """Tensors and arrays as they are, lists as arrays."""
    return np.asarray(cast("Any", x)) if isinstance(x, Sequence) else x


def sample(
    next_logits: Callable[[list[int]], Sequence[float]],
    rng: Random,
    *,
    start: Sequence[int],
    stop: int | None,
    limit: int,
    temperature: float = 1.0,
) -> list[int]:
    """The tokens drawn to continue `start`: at most `limit`, and only up to where `stop` is drawn.

    `next_logits(tokens)` gives the logits of the token after `tokens`: `GPT.next_logits`, say. Each
    is drawn by `rng.choices` with weights softmax(logits / temperature); at temperature 0 it is the
    most probable one. Raises `NonFiniteError` for logits that are NaN or infinite.

    `GPT.generate(.., one_by_one=True)` draws the same tokens as one compiled loop.

    >>> from random import Random
    >>> from chainrule.models.gpt import sample
    >>> sample(lambda tokens: [0.0, 50.0], Random(0), start=[0], stop=0, limit=3)
    [1, 1, 1]
    """
    if not 0 <= temperature < math.inf:
        raise ConfigError(f"temperature is a number that is not negative, not {temperature!r}.")
    if not start:
        raise ConfigError("sampling continues a sequence: start it with at least one token.")
    tokens = list(start)
    for _ in range(limit):
        token = _choose(next_logits(tokens), rng, temperature)
        if token == stop:
            break
        tokens.append(token)
    return tokens[len(start) :]


def _choose(logits: Sequence[float], rng: Random, temperature: float) -> int:
    if not all(map(math.isfinite, logits)):
        raise NonFiniteError(NOT_FINITE)
    top = max(logits)
    if temperature == 0:
        return list(logits).index(top)
    weights = [math.exp((x - top) / temperature) for x in logits]
    total = math.fsum(weights)
    return rng.choices(range(len(weights)), weights=[w / total for w in weights])[0]
