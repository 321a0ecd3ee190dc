"""Sample arguments for rows of the table: by their kinds, axes and names."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from chainrule.verify.formulas.formula import Argument, Formula, arguments

Rng: TypeAlias = np.random.Generator
Shape: TypeAlias = tuple[int, ...]

LENGTHS = dict(zip("abcdehkmnpqstw", (4, 3, 5, 4, 10, 6, 5, 8, 6, 4, 3, 9, 7, 5), strict=True))
"""Of axes, by letter. A digit is its own length; `t+1` is one more than `t`."""


def _positive(rng: Rng, shape: Shape) -> Any:
    return rng.uniform(0.3, 1.8, shape)


def _unit(rng: Rng, shape: Shape) -> Any:
    return rng.uniform(0.1, 0.9, shape)


def _definite(rng: Rng, shape: Shape) -> Any:
    a = rng.normal(size=shape)
    return a @ a.T + np.eye(shape[0])


def _shares(rng: Rng, shape: Shape) -> Any:
    p = rng.uniform(0.2, 1.0, shape)
    return p / p.sum(axis=-1, keepdims=True)


def _falling(rng: Rng, shape: Shape) -> Any:
    return np.cumprod(rng.uniform(0.7, 0.95, shape)) if shape else rng.uniform(0.3, 0.9)


_POSITIVE = """
    prediction std variance scale shape rate dispersion nu beta weights time other_std prior_std
    prior_variance delta c width margin temperature weight counts smooth freedom expected
"""
_UNIT = """
    probability target quantile quantiles smoothing average rho expectile alpha activations
    bernoulli other_bernoulli
"""

NAMED: dict[str, Callable[[Rng, Shape], Any]] = {
    **dict.fromkeys(_POSITIVE.split(), _positive),
    **dict.fromkeys(_UNIT.split(), _unit),
    **dict.fromkeys(["p", "q"], _shares),
    **dict.fromkeys(["covariance", "cov", "other_cov", "kernel"], _definite),
    "eps": lambda rng, shape: 1e-3 * rng.uniform(0.5, 1.5, shape),
    "thresholds": lambda rng, shape: np.sort(rng.normal(size=shape)),
    "evidence": lambda rng, shape: rng.uniform(0.5, 4.0, shape),
}
"""Float arguments that are no normal numbers."""

WHOLE: dict[str, Callable[[Rng, Shape], Any]] = {}
"""Int arguments that are no indices."""


def lengths(axes: tuple[str, ...] | None, whole: Shape) -> Shape:
    """The shape of an argument, if `*` is `whole`."""
    if axes is None:
        return whole
    return tuple(int(x) if x.isdigit() else LENGTHS[x[0]] + x.endswith("+1") for x in axes)


def sample(formula: Formula, seed: int = 0, whole: Shape = (5, 6), numbers: int = 0) -> list[Any]:
    """One value for each argument; those that are no arrays, and masks, by a seed of their own: a
    factor that a row leaves open may be one of them."""
    own = zlib.crc32(formula.takes.encode())
    rng, fixed = np.random.default_rng([own, seed]), np.random.default_rng([own, numbers, 9])
    return [
        _value(a, fixed if a.axes == () or a.kind == "bool" else rng, lengths(a.axes, whole))
        for a in arguments(formula)
    ]


def _value(argument: Argument, rng: Rng, shape: Shape) -> Any:
    if argument.kind == "bool":
        return _mask(rng, shape)
    if argument.kind == "int":
        x = WHOLE.get(argument.name, lambda r, s: r.integers(0, 4, s))(rng, shape)
    else:
        x = NAMED.get(argument.name, lambda r, s: r.normal(size=s))(rng, shape)
    return np.asarray(x) if shape else np.asarray(x).item()


def _mask(rng: Rng, shape: Shape) -> Any:
    """Each row and each column of at least three has both values."""
    mask = rng.integers(0, 2, shape).astype(float)
    if len(shape) < 2:
        return np.array([1.0, 0.0, *mask[2:]])
    places = (np.indices(shape).sum(axis=0) + rng.integers(3)) % 3
    return np.choose(places, [1.0, 0.0, mask])


def variants(formula: Formula, args: list[Any]) -> Iterator[Any]:
    """The values of a row: each an array or a tuple of arrays."""
    value = formula.value(*args)
    yield from value if isinstance(value, Iterator) else [value]
