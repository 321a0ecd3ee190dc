"""Attention, positions and the functions of its neighbourhood."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import counting, log_softmax, softmax


def _softmax(x: Array) -> Iterator[Array]:
    """Of scores, or of distances."""
    for axis in range(-1, -x.ndim - 1, -1):
        yield from (softmax(x, axis), softmax(-x, axis))


def _log_softmax(x: Array) -> Iterator[Array]:
    for axis in range(-1, -x.ndim - 1, -1):
        yield from (log_softmax(x, axis), log_softmax(-x, axis))


def _tempered(x: Array, temperature: float) -> Iterator[Array]:
    for y in (x / temperature, -x / temperature):
        yield from (softmax(y), log_softmax(y))


def _gumbel(logits: Array, uniform: Array, temperature: float, eps: float) -> Iterator[Array]:
    for e in (0.0, eps):
        noise = -np.log(-np.log(uniform + e) + e)
        yield softmax((logits + noise) / temperature)
        yield softmax((log_softmax(logits) + noise) / temperature)


def _scores(query: Array, key: Array) -> Array:
    return query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])


def _scaled_scores(query: Array, key: Array) -> Iterator[Array]:
    if query.ndim > 1:
        yield _scores(query, key)


def _weights(query: Array, key: Array) -> Iterator[Array]:
    if query.ndim > 1:
        yield softmax(_scores(query, key))


def _attention(query: Array, key: Array, value: Array) -> Iterator[Array]:
    for weights in _weights(query, key):
        yield weights @ value


def _plain_attention(query: Array, key: Array, value: Array) -> Iterator[Array]:
    """Without a scale: the weights and what they take."""
    if query.ndim > 1:
        weights = softmax(query @ np.swapaxes(key, -1, -2))
        yield from (weights, weights @ value)


def _width_attention(query: Array, key: Array, value: Array) -> Iterator[Array]:
    yield from _plain_attention(query / query.shape[-1], key, value)


def _causal(scores: Array) -> Array:
    t = scores.shape[-1]
    return np.where(np.tril(np.ones((t, t))) == 1, scores, -np.inf)


def _causal_weights(query: Array, key: Array) -> Iterator[Array]:
    if query.ndim > 1:
        yield softmax(_causal(_scores(query, key)))


def _causal_attention(query: Array, key: Array, value: Array) -> Iterator[Array]:
    for weights in _causal_weights(query, key):
        yield weights @ value


def _causal_softmax(scores: Array) -> Iterator[Array]:
    if scores.ndim > 1 and scores.shape[-1] == scores.shape[-2]:
        yield softmax(_causal(scores))
        yield softmax(_causal(scores / np.sqrt(scores.shape[-1])))


def _masked_softmax(scores: Array, mask: Array) -> Iterator[Array]:
    yield softmax(np.where(mask == 1, scores, -1e30))


def _slopes(heads: int) -> Iterator[Array]:
    """Of a power of two heads."""
    yield 2.0 ** (-8 / heads * np.arange(1, int(heads) + 1))


def _distance_biases(heads: int, length: int) -> Iterator[Array]:
    t = np.arange(int(length))
    for slopes in _slopes(heads):
        bias = slopes[:, None, None] * (t[None, None, :] - t[None, :, None])
        yield from (bias, np.minimum(bias, 0), slopes[:, None, None] * t[None, None, :])
        yield -np.abs(bias)


def _waves(position: Array, frequency: Array) -> Iterator[Array]:
    """Sines and cosines in turns, or one half of each."""
    angle = position[:, None] * frequency
    s, c = np.sin(angle), np.cos(angle)
    yield np.stack([s, c], axis=-1).reshape(len(position), -1)
    yield np.concatenate([s, c], axis=-1)
    yield np.concatenate([c, s], axis=-1)


def _positions(length: int, width: int, base: float) -> Iterator[Array]:
    yield from _times(np.arange(int(length), dtype=float), width, base)


def _times(position: Array, width: int, base: float) -> Iterator[Array]:
    half = int(width) // 2
    for spread in (half, max(half - 1, 1)):
        yield from _waves(position, base ** (-np.arange(half) / spread))


def _frequencies(width: int, base: float) -> Iterator[Array]:
    half = int(width) // 2
    for spread in (half, max(half - 1, 1)):
        yield from (base ** (-np.arange(half) / spread), np.arange(half) / spread * -np.log(base))


def _rotations(x: Array, c: Array, s: Array) -> Iterator[Array]:
    """(..., half) angles turn neighbours, or the numbers of both halves."""
    a, b = x[..., ::2], x[..., 1::2]
    yield np.stack([a * c - b * s, a * s + b * c], axis=-1).reshape(x.shape)
    a, b = np.split(x, 2, axis=-1)
    yield np.concatenate([a * c - b * s, a * s + b * c], axis=-1)


def _rotary(x: Array, base: float) -> Iterator[Array]:
    """Positions are the second axis from the end, or the third."""
    for axis in range(2, min(x.ndim, 3) + 1) if x.shape[-1] % 2 == 0 else ():
        half = x.shape[-1] // 2
        angle = counting(x.shape[-axis])[:, None] * base ** (-counting(half) / half)
        angle = angle.reshape(len(angle), *[1] * (axis - 2), half)
        yield from _rotations(x, np.cos(angle), np.sin(angle))


def _rotated(x: Array, cos: Array, sin: Array) -> Iterator[Array]:
    """Cosines and sines of both halves."""
    if x.shape[-1] % 2 == 0:
        a, b = np.split(x, 2, axis=-1)
        yield x * cos + np.concatenate([-b, a], axis=-1) * sin


def _rotated_pairs(x: Array, cos: Array, sin: Array) -> Iterator[Array]:
    if x.shape[-1] == 2 * cos.shape[-1]:
        yield from _rotations(x, cos, sin)


def _additive(query: Array, key: Array, direction: Array) -> Iterator[Array]:
    scores = np.tanh(query[:, None] + key[None]) @ direction
    yield from (scores, softmax(scores))


_VASWANI = "Vaswani et al., Attention is all you need, 2017"
_PRESS = "Press, Smith and Lewis, Train short, test long (ALiBi), 2022, section 3"
_SU = "Su et al., RoFormer, 2021, section 3.2"
_ATTENTION = ("att*", "query*", "key*", "q", "scores")
_CAUSAL = ("causal*", "mask*", "tril", "triu")
_SINUS = ("pos*", "sinus*", "pe", "embed*", "time*", "freq*")
_ROPE = ("rope*", "rotary*", "rotate*", "apply", "freq*")

ROWS = (
    Formula("softmax", ("softmax*", "prob*"), "x[*]", _softmax, "Bridle, Probabilistic "
            "interpretation of feedforward classification network outputs, 1990"),
    Formula("log-softmax", ("logsoftmax*", "softmax*", "logprob*", "log"), "x[*]", _log_softmax,
            "Bridle, Probabilistic interpretation of feedforward classification network outputs, "
            "1990"),
    Formula("softmax with temperature", ("temp*", "tau"), "x[*], temperature[]", _tempered,
            "Hinton, Vinyals and Dean, Distilling the knowledge in a neural network, 2015, "
            "equation 1"),
    Formula("Gumbel-softmax", ("gumbel*",), "logits[*], uniform[*], temperature[], eps[]",
            _gumbel, "Jang, Gu and Poole, Categorical reparameterization with Gumbel-softmax, "
            "2017, equation 2"),
    *(Formula("scaled scores", _ATTENTION, takes, _scaled_scores, f"{_VASWANI}, equation 1")
      for takes in ("query[*], key[*]", "query[t d], key[s d]", "query[b t d], key[b s d]")),
    *(Formula("attention weights", _ATTENTION, takes, _weights, f"{_VASWANI}, equation 1")
      for takes in ("query[*], key[*]", "query[t d], key[s d]", "query[b t d], key[b s d]")),
    *(Formula("attention", _ATTENTION, takes, _attention, f"{_VASWANI}, equation 1")
      for takes in ("query[*], key[*], value[*]", "query[t d], key[s d], value[s h]",
                    "query[b t d], key[b s d], value[b s h]")),
    Formula("causal attention weights", _CAUSAL, "query[*], key[*]", _causal_weights,
            f"{_VASWANI}, section 3.2.3"),
    Formula("causal attention", _CAUSAL, "query[*], key[*], value[*]", _causal_attention,
            f"{_VASWANI}, section 3.2.3"),
    Formula("causal weights of scores", _CAUSAL, "scores[*]", _causal_softmax,
            f"{_VASWANI}, section 3.2.3"),
    Formula("weights of scores under a mask", ("mask*", "att*", "pad*"),
            "scores[*], mask[*]:bool", _masked_softmax, f"{_VASWANI}, section 3.2.3"),
    Formula("additive attention", ("bahdanau*", "additive", "energy"),
            "query[t d], key[s d], direction[d]", _additive,
            "Bahdanau, Cho and Bengio, Neural machine translation by jointly learning to align "
            "and translate, 2015, section A.1.2"),
    Formula("slopes of ALiBi", ("alibi*", "slope*"), "heads[]:int", _slopes, _PRESS),
    Formula("biases of ALiBi", ("alibi*", "slope*"), "heads[]:int, length[]:int",
            _distance_biases, _PRESS),
    Formula("sinusoidal positions", _SINUS, "length[]:int, width[]:int, base[]", _positions,
            f"{_VASWANI}, section 3.5"),
    Formula("sinusoidal times", _SINUS, "position[n], width[]:int, base[]", _times,
            f"{_VASWANI}, section 3.5; Ho, Jain and Abbeel 2020"),
    Formula("frequencies of positions", (*_SINUS, *_ROPE), "width[]:int, base[]", _frequencies,
            f"{_SU}; {_VASWANI}, section 3.5"),
    Formula("rotary positions", _ROPE, "x[*], base[]", _rotary, _SU),
    Formula("rotation by given cosines", _ROPE, "x[*], cos[*], sin[*]", _rotated, _SU),
    Formula("rotation of pairs by given cosines", _ROPE, "x[t d], cos[t r], sin[t r]",
            _rotated_pairs, _SU),
    *(Formula("attention without a scale", _ATTENTION, takes, _plain_attention,
              "Luong, Pham and Manning, Effective approaches to attention-based neural machine "
              "translation, 2015; Raffel et al., T5, 2020")
      for takes in ("query[*], key[*], value[*]", "query[t d], key[s d], value[s h]")),
    Formula("attention scaled by the width", ("mup*",), "query[*], key[*], value[*]",
            _width_attention, "Yang et al., Tensor programs V, 2022"),
)  # fmt: skip
"""Rows of this theme."""
