"""Sample arguments for rows of the table: by their kinds, axes and names."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from chainrule.verify.formulas.formula import Argument, Formula, arguments

Rng: TypeAlias = np.random.Generator
Shape: TypeAlias = tuple[int, ...]

LENGTHS = dict(
    zip("abcdeghkmnpqrstw", (4, 3, 6, 4, 10, 3, 5, 5, 8, 7, 4, 3, 2, 12, 9, 20), strict=True)
)
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


def _falling(rng: Rng, shape: Shape) -> Any:
    return np.cumprod(rng.uniform(0.7, 0.95, shape)) if len(shape) == 1 else _unit(rng, shape)


def _boxes(rng: Rng, shape: Shape) -> Any:
    """Each two of them overlap, whatever the numbers stand for."""
    return rng.uniform(0, 0.5, shape) + np.array([0, 0, 1, 1]) * rng.uniform(1, 2, shape)


def _graph(rng: Rng, shape: Shape) -> Any:
    """With weights, no loops, at least one edge at each node."""
    a = rng.uniform(0.5, 1.5, shape) * (rng.uniform(size=shape) < 0.4)
    a = np.triu(a + np.eye(*shape, k=1), 1)
    return a + a.T


_POSITIVE = """
    prediction std variance scale shape rate dispersion nu weights time other_std prior_std
    prior_variance delta c width temperature weight smooth freedom expected sigma data_std
    least student_t teacher_t ratio ratios snr spot strike maturity mass density color r softening
    strength epsilon length period power cost amounts every slope k base start end top low
    high divisor last_divisor limit kappa mu theta h dt squares count other_count relevance state
    other_variance widths loss other_loss losses free distances sides offset energy step
"""
_UNIT = """
    probability target quantile quantiles smoothing average rho expectile alpha activations beta
    share gamma lam tau decay momentum damping clip previous_bar first last t uniform
    discounts real_probability fake_probability pixels
"""
_SHARES = "p q shares rank supply demand next_probability policy prior"
_DEFINITE = "covariance cov other_cov kernel process_covariance noise_covariance"
_BOXES = ("box", "other", "anchor")

NAMED: dict[str, Callable[[Rng, Shape], Any]] = {
    **dict.fromkeys(_POSITIVE.split(), _positive),
    **dict.fromkeys(_UNIT.split(), _unit),
    **dict.fromkeys(_SHARES.split(), _shares),
    **dict.fromkeys(_DEFINITE.split(), _definite),
    **dict.fromkeys(["chosen", "rejected"], lambda rng, shape: -_positive(rng, shape)),
    **dict.fromkeys(["cosine", "action"], lambda rng, shape: rng.uniform(-0.9, 0.9, shape)),
    **dict.fromkeys(["inside", "other_inside"], lambda rng, shape: rng.uniform(-0.4, 0.4, shape)),
    "box": _boxes,
    "adjacency": _graph,
    "alpha_bar": _falling,
    "margin": lambda rng, shape: rng.uniform(0.05, 2.5, shape),
    "most": lambda rng, shape: rng.uniform(4, 9, shape),
    "edge": lambda rng, shape: rng.uniform(0.01, 0.1, shape),
    "floor": lambda rng, shape: rng.uniform(0.05, 0.2, shape),
    "betas": lambda rng, shape: rng.uniform(0.05, 0.3, shape),
    "counts": lambda rng, shape: rng.uniform(1, 9, shape),
    "support": lambda rng, shape: np.linspace(-1.0, rng.uniform(1, 2), *shape),
    "eps": lambda rng, shape: 1e-3 * rng.uniform(0.5, 1.5, shape),
    "thresholds": lambda rng, shape: np.sort(rng.normal(size=shape)),
    "evidence": lambda rng, shape: rng.uniform(0.5, 4.0, shape),
}
"""Float arguments that are no normal numbers."""


def _between(low: int, high: int, by: int = 1) -> Callable[[Rng, Shape], Any]:
    return lambda rng, shape: by * rng.integers(low, high, shape)


def _steps(rng: Rng, shape: Shape) -> Any:
    return np.sort(rng.choice(45, shape, replace=False)) if shape else rng.integers(1, 9)


WHOLE: dict[str, Callable[[Rng, Shape], Any]] = {
    "step": lambda rng, shape: (
        np.sort(rng.choice(45, shape, replace=False)) if shape else rng.integers(1, 9)
    ),
    "total": _between(30, 40),
    "warmup": _between(8, 14),
    "period": _between(6, 12),
    "half": _between(5, 9),
    "cycles": _between(3, 6),
    "last": _between(5, 12),
    "steps": _between(3, 7),
    "length": _between(5, 9),
    "levels": _between(2, 5),
    "size": _between(10, 20),
    "heads": _between(1, 4, by=4),
    "width": _between(2, 6, by=2),
    "groups": _between(2, 4),
}
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
        name = "box" if shape[-1:] == (4,) and argument.name in _BOXES else argument.name
        x = NAMED.get(name, lambda r, s: r.normal(size=s))(rng, shape)
    return np.asarray(x) if shape else np.asarray(x).item()


def _mask(rng: Rng, shape: Shape) -> Any:
    """Each row and each column of at least three has both values."""
    mask = np.asarray(rng.integers(0, 2, shape), float)
    if not shape:
        return float(mask)
    if len(shape) == 1:
        return np.array([1.0, 0.0, *mask[2:]])
    places = (np.indices(shape).sum(axis=0) + rng.integers(3)) % 3
    return np.choose(places, [1.0, 0.0, mask])


def variants(formula: Formula, args: list[Any]) -> Iterator[Any]:
    """The values of a row: each an array or a tuple of arrays."""
    value = formula.value(*args)
    yield from value if isinstance(value, Iterator) else [value]


def shapes(formula: Formula) -> list[Shape]:
    """What `*` may be for a row: some are of matrices, or of even or equal lengths."""
    if "[*]" not in formula.takes:
        return [(5, 6)]
    fits = [s for s in [(5, 6), (3, 5, 5), (7,)] if any(True for _ in _tried(formula, s))]
    assert fits, formula.name
    return fits


def _tried(formula: Formula, whole: Shape) -> Iterator[Any]:
    yield from variants(formula, sample(formula, whole=whole))
