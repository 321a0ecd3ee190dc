"""The native mathematics against mpmath, against the eager engine, and against itself.

Errors are counted in units in the last place of the exact value. Samples are random over the whole
range of a function, and next to the points at which its code changes its way.
"""

from __future__ import annotations

import importlib
import itertools
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special
from llvmlite import binding

from chainrule.compile import mathlib
from chainrule.compile.mathlib import coefficients, special_coefficients, spherical
from chainrule.compile.mathlib.polygamma import ORDERS
from chainrule.compile.mathlib.table import TABLE
from chainrule.ops import elementwise, special
from tests.compile.lanes import loop, machine, native

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


@dataclass(frozen=True)
class Case:
    """A function in mpmath and where to sample it; whether it has poles at 0, -1, -2, ...

    Where parts of it cancel on its way, errors are in ulp of the larger of it and its `floor`.
    """

    exact: Any
    low: float = -math.inf
    high: float = math.inf
    poles: bool = False
    floor: Any = None


def _sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def _gelu_gate(x):
    return _sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3))


def _gelu_tanh(x):
    return x * _gelu_gate(x)


def _logaddexp(a, b):
    return max(a, b) + mp.log1p(mp.exp(-abs(a - b)))


def _erfcx(x):
    if x < 100:
        return mp.exp(x * x) * mp.erfc(x)
    terms = [(-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(20)]
    return mp.fsum(terms) / (x * mp.sqrt(mp.pi))


def _log_ndtr(x):
    if x < 0:
        return mp.log(_erfcx(-x / mp.sqrt(2)) / 2) - x * x / 2
    return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)


def _newton(f, slope, x):
    """Where f is 0, by its slope there, from x."""
    for _ in range(100):
        step = f(x) / slope(x)
        x -= step
        if abs(step) <= abs(x) * mp.mpf(10) ** -40:
            return x
    raise AssertionError(x)


def _erfc_inverse(q):
    t = float(mp.sqrt(-mp.log(q)))
    x = mp.mpf(max(0.3, t - math.log(1.8 * t + 1.01) / (2 * t)))
    slope = lambda x: -2 / (mp.sqrt(mp.pi) * mp.exp(x * x) * mp.erfc(x))
    return _newton(lambda x: mp.log(mp.erfc(x)) - mp.log(q), slope, x)


def _erfinv(y):
    if abs(y) > 0.4:
        return mp.sign(y) * (_erfc_inverse(1 - abs(y)) if abs(y) < 1 else mp.inf)
    slope = lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)
    return _newton(lambda x: mp.erf(x) - y, slope, y * mp.sqrt(mp.pi) / 2)


def _ndtri(p):
    tail = -mp.sign(p - 0.5) * _erfc_inverse(2 * min(p, 1 - p)) if abs(p - 0.5) > 0.3 else None
    return -mp.sqrt(2) * (_erfinv(1 - 2 * p) if tail is None else tail)


def _bessel(n, scaled=False):
    def exact(x):
        with mp.workdps(80):
            return mp.besseli(n, x) * (mp.exp(-abs(x)) if scaled else 1)

    return exact


def _lgamma(x):
    return mp.re(mp.loggamma(x))


def _lgamma_floor(x):
    """On the left it is log(pi / sin) less lgamma(1 - x)."""
    return max(mp.mpf(1), _lgamma(1 - x)) if x < 0 else 0


def _digamma_floor(x):
    """On the left it is a cotangent and digamma(1 - x)."""
    return abs(mp.digamma(1 - x)) if x < 0 else 0


def _polygamma(n):
    """DLMF 5.15.6 on the left: the n-th derivative of the cotangent is a polynomial of it."""
    p = [0, 1]
    for _ in range(n):
        slope = [k * a for k, a in enumerate(p)][1:]
        p = [-a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]

    def right(x):
        return (-1) ** (n + 1) * mp.factorial(n) * mp.zeta(n + 1, x)

    def exact(x):
        if x > 0:
            return right(x)
        c = mp.cot(-mp.pi * x)
        cotangent = mp.fsum([a * c**k for k, a in enumerate(p)])
        return (-1) ** n * (mp.pi ** (n + 1) * cotangent + right(1 - x))

    return Case(exact, -300, 1e18, poles=True, floor=lambda x: abs(right(1 - x)) if x < 0 else 0)


def _spherical(n):
    """Beyond n + 2, which is before the first zero, it is a sum of parts of about 1 / x."""

    def exact(x):
        a = abs(x)
        with mp.workdps(60 + int(max(0, mp.log10(a)))):
            if n:
                y = mp.sqrt(mp.pi / (2 * a)) * mp.besselj(n + mp.mpf(1) / 2, a)
            else:
                y = mp.sin(a) / a
        return -y if n % 2 and x < 0 else y

    return Case(exact, floor=lambda x: 1 / abs(x) if n and abs(x) > n + 2 else 0)


CASES = {
    "exp": Case(mp.exp, -760, 720),
    "exp2": Case(lambda x: mp.mpf(2) ** x, -1100, 1030),
    "expm1": Case(mp.expm1, -760, 720),
    "exp_diff": Case(None, -300, 300),
    "sigmoid": Case(_sigmoid, -760, 760),
    "silu": Case(lambda x: x * _sigmoid(x), -770, 1e30),
    "gelu_tanh": Case(_gelu_tanh, -22, 1e30),
    "gelu_gate": Case(_gelu_gate, -22, 1e30),
    "gelu_erf": Case(lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2, -39, 1e30),
    "softplus": Case(lambda x: _logaddexp(x, mp.mpf(0)), -760, 1e30),
    "logaddexp": Case(_logaddexp, -1e30, 1e30, floor=lambda a, b: max(abs(a), abs(b))),
    "log": Case(mp.log, 0),
    "log2": Case(lambda x: mp.log(x, 2), 0),
    "log10": Case(mp.log10, 0),
    "log1p": Case(mp.log1p, -1),
    "pow": Case(mp.power, 0),
    "cbrt": Case(lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "hypot": Case(mp.hypot),
    "sin": Case(mp.sin),
    "cos": Case(mp.cos),
    "tan": Case(mp.tan),
    "asin": Case(mp.asin, -1, 1),
    "acos": Case(mp.acos, -1, 1),
    "atan": Case(mp.atan),
    "atan2": Case(mp.atan2),
    "sinh": Case(mp.sinh, -712, 712),
    "cosh": Case(mp.cosh, -712, 712),
    "tanh": Case(mp.tanh),
    "asinh": Case(mp.asinh),
    "acosh": Case(mp.acosh, 1),
    "atanh": Case(mp.atanh, -1, 1),
    "erf": Case(mp.erf),
    "erfc": Case(mp.erfc, -30, 28),
    "erfcx": Case(_erfcx, -27, 1e300),
    "log_ndtr": Case(_log_ndtr, -1e150, 40),
    "erfinv": Case(_erfinv, -1, 1),
    "ndtri": Case(_ndtri, 0, np.nextafter(1, 0)),
    "i0": Case(_bessel(0), -714, 714),
    "i1": Case(_bessel(1), -714, 714),
    "iv2": Case(_bessel(2), -714, 714),
    "i0e": Case(_bessel(0, scaled=True), -1e30, 1e30),
    "i1e": Case(_bessel(1, scaled=True), -1e30, 1e30),
    "ive2": Case(_bessel(2, scaled=True), -1e30, 1e30),
    "lgamma": Case(_lgamma, -300, poles=True, floor=_lgamma_floor),
    "digamma": Case(mp.digamma, -300, poles=True, floor=_digamma_floor),
    **{f"polygamma{n}": _polygamma(n) for n in ORDERS},
    **{f"spherical_jn{n}": _spherical(n) for n in spherical.ORDERS},
}
BINARY = {"exp_diff", "logaddexp", "pow", "hypot", "atan2"}
EXACT = sorted(name for name, f in TABLE.items() if not f.bound64)
EXACT_BINARY = {"fmod", "remainder", "floor_divide", "copysign", "nextafter"}
APPROXIMATE = sorted(CASES)


def op_row(name):
    """The row of the op table with that name; names end with an order that is known."""
    name = name[:-1] if ordered(name) else name
    return getattr(elementwise, name, None) or getattr(special, name)


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", APPROXIMATE)
def test_error_is_within_its_bound(name, dtype):
    run = native(name, dtype, arity(name), 8)
    e, where = worst(name, dtype, 400, run)
    assert e <= mathlib.bound(name, dtype), f"{name} off by {e} ulp at {where}"


WIDE_REFERENCE = {
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "sigmoid": scipy.special.expit,
    "silu": lambda x: x * scipy.special.expit(x),
    **{n: getattr(scipy.special, n) for n in ("erfcx", "log_ndtr", "ndtri", "i0e", "i1e")},
    "gelu_gate": lambda x: scipy.special.expit(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
}


@pytest.mark.parametrize("name", sorted(WIDE_REFERENCE))
def test_float32_in_bulk_against_float64(name):
    """Half a million numbers of every kind; float64 is exact enough for a reference."""
    bits = np.random.default_rng(3).integers(0, 2**32, 500_000, dtype=np.uint32)
    x = np.concatenate([bits.view(np.float32), samples(name, np.float32, 200_000)])
    x = x[np.isfinite(x)]
    x = x[(x.astype(float) >= CASES[name].low) & (x.astype(float) <= CASES[name].high)]
    y = native(name, np.float32, 1, 16)(x).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = WIDE_REFERENCE[name](x.astype(np.float64))
        unit = np.exp2(np.maximum(np.floor(np.log2(np.abs(exact))), -126) - 23)
    ok = np.isfinite(exact) & (np.abs(exact) < 3.4e38) & (exact != 0)
    assert ok.sum() > 100_000 // 4
    e = np.abs(y[ok] - exact[ok]) / unit[ok]
    assert e.max() <= mathlib.bound(name, np.float32), (name, x[ok][e.argmax()])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_width_gives_the_same_bits(name, dtype):
    if name in CASES:
        xs = arguments(name, dtype, 100)
    else:
        xs = [samples("cbrt", dtype, 200, s) for s in range(arity(name))]
    ys = [native(name, dtype, arity(name), width)(*xs) for width in (8, 1, 16)]
    for y in ys[1:]:
        np.testing.assert_array_equal(y, ys[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "exp2",
        "expm1",
        "silu",
        "gelu_tanh",
        "gelu_gate",
        "cosh",
        "erfc",
        "pow",
        "tanh",
        "erfcx",
        "log_ndtr",
        "erfinv",
        "ndtri",
        "i0",
        "i1",
    ],
)
def test_without_scalef_the_result_is_as_good(name, dtype):
    run = native(name, dtype, arity(name), 8, mathlib.Target(fma=True, scalef=False))
    e, where = worst(name, dtype, 100, run, seed=7)
    assert e <= mathlib.bound(name, dtype), f"{name} off by {e} ulp at {where}"


def special_values(dtype):
    info = np.finfo(dtype)
    plain = [0.0, 1.0, 0.5, 2.0, 3.0, 10.0, 100.0, 745.0, 1e4, 1e10, 1e30, 0.1, 1 / 3, 150.0]
    ends = [info.max, info.tiny, info.smallest_subnormal, info.tiny / 2, np.inf, 1 + info.eps]
    positive = np.array([*plain, *ends], dtype)
    return np.concatenate([positive, -positive, np.array([np.nan], dtype)])


def with_bits(x):
    """The bits of floats, all NaNs as one."""
    return np.where(np.isnan(x), x.dtype.type(np.nan), x).view(f"u{x.dtype.itemsize}")


def eager(name, *xs):
    order = ordered(name)
    with np.errstate(all="ignore"):
        return np.asarray(op_row(name).fn(*([int(order[1])] if order else []), *xs))


def outside_scipy(name, x, expected):
    """Where SciPy has another result than the nearest number: by log(1 / x) of the least numbers,
    where the routine for any order gives up or underflows, and half of the smallest number rounded
    up."""
    info = np.finfo(x.dtype)
    match name:
        case "lgamma":
            return np.isinf(expected) & (np.abs(x) < info.tiny) & (x != 0)
        case "iv2" | "ive2":
            return np.isnan(expected) & ~np.isnan(x)
        case _ if name.startswith("spherical"):
            lost = (name == "spherical_jn1") & (np.abs(x) <= info.tiny)
            return (np.isnan(expected) & ~np.isnan(x)) | lost
        case "i1" | "i1e":
            return np.abs(x) == info.smallest_subnormal
        case _:
            return np.zeros(x.shape, bool)


def pairs(values):
    both = np.array(list(itertools.product(values, values)), values.dtype)
    return [both[:, 0].copy(), both[:, 1].copy()]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(TABLE))
def test_special_values_are_those_of_the_eager_engine(name, dtype):
    """Where either result is a zero, an infinity or a NaN, both are the same one, sign included."""
    values = special_values(dtype)
    xs = pairs(values) if arity(name) == 2 else [values]
    y, expected = native(name, dtype, arity(name), 8)(*xs), eager(name, *xs)
    # The eager forms lose all digits where 1 + tanh cancels, or where a factor underflows before
    # the result does.
    limit = np.finfo(dtype).eps if name == "gelu_tanh" else 400 * np.finfo(dtype).tiny
    lost = (expected == 0) & (y != 0) & (np.abs(y) < limit)
    special_ = ~np.isfinite(y) | ~np.isfinite(expected) | (y == 0) | (expected == 0)
    special_ &= ~(lost & (name in {"sigmoid", "silu", "gelu_tanh", "gelu_erf"}))
    special_ &= ~outside_scipy(name, xs[0], expected)
    different = special_ & (with_bits(y) != with_bits(expected))
    assert not different.any(), [(*(x[different][:3] for x in xs), y[different][:3])]
    assert special_.sum() >= 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions_agree_with_numpy_in_every_bit(name, dtype):
    many = [samples("cbrt", dtype, 3000, s) for s in range(2)]
    for xs in (pairs(special_values(dtype)), many):
        y = native(name, dtype, arity(name), 8)(*xs[: arity(name)])
        np.testing.assert_array_equal(with_bits(y), with_bits(eager(name, *xs[: arity(name)])))


@pytest.mark.parametrize("name", APPROXIMATE)
def test_float32_of_any_size_is_near_the_eager_result(name):
    """Another implementation of everything: NumPy's or SciPy's, itself right to some ulp."""
    xs = arguments(name, np.float32, 4000, seed=11)
    y = native(name, np.float32, arity(name), 8)(*xs)
    expected = eager(name, *(x.astype(np.float64) for x in xs))
    if name == "exp_diff":
        expected = np.exp(np.subtract(*xs).astype(np.float64))
    with np.errstate(all="ignore"):
        expected = expected.astype(np.float32)
    expected = np.where(outside_scipy(name, xs[0], expected), y, expected)
    if name == "gelu_tanh":  # the eager form cancels far to the left
        expected = np.where(xs[0] < -1, y, expected)
    np.testing.assert_allclose(y, expected, rtol=5e-7, atol=1e-44)


USES = {
    "EXP_F32": ("exp", np.float32),
    "EXP_F64": ("exp", np.float64),
    "LOG_F32": ("log", np.float32),
    "LOG_F64": ("log", np.float64),
    "LOG_TWICE": ("pow", np.float64),
    "SIN_F32": ("sin", np.float32),
    "COS_F32": ("cos", np.float32),
    "SIN_F64": ("sin", np.float64),
    "COS_F64": ("cos", np.float64),
    "TAN_F64": ("tan", np.float64),
    "ATAN_F64": ("atan", np.float64),
    "ATAN_COARSE": ("atan", np.float32),
    "ASIN_F64": ("asin", np.float64),
    "ERF_F32": ("erf", np.float32),
    "ERF_F64": ("erf", np.float64),
    "ERFC_F32": ("erf", np.float32),
    "ERFC_F64": ("erfc", np.float64),
    "ERFINV_NEAR": ("erfinv", np.float64),
    "ERFC_INVERSE": ("ndtri", np.float64),
    "ERFCX_FAR": ("erfcx", np.float64),
    **{f"I{n}_NEAR": (f, np.float64) for n, f in enumerate(("i0", "i1", "iv2"))},
    **{f"I{n}_FAR": (f, np.float64) for n, f in enumerate(("i0e", "i1e", "ive2"))},
    **{f"LGAMMA_{part}": ("lgamma", np.float64) for part in ("NEAR", "FAR")},
    **{f"DIGAMMA_{part}": ("digamma", np.float64) for part in ("NEAR", "FAR")},
}


def module_of(table):
    """The module that has the coefficients of that name."""
    return coefficients if hasattr(coefficients, table) else special_coefficients


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("table", sorted(USES))
def test_a_wrong_coefficient_is_noticed(table, which, monkeypatch):
    """One part in a thousand of one coefficient breaks the bound: the test above can fail."""
    good = getattr(module_of(table), table)
    bad = (*good[:which], good[which] * 1.001, *good[which + 1 :])
    monkeypatch.setattr(module_of(table), table, bad)
    name, dtype = USES[table]
    run = native.__wrapped__(name, dtype, arity(name), 8)
    assert worst(name, dtype, 100, run)[0] > mathlib.bound(name, dtype)


def test_every_polynomial_is_perturbed_above():
    constants = vars(coefficients) | vars(special_coefficients)
    tables = {k for k, v in constants.items() if isinstance(v, tuple) and len(v) > 2}
    # CBRT is a first guess, which Newton's steps make good; pi in three parts is no polynomial.
    assert tables == set(USES) | {"CBRT", "PI", "PI_F32"}


def fitting(name):
    path = Path(__file__).parents[2] / "scripts" / f"{name}.py"
    if not path.exists():
        pytest.skip("the scripts are not part of an installed package")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path.parent)
        return importlib.import_module(name)


@pytest.mark.parametrize(
    ("script", "module"),
    [("fit_polynomials", coefficients), ("fit_special", special_coefficients)],
)
def test_the_constants_are_those_of_the_script(script, module):
    dps = mp.mp.dps
    try:
        fit = fitting(script)
        mp.mp.dps = 60
        for name, what in fit.NUMBERS.items():
            assert tuple(fit.parts(*what)) == getattr(module, name)
        assert getattr(fit, "inverse_turn", lambda: None)() == vars(module).get("INVERSE_TURN")
        small = [f for f in fit.FITS if f.degree <= 4 or f.name in ("ERFINV_NEAR", "DIGAMMA_FAR")]
        assert len(small) >= 3
        for f in small:
            assert tuple(fitting("fit_polynomials").solve(f)[0]) == getattr(module, f.name)
    finally:
        mp.mp.dps = dps


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(TABLE))
def test_nothing_is_called(name, dtype):
    """No library function, neither in the IR nor after code generation."""
    module = loop(name, dtype, arity(name), 8)
    declared = re.findall(r'declare .*@"([^"]+)"', str(module))
    assert all(d.startswith("llvm.") for d in declared), declared
    text = machine().emit_assembly(binding.parse_assembly(str(module)))
    called = set(re.findall(r"\b(?:callq?|movabsq)\s+\$?([A-Za-z_][\w.]*)", text))
    assert all(s.startswith("chainrule.remainder_of_turn") for s in called), called


def test_names_are_rows_of_the_op_table():
    assert mathlib.names(mathlib.Target(fma=True, scalef=False)) == set(TABLE)
    assert mathlib.names(mathlib.Target(fma=False, scalef=False)) == set()
    for name in TABLE:
        assert op_row(name).name == (name[:-1] if ordered(name) else name)


def test_an_unknown_name_is_refused():
    with pytest.raises(KeyError, match="airy"):
        loop("airy", np.float64, 1, 8)


def test_bounds_are_within_what_was_promised():
    for name in TABLE:
        assert mathlib.bound(name, np.float32) <= 2.0
        assert mathlib.bound(name, np.float64) <= 1.5


def test_the_documented_bounds_are_the_bounds():
    page = Path(__file__).parents[2] / "docs" / "math.md"
    rows = re.findall(
        r"^\| (\w+) \| (float\d+) \| .*? \| (\S+) \| (\S+) \|$", page.read_text(), re.M
    )
    assert {(name, dtype) for name, dtype, _, _ in rows} == {
        (name, np.dtype(d).name) for name in TABLE for d in DTYPES
    }
    for name, dtype, bound, seen in rows:
        assert float(bound) == mathlib.bound(name, dtype)
        assert float(seen) <= float(bound)
