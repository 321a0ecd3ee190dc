"""Activations and the gates of recurrent cells."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import relu, sigmoid, softplus


def _gelu(x: Array) -> Iterator[Array]:
    yield 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / np.sqrt(2)))
    yield 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    yield x * sigmoid(1.702 * x)


def _swish(x: Array) -> Iterator[Array]:
    yield x * sigmoid(x)


def _swish_scaled(x: Array, beta: float) -> Iterator[Array]:
    yield x * sigmoid(beta * x)


def _mish(x: Array) -> Iterator[Array]:
    yield x * np.tanh(softplus(x))


def _elu(x: Array, alpha: float) -> Iterator[Array]:
    yield np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _selu(x: Array) -> Iterator[Array]:
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    yield scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _leaky(x: Array, slope: float) -> Iterator[Array]:
    yield np.where(x > 0, x, slope * x)


def _softplus(x: Array, beta: float) -> Iterator[Array]:
    yield from (softplus(beta * x) / beta, softplus(-beta * x) / beta)


def _hard_swish(x: Array) -> Iterator[Array]:
    yield x * np.clip(x + 3, 0, 6) / 6


def _swiglu(gate: Array, value: Array) -> Iterator[Array]:
    yield gate * sigmoid(gate) * value


def _glu(gate: Array, value: Array) -> Iterator[Array]:
    yield value * sigmoid(gate)


def _squash(x: Array) -> Iterator[Array]:
    square = (x**2).sum(axis=-1, keepdims=True)
    for root in (np.sqrt(square), np.sqrt(square + 1e-8), np.sqrt(square) + 1e-8):
        yield square / (1 + square) * x / root


def _lstm(i: Array, f: Array, g: Array, o: Array, c: Array) -> Iterator[tuple[Array, Array]]:
    """Of what is before the gates' functions: hidden state and cell, in both orders."""
    cell = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    hidden = sigmoid(o) * np.tanh(cell)
    yield from ((hidden, cell), (cell, hidden))


def _lstm_gates(gates: Array, c: Array) -> Iterator[Array | tuple[Array, Array]]:
    """Input, forget, cell and output gates side by side, in the orders of libraries."""
    if gates.shape[-1] == 4 * c.shape[-1]:
        first, second, third, fourth = np.split(gates, 4, axis=-1)
        for i, f, g, o in (
            (first, second, third, fourth),
            (first, second, fourth, third),
            (second, first, third, fourth),
            (first, third, second, fourth),
            (second, first, fourth, third),
        ):
            yield from _lstm(i, f, g, o, c)
            yield next(_lstm(i, f, g, o, c))[0]


def _gru(update: Array, candidate: Array, hidden: Array) -> Iterator[Array]:
    """The gate keeps what was, or lets in what is new; all before their functions."""
    z, n = sigmoid(update), np.tanh(candidate)
    yield from (z * hidden + (1 - z) * n, (1 - z) * hidden + z * n)


def _highway(x: Array, transformed: Array, gate: Array) -> Iterator[Array]:
    yield sigmoid(gate) * relu(transformed) + (1 - sigmoid(gate)) * x
    yield sigmoid(gate) * transformed + (1 - sigmoid(gate)) * x
    yield sigmoid(gate) * np.tanh(transformed) + (1 - sigmoid(gate)) * x


_SHAZEER = "Shazeer, GLU variants improve transformer, 2020"
_HOCHREITER = (
    "Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins, Learning to forget, 2000"
)
_LSTM = ("lstm*", "cell*", "gate*", "forget")

ROWS = (
    Formula("GELU", ("gelu*",), "x[*]", _gelu,
            "Hendrycks and Gimpel, Gaussian error linear units, 2016, section 2"),
    Formula("swish", ("swish*", "silu*"), "x[*]", _swish,
            "Ramachandran, Zoph and Le, Searching for activation functions, 2017"),
    Formula("mish", ("mish*",), "x[*]", _mish,
            "Misra, Mish: a self regularized non-monotonic activation function, 2019"),
    Formula("ELU", ("elu*",), "x[*], alpha[]", _elu, "Clevert, Unterthiner and Hochreiter, Fast "
            "and accurate deep network learning by exponential linear units, 2016"),
    Formula("SELU", ("selu*",), "x[*]", _selu,
            "Klambauer et al., Self-normalizing neural networks, 2017"),
    Formula("leaky ReLU", ("leaky*", "lrelu", "prelu"), "x[*], slope[]", _leaky,
            "Maas, Hannun and Ng, Rectifier nonlinearities improve neural network acoustic "
            "models, 2013"),
    Formula("softplus", ("softplus*",), "x[*], beta[]", _softplus,
            "Dugas et al., Incorporating second-order functional knowledge, 2001"),
    Formula("hard swish", ("hardswish*", "hswish", "hard"), "x[*]", _hard_swish,
            "Howard et al., Searching for MobileNetV3, 2019"),
    Formula("SwiGLU", ("swiglu*",), "gate[*], value[*]", _swiglu, _SHAZEER),
    Formula("GLU", ("glu*",), "gate[*], value[*]", _glu,
            "Dauphin et al., Language modeling with gated convolutional networks, 2017"),
    Formula("squashed capsules", ("squash*", "caps*"), "x[*]", _squash,
            "Sabour, Frosst and Hinton, Dynamic routing between capsules, 2017, equation 1"),
    Formula("LSTM cell", _LSTM, "i[n h], f[n h], g[n h], o[n h], c[n h]", _lstm, _HOCHREITER),
    Formula("LSTM cell of gates side by side", _LSTM, "gates[n w], c[n h]", _lstm_gates,
            _HOCHREITER),
    Formula("GRU cell", ("gru*", "update", "reset"),
            "update[n h], candidate[n h], hidden[n h]", _gru, "Cho et al., Learning phrase "
            "representations using RNN encoder-decoder, 2014"),
    Formula("highway layer", ("highway*", "carry"), "x[*], transformed[*], gate[*]", _highway,
            "Srivastava, Greff and Schmidhuber, Highway networks, 2015"),
    Formula("swish with a scale", ("swish*", "silu*"), "x[*], beta[]", _swish_scaled,
            "Ramachandran, Zoph and Le, Searching for activation functions, 2017"),
)  # fmt: skip
"""Rows of this theme."""
