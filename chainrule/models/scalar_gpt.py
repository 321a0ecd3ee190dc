"""ScalarGPT: the GPT of `models.gpt`, number by number, on `Value`: every addition is a node.

Token by token, with the keys and values of earlier positions kept, as microgpt does it. The same
code runs on plain floats where no gradient is needed. Parameters, their order and their names are
those of `GPT`, so a checkpoint of one is a checkpoint of the other.

Notation: x a list of C numbers, w a matrix as a list of rows, H heads of width d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add, mul
from typing import Any, cast, final

import numpy as np

from chainrule.engine.graph import variable
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.models.config import GPTConfig
from chainrule.models.gpt import GPT, Draw
from chainrule.ops.elementwise import SQRT_2_PI, TANH_CUBIC
from chainrule.scalar import Value

Numbers = list[Any]
State = dict[str, Any]
"""By name a list of numbers, or a list of rows of them."""


@dataclass(frozen=True)
class _Functions:
    """The functions that a kind of number does not have as operators."""

    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]
    relu: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    number: Callable[[Any], float]


_VALUE = _Functions(
    lambda x: x.exp(), lambda x: x.log(), lambda x: x.relu(), lambda x: x.tanh(), lambda x: x.data
)
_FLOAT = _Functions(math.exp, math.log, lambda x: max(x, 0.0), math.tanh, float)


@final
class ScalarGPT:
    """A GPT whose every number is a `Value`. Starts like `GPT(config, draw=draw, dtype=float64)`.

    `tensors` are its parameters as tensors, for an optimizer: after `loss(..).backward()`,
    `to_tensors()` gives them the gradients, and after the optimizer's step `from_tensors()` takes
    the new values back. Raises `ConfigError` for dropout, which scalars do not have.

    >>> from random import Random
    >>> from chainrule.models.gpt import GPTConfig, python_draw
    >>> from chainrule.models.scalar_gpt import ScalarGPT
    >>> model = ScalarGPT(GPTConfig.microgpt(27), draw=python_draw(Random(0)))
    >>> round(model.loss([26, 0, 1, 26]).data, 2)
    3.22
    """

    def __init__(self, config: GPTConfig, draw: Draw) -> None:
        if config.dropout:
            raise ConfigError("the scalar engine has no dropout: set dropout=0.")
        self.config = config
        self._twin = GPT(config, draw=draw, dtype=np.float64)
        self.state: State = {}
        self.from_tensors()

    # --- parameters

    @property
    def tensors(self) -> list[Tensor]:
        """The parameters as tensors (float64), in `GPT`'s order."""
        return self._twin.parameters()

    def parameters(self) -> list[Value]:
        """Every number that is trained, in the order in which they are drawn."""
        return [v for block in self.state.values() for v in _flat(block)]

    def num_parameters(self) -> int:
        """How many numbers are trained."""
        return len(self.parameters())

    def to_tensors(self) -> None:
        """Give `tensors` the values and gradients that the numbers have."""
        for name, t in self._twin.named_parameters():
            values = list(_flat(self.state[name]))
            t.data = np.array([v.data for v in values]).reshape(t.shape)
            t.grad = variable(np.array([v.grad for v in values], np.float64).reshape(t.shape))

    def from_tensors(self) -> None:
        """Take the values of `tensors`, as new numbers without gradients."""
        tensors = self._twin.named_parameters()
        self.state = {name: _each(t.tolist(), Value) for name, t in tensors}

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters by `GPT`'s names, float64."""
        numbers = {name: _each(block, _VALUE.number) for name, block in self.state.items()}
        return {name: variable(np.array(block, np.float64)) for name, block in numbers.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` of this or of a `GPT` gave; errors as there."""
        self._twin.load_state_dict(state)
        self.from_tensors()

    # --- what it computes

    def loss(self, tokens: Sequence[int]) -> Value:
        """Mean of -log softmax(logits) at each next token, over at most block_size positions."""
        n = min(self.config.block_size, len(tokens) - 1)
        if n < 1:
            raise ShapeError(f"a loss needs two tokens or more, not {len(tokens)}")
        run = _Run(self.config, self.state, _VALUE)
        losses = [run.cost(run.read(t), target) for t, target in pairwise(tokens[: n + 1])]
        return _total(losses) * (1 / n)

    def next_logits(self, tokens: Sequence[int]) -> list[float]:
        """Logits of the token after `tokens`, of which the last block_size are read; on floats."""
        state = {name: _each(block, _VALUE.number) for name, block in self.state.items()}
        run = _Run(self.config, state, _FLOAT)
        logits: Numbers = []
        for token in tokens[-self.config.block_size :]:
            logits = run.read(token)
        return logits


class _Run:
    """One pass over a sequence: reads a token, gives the logits of the next."""

    def __init__(self, config: GPTConfig, state: State, functions: _Functions) -> None:
        self.config, self.state, self.f = config, state, functions
        self.keys: list[list[Numbers]] = [[] for _ in range(config.n_layer)]
        self.values: list[list[Numbers]] = [[] for _ in range(config.n_layer)]

    def read(self, token: int) -> Numbers:
        """The logits of the token after this one, which follows those that were read before."""
        c, w = self.config, self.state
        position = len(self.keys[0])
        x = _sum(w["wte.weight"][token], w["wpe.weight"][position])
        if c.embedding_norm:
            x = self.norm("embedding_norm", x)
        for layer in range(c.n_layer):
            block = f"blocks.{layer}"
            x = _sum(x, self.attention(layer, self.norm(f"{block}.norm_1", x)))
            hidden = self.linear(f"{block}.mlp.fc1", self.norm(f"{block}.norm_2", x))
            x = _sum(x, self.linear(f"{block}.mlp.fc2", [self.activation(h) for h in hidden]))
        if c.final_norm:
            x = self.norm("final_norm", x)
        return self.linear("wte" if c.tied else "lm_head", x)

    def linear(self, name: str, x: Numbers) -> Numbers:
        """w x + b."""
        y = [_dot(row, x) for row in self.state[f"{name}.weight"]]
        bias = self.state.get(f"{name}.bias")
        return y if bias is None else _sum(y, bias)

    def norm(self, name: str, x: Numbers) -> Numbers:
        """x / sqrt(mean(x^2) + eps), in a layer norm after the mean is taken off."""
        if self.config.norm == "layer":
            mean = _total(x) * (1 / len(x))
            x = [a - mean for a in x]
        scale = (_dot(x, x) * (1 / len(x)) + self.config.norm_eps) ** -0.5
        y = [a * scale for a in x]
        weight, bias = self.state.get(f"{name}.weight"), self.state.get(f"{name}.bias")
        y = y if weight is None else [a * b for a, b in zip(y, weight, strict=True)]
        return y if bias is None else _sum(y, bias)

    def activation(self, x: Any) -> Any:
        """relu, or the tanh form of gelu."""
        if self.config.activation == "relu":
            return self.f.relu(x)
        return 0.5 * x * (1 + self.f.tanh(SQRT_2_PI * (x + TANH_CUBIC * (x * x * x))))

    def attention(self, layer: int, x: Numbers) -> Numbers:
        """What position t sees at positions 0..t, the heads side by side, mixed by `proj`."""
        C, d = len(x), len(x) // self.config.n_head
        name = f"blocks.{layer}.attn"
        qkv = self.linear(f"{name}.qkv", x)
        keys, values = self.keys[layer], self.values[layer]
        keys.append(qkv[C : 2 * C])
        values.append(qkv[2 * C :])
        seen: Numbers = []
        for a in range(0, C, d):
            q = qkv[a : a + d]
            scores = [_dot(q, k[a : a + d]) * (1 / math.sqrt(d)) for k in keys]
            weights = self.softmax(scores)
            seen += [_dot(weights, [v[j] for v in values]) for j in range(a, a + d)]
        return self.linear(f"{name}.proj", seen)

    def softmax(self, x: Numbers) -> Numbers:
        """exp(x) / sum(exp(x)), without overflow."""
        top = max([self.f.number(a) for a in x])
        exps = [self.f.exp(a - top) for a in x]
        total = _total(exps)
        return [e / total for e in exps]

    def cost(self, logits: Numbers, target: int) -> Any:
        """-log softmax(logits) at the target, without overflow."""
        top = max([self.f.number(a) for a in logits])
        total = _total([self.f.exp(a - top) for a in logits])
        return self.f.log(total) - (logits[target] - top)


def _total(x: Numbers) -> Any:
    return reduce(add, x)


def _dot(a: Numbers, b: Numbers) -> Any:
    return reduce(add, map(mul, a, b))


def _sum(a: Numbers, b: Numbers) -> Numbers:
    return list(map(add, a, b))


def _each(block: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn` of every number of a nested list."""
    if isinstance(block, list):
        return [_each(b, fn) for b in cast("list[Any]", block)]
    return fn(block)


def _flat(block: Any) -> Iterator[Any]:
    """Every number of a nested list, in order."""
    if isinstance(block, list):
        for b in cast("list[Any]", block):
            yield from _flat(b)
    else:
        yield block
