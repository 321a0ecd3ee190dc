"""What the values of many rows are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from chainrule.engine.op import Array


def reductions(x: Array) -> Iterator[Array]:
    """A loss as it is in use: of each element, each row, each case and all. For rows up to a
    factor: a sum is a mean then."""
    yield x
    if x.ndim > 1:
        yield x.mean(axis=-1)
        yield x.mean(axis=0)
    if x.ndim > 2:
        yield x.reshape(len(x), -1).mean(axis=1)
    yield np.asarray(x.mean())


def totals(x: Array) -> Iterator[Array]:
    """Each case's and that of all, of what has been summed over its last axis."""
    yield x
    yield np.asarray(x.mean())


def counting(n: int) -> Array:
    """0 to n - 1."""
    return np.arange(n, dtype=float)


def evenly(first: float, last: float, n: int) -> Array:
    """So many numbers, both ends among them."""
    return np.linspace(first, last, n)


def sigmoid(x: Array) -> Array:
    """Without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def softplus(x: Any) -> Array:
    """`log(1 + exp(x))`."""
    return np.logaddexp(0.0, x)


def log_sum_exp(x: Array, axis: int = -1) -> Array:
    """The logarithm of the sum of exponentials."""
    return np.logaddexp.reduce(x, axis=axis)


def log_softmax(x: Array, axis: int = -1) -> Array:
    """The logarithms of shares."""
    return x - np.expand_dims(log_sum_exp(x, axis), axis)


def softmax(x: Array, axis: int = -1) -> Array:
    """Shares."""
    return np.exp(log_softmax(x, axis))


def at_labels(x: Array, labels: Array) -> Array:
    """The entry of each row, (..., c), that its label, (...), names."""
    return np.take_along_axis(x, labels[..., None].astype(int), axis=-1)[..., 0]


def one_hot(labels: Array, classes: int) -> Array:
    """(...) -> (..., classes)."""
    return (labels[..., None] == np.arange(classes)).astype(float)


def relu(x: Array) -> Array:
    """Nothing below 0."""
    return np.maximum(x, 0.0)


def norm(x: Array, axis: int = -1) -> Array:
    """Euclid's, along one axis."""
    return np.sqrt((x * x).sum(axis=axis))


def normalized(x: Array) -> Array:
    """Rows of length 1."""
    return x / norm(x)[..., None]


def log_gamma(x: Any) -> Array:
    """The logarithm of the gamma function."""
    return np.vectorize(math.lgamma, otypes=[float])(x)


def square_distances(x: Array, y: Array) -> Array:
    """(n, d), (m, d) -> (n, m)."""
    return ((x[:, None] - y[None]) ** 2).sum(axis=-1)


def reverse_discounted(x: Array, share: Array) -> Array:
    """`y[t] = x[t] + share[t] * y[t + 1]`, from the end."""
    rows, y = list[Array](), np.zeros(x.shape[1:])
    for row, s in zip(x[::-1], share[::-1], strict=True):
        y = row + s * y
        rows.insert(0, y)
    return np.array(rows)
