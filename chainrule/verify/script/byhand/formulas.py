"""The formulas of known optimizers, as functions of the gradients that they have been given, and
whether the changes of a parameter are one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np

from chainrule.engine.op import Array

_FITS = 1e-7
"""Relative error up to which changes are those of a formula."""
Formula: TypeAlias = Callable[[Array, float, float, float], Iterator[Array]]
"""Of gradients (turns, elements), two rates of means and a small number: directions of steps,
each in some variants that are in use."""


def _mean(g: Array, b: float) -> Array:
    """`m = b * m + (1 - b) * g`, from zero on."""
    rows, m = list[Array](), np.zeros(g.shape[1:])
    for row in g:
        m = b * m + (1 - b) * row
        rows.append(m)
    return np.array(rows)


def _unbiased(m: Array, b: float) -> Array:
    powers = b ** np.arange(1, len(m) + 1)
    return m / (1 - powers)[:, None]


def _below(m: Array, s: Array, eps: float) -> Iterator[Array]:
    """Divided by a root, the small number outside of it and inside."""
    yield m / (np.sqrt(s) + eps)
    yield m / np.sqrt(s + eps)


def momentum(g: Array, b: float, _: float, __: float) -> Iterator[Array]:
    """A velocity, and Nesterov's look ahead."""
    v = _mean(g, b) / (1 - b)
    yield from (g, v, g + b * v, np.sign(g), np.sign(v))


def lion(g: Array, b: float, c: float, _: float) -> Iterator[Array]:
    """The sign of a mean of which the next one is another one."""
    m = _mean(g, c)
    before = np.concatenate([np.zeros((1, *g.shape[1:])), m[:-1]])
    yield np.sign(b * before + (1 - b) * g)


def adagrad(g: Array, _: float, __: float, eps: float) -> Iterator[Array]:
    """By the root of all squares."""
    yield from _below(g, np.cumsum(g * g, axis=0), eps)


def rmsprop(g: Array, b: float, c: float, eps: float) -> Iterator[Array]:
    """By the root of a mean of squares; centred; with a velocity."""
    s, m = _mean(g * g, b), _mean(g, b)
    for u in (*_below(g, s, eps), *_below(g, np.maximum(s - m * m, 0), eps)):
        yield from (u, _mean(u, c) / (1 - c))
    yield from _below(g, _unbiased(s, b), eps)


def adam(g: Array, b: float, c: float, eps: float) -> Iterator[Array]:
    """Both means without their bias, or neither; with the largest squares; by the largest size;
    with Nesterov's look ahead."""
    m, s = _mean(g, b), _mean(g * g, c)
    mh, sh = _unbiased(m, b), _unbiased(s, c)
    largest = np.maximum.accumulate
    for top, square in ((mh, sh), (m, s), (mh, largest(sh)), (m, largest(s))):
        yield from _below(top, square, eps)
    powers = 1 - b ** np.arange(1, len(g) + 1)[:, None]
    yield from _below(mh, largest(s) / (1 - c ** np.arange(1, len(g) + 1))[:, None], eps)
    yield from _below(b * mh + (1 - b) * g / powers, sh, eps)
    root = np.sqrt(1 - c ** np.arange(1, len(g) + 1))[:, None]
    yield mh * root / (np.sqrt(s) + eps)
    size = [np.abs(g[0])]
    for row in g[1:]:
        size.append(np.maximum(c * size[-1], np.abs(row)))
    yield mh / (np.array(size) + eps)
    belief = _mean((g - m) ** 2, c)
    yield from _below(mh, _unbiased(belief, c), eps)
    yield from _below(mh, _unbiased(belief + eps, c), eps)


KNOWN: tuple[Formula, ...] = (momentum, lion, adagrad, rmsprop, adam)


def formula_name(
    g: Array,
    p: Array,
    steps: Array,
    numbers: Sequence[float],
    rates: Sequence[Array],
    *,
    exact: bool = False,
) -> str:
    """The name of the formula that steps are of; empty for none.

    Args:
        g: Gradients, (turns, elements).
        p: What the parameter was before each step.
        steps: What it was changed by.
        numbers: Those that the program knows, of which rates of means and small ones are.
        rates: For each turn, a number that the step is multiplied by.
        exact: Whether the rate has to be one of the numbers, or a share of one.
    """
    if not (np.all(np.isfinite(steps)) and np.any(steps)):
        return ""
    means = [x for x in numbers if 0.05 < abs(x) < 1] or [0.9]
    small = [0.0, *[x for x in numbers if 0 < x <= 1e-3]]
    seen = set[bytes]()
    with np.errstate(all="ignore"):
        for formula in KNOWN:
            for b, c, eps in product(means, means, small):
                for u in formula(g, b, c, eps):
                    key = u.tobytes()
                    if key in seen or not np.all(np.isfinite(u)):
                        continue
                    seen.add(key)
                    found = [_rate(u * r[:, None], p, steps) for r in rates]
                    shares = formula is momentum
                    if any(x and (not exact or _is_of(x, numbers, shares=shares)) for x in found):
                        return formula.__name__
    return ""


def _rate(u: Array, p: Array, steps: Array) -> float:
    """Of which multiple of a direction steps are, but for one of the parameter, a decay; 0 if of
    none."""
    columns = np.stack([u.ravel(), p.ravel()], axis=1)
    found, *_ = np.linalg.lstsq(columns, steps.ravel(), rcond=None)
    off = np.linalg.norm(columns @ found - steps.ravel())
    return float(found[0]) if off <= _FITS * np.linalg.norm(steps) else 0.0


def _is_of(rate: float, numbers: Sequence[float], *, shares: bool) -> bool:
    """Whether a rate is one that the program knows; `shares`: or what a mean takes of one."""
    of = [1.0, *[1 - x for x in numbers if shares and 0.05 < x < 1]]
    some = [x * share for x in (1.0, *numbers) for share in of]
    return any(abs(abs(rate) - abs(x)) <= 1e-6 * abs(x) for x in some)
