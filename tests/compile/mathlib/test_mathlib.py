"""The native mathematics: errors against mpmath, every width alike, no calls."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.special
from llvmlite import binding

import chainrule as cr
from chainrule.compile import mathlib
from chainrule.compile.llvm.host_target import host
from chainrule.compile.mathlib.table import TABLE
from chainrule.nn.functional import gelu, silu
from tests.compile.mathlib.lanes import loop, machine, native
from tests.compile.mathlib.mathcases import CASES
from tests.compile.mathlib.mathsamples import (
    APPROXIMATE,
    DTYPES,
    arguments,
    arity,
    op_row,
    ordered,
    samples,
    worst,
)
from tests.sampling import sampled


@sampled(one_in=4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", APPROXIMATE)
def test_error_is_within_its_bound(name, dtype):
    run = native(name, dtype, arity(name), 8)
    e, where = worst(name, dtype, 400, run)
    assert e <= mathlib.error_bound(name, dtype), f"{name} off by {e} ulp at {where}"


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
    assert e.max() <= mathlib.error_bound(name, np.float32), (name, x[ok][e.argmax()])


@sampled(one_in=4)
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
    run = native(name, dtype, arity(name), 8, replace(host(), scalef=False))
    e, where = worst(name, dtype, 100, run, seed=7)
    assert e <= mathlib.error_bound(name, dtype), f"{name} off by {e} ulp at {where}"


@sampled(one_in=4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", APPROXIMATE)
def test_without_fused_multiply_add_the_bound_holds(name, dtype):
    """On vectors of 128 bits, as WebAssembly has them."""
    target = replace(host(), fma=False, scalef=False, vector=16)
    run = native(name, dtype, arity(name), target.lanes(np.dtype(dtype).itemsize), target)
    e, where = worst(name, dtype, 100, run, seed=5)
    assert e <= mathlib.error_bound(name, dtype), f"{name} off by {e} ulp at {where}"


@sampled(one_in=4)
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


SLOPES = {
    "tanh": (cr.tanh, "sech_square"),
    "sigmoid": (cr.sigmoid, "logistic_density"),
    "silu": (silu, "silu_slope"),
    "gelu_tanh": (partial(gelu, approximate="tanh"), "gelu_tanh_slope"),
}
"""Functions, and the rows that their derivatives are."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", SLOPES)
def test_slopes_beside_their_functions_are_within_the_bound_of_slopes(function, dtype):
    f, slope = SLOPES[function]

    def both(x):
        y, pullback = cr.vjp(f, x)
        return y, *pullback(cr.ones(x.shape, dtype=dtype))

    step = cr.jit(both)
    for number, name in enumerate((function, slope)):
        run = lambda x, number=number: np.asarray(step(np.asarray(x, dtype))[number])
        e, where = worst(name, dtype, 400, run)
        most = 4.0 if number and dtype == np.float32 else mathlib.error_bound(name, dtype)
        assert e <= most, f"{name} beside {function} off by {e} ulp at {where}"


@pytest.mark.parametrize("function", SLOPES)
def test_a_function_and_its_slope_share_an_exponential(function):
    """One loop, with no more divisions than one of them has alone."""
    x = np.linspace(-3, 3, 1000, dtype=np.float32)

    def divisions(f):
        step = cr.jit(f)
        (name,) = re.findall(r"^(k0_\w+)\(", str(step.loops(x)), re.M)
        return len(re.findall(r"^\s*v?f?div\w*\s", step.source_of(name, x), re.M))

    total = lambda x: cr.sum(SLOPES[function][0](x))
    both, value, slope = map(divisions, (cr.value_and_grad(total), total, cr.grad(total)))
    assert both == value == slope > 0


def test_names_are_rows_of_the_op_table():
    for name in TABLE:
        assert op_row(name).name == (name[:-1] if ordered(name) else name)


def test_an_unknown_name_is_refused():
    with pytest.raises(KeyError, match="airy"):
        loop("airy", np.float64, 1, 8)


def test_bounds_are_within_what_was_promised():
    slopes = {"gelu_erf_slope", "gelu_gate_slope", "gelu_tanh_slope", "ndtr", "silu_slope"}
    for name in TABLE:
        assert mathlib.error_bound(name, np.float32) <= (4.0 if name in slopes else 2.0)
        assert mathlib.error_bound(name, np.float64) <= (4.0 if name in slopes else 1.5)


def test_the_documented_bounds_are_the_bounds():
    page = Path(__file__).parents[3] / "docs" / "math.md"
    rows = re.findall(
        r"^\| (\w+) \| (float\d+) \| .*? \| (\S+) \| (\S+) \|$",
        page.read_text(encoding="utf-8"),
        re.M,
    )
    assert {(name, dtype) for name, dtype, _, _ in rows} == {
        (name, np.dtype(d).name) for name in TABLE for d in DTYPES
    }
    for name, dtype, bound, seen in rows:
        assert float(bound) == mathlib.error_bound(name, dtype)
        assert float(seen) <= float(bound)
