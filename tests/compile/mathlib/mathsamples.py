"""Samples of the functions of `chainrule.compile.mathlib`, and how far a result is off.

Errors are counted in units in the last place of the exact value. Samples are random over the whole
range of a function, and next to the points at which its code changes its way.
"""

from __future__ import annotations

import math
import re

import mpmath as mp
import numpy as np

from chainrule.compile.mathlib.table import TABLE
from chainrule.ops import elementwise
from chainrule.ops.special import bessel, table
from tests.compile.mathlib.mathcases import CASES

DTYPES = (np.float32, np.float64)
THRESHOLDS = [
    *(0.1, 0.25, math.sqrt(2) - 1, 0.5, 0.6, math.sqrt(0.5), 0.7, 1.0, math.sqrt(2), 1.5, 2.0),
    *(math.log(2) / 2, math.log(2), math.pi / 4, math.pi / 2, math.pi, 22.0, 28.0, 39.0, 88.02),
    *(
        709.7,
        745.1,
        103.97,
        2.5,
        3.5,
        4.5,
        9.01,
        10.0,
        13.9,
        37.5,
        1e5,
        1e9,
        2.0**-30,
        2.0**60,
        2.0**-60,
    ),
]
BINARY = {"exp_diff", "exp_product", "sigmoid_diff", "logaddexp", "pow", "hypot", "atan2"}
EXACT = sorted(name for name, f in TABLE.items() if not f.bound64)
EXACT_BINARY = {"fmod", "remainder", "floor_divide", "copysign", "nextafter"}
APPROXIMATE = sorted(CASES)


def op_row(name):
    """The row of the op table with that name; names end with an order that is known."""
    name = name[:-1] if ordered(name) else name
    homes = [m for m in (elementwise, table, bessel) if hasattr(m, name)]
    return getattr(homes[0], name)


def ordered(name):
    """The order of a function whose order is part of its name."""
    return re.fullmatch(r"(?:polygamma|iv|ive|spherical_jn)(\d)", name)


def arity(name):
    return 2 if name in BINARY | EXACT_BINARY else 1


def samples(name, dtype, count, seed=0):
    """Numbers of every size in the range, many moderate ones, and neighbours of thresholds."""
    rng = np.random.default_rng(seed)
    case = CASES[name]
    info = np.finfo(dtype)
    low, high = max(case.low, float(info.min)), min(case.high, float(info.max))
    sizes = [rng.uniform(-s, s, count // 4) for s in (0.4, 1.5, 8.0, 100.0, 1000.0)]
    ends = (np.log(float(info.smallest_subnormal)), np.log(float(info.max)))
    wild = np.exp(rng.uniform(*ends, count // 2)) * rng.choice([-1, 1], count // 2)
    multiples = rng.integers(1, 10**6, count // 4) * (np.pi / 2)
    near_1 = 1 + rng.normal(size=count // 4) * 10 ** rng.uniform(-8, 0, count // 4)
    edges = np.array([s * t for t in THRESHOLDS for s in (1, -1)]).astype(dtype)
    edges = np.concatenate([np.nextafter(edges, dtype(s * np.inf)) for s in (1, -1)] + [edges])
    with np.errstate(all="ignore"):
        xs = np.concatenate([*sizes, wild, multiples, near_1, edges]).astype(dtype)
    xs = xs[(xs >= low) & (xs <= high) & (xs != 0)]
    return xs[(xs > 0) | (xs != np.floor(xs))] if case.poles else xs


def arguments(name, dtype, count, seed=0):
    """As many arrays of samples as the function has arguments."""
    xs = [samples(name, dtype, count, seed)]
    if arity(name) == 2:
        rng = np.random.default_rng(seed + 1)
        if name == "pow":
            xs.append(samples("cbrt", dtype, count, seed))
            xs[1] = rng.permutation(np.resize(xs[1], xs[0].size))
            with np.errstate(all="ignore"):  # half of them with a result that is a number
                fit = rng.uniform(-1, 1, xs[0].size) * np.log(np.finfo(dtype).max) / np.log(xs[0])
            half = (rng.random(xs[0].size) < 0.5) & np.isfinite(fit)
            xs[1] = np.where(half, fit, xs[1]).astype(dtype)
        else:
            xs.append(rng.permutation(xs[0]))
    return xs


def ulp(r, dtype):
    """The unit in the last place of the number r (an mpf), not 0."""
    info = np.finfo(dtype)
    exponent = max(mp.frexp(r)[1] - 1, int(info.minexp)) if r else int(info.minexp)
    return mp.ldexp(1, exponent - info.nmant)


def error(y, exact, dtype, floor=0):
    """The distance of y from the exact value, in ulp of it, or of `floor` if that is larger."""
    info = np.finfo(dtype)
    limit = mp.mpf(float(info.max))
    if abs(exact) > limit:
        # Infinity is right beyond the largest number; so is that number, if it is an ulp away.
        near = abs(exact) < limit + 2 * ulp(limit, dtype)
        right = math.isinf(y) or (near and abs(y) == limit)
        return 0.0 if right and (y > 0) == (exact > 0) else math.inf
    if math.isinf(y):
        return 0.5 if abs(exact) > limit - ulp(limit, dtype) else math.inf
    if math.isnan(y):
        return math.inf
    return float(abs(mp.mpf(float(y)) - exact) / ulp(max(abs(exact), floor), dtype))


def exact_value(name, *xs):
    """The function of mpf, right to far more digits than either format."""
    if name == "exp_diff":
        return mp.exp(xs[0])
    return CASES[name].exact(*xs)


def worst(name, dtype, count, run, seed=0):
    """The largest error over samples, and where."""
    xs = arguments(name, dtype, count, seed)
    ys = run(*xs)
    # exp_diff is exp of the rounded difference, as in the eager engine.
    of = [np.subtract(*xs)] if name == "exp_diff" else xs
    largest, case = (0.0, ()), CASES[name]
    with mp.workdps(60):
        for y, *x in zip(ys.tolist(), *(v.tolist() for v in of), strict=True):
            args = [mp.mpf(v) for v in x]
            floor = case.floor(*args) if case.floor else 0
            e = error(y, exact_value(name, *args), dtype, floor)
            largest = max(largest, (e, (*x, y)), key=lambda pair: pair[0])
    return largest
