"""Values of rows on many elements run as kernels: what they give is near what NumPy gives."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.watch import Watch, watching
from chainrule.errors import NonFiniteError
from chainrule.ops import eager_kernels
from chainrule.ops.eager_kernels import product_kernel, row_kernel
from chainrule.ops.elementwise import sigmoid
from chainrule.ops.families import pulls_by_kernel
from chainrule.ops.rows import elementwise, rows
from chainrule.ops.special import table as special
from chainrule.ops.values.floating import floating
from tests.ops.samples_elementwise import DOMAINS
from tests.sampling import sampled

assert special is not None  # reading the table is what fills `rows`

_COMPUTED = floating(abs).__code__
FLOATING = sorted(
    label
    for label, row in rows.items()
    if row.takes == 1 and getattr(row.fn, "__code__", None) is _COMPUTED
)
"""The rows of one argument whose values are `floating`."""
CLOSE = {np.float32: 2e-6, np.float64: 5e-15}


def sample(label: str, dtype: Any) -> Any:
    ((low, high),) = DOMAINS[label]
    return np.random.default_rng(0).uniform(low, high, (3, 20)).astype(dtype)


@pytest.fixture(autouse=True)
def forgotten():
    """Kernels of other tests count for nothing."""
    eager_kernels.forget_kernels()


def test_there_are_such_rows():
    assert {"sech_square", "mish", "gelu_erf_slope", "atan_slope", "erfinv_bend"} <= {*FLOATING}


@sampled("label")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", FLOATING)
def test_a_kernel_gives_what_numpy_gives(label: str, dtype: Any, monkeypatch: pytest.MonkeyPatch):
    x = sample(label, dtype)
    with np.errstate(all="ignore"):
        by_numpy = rows[label](x)
        monkeypatch.setattr(eager_kernels, "LEAST", 1)
        y = rows[label](x)
    assert row_kernel.cache_info().misses == 1
    assert y.dtype == dtype and y.shape == x.shape
    np.testing.assert_allclose(y, by_numpy, rtol=CLOSE[dtype], atol=CLOSE[dtype] / 10)


@pytest.mark.parametrize("label", FLOATING)
def test_a_kernel_calls_no_eager_form(label: str):
    """It would call the kernel again, for ever."""

    def value(x: Any) -> Any:
        return rows[label](x)

    f = cr.jit(value)
    f(sample(label, np.float64))
    assert "eager form" not in str(f.explain())


def test_only_the_size_decides(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eager_kernels, "LEAST", 60)
    x = sample("tanh", np.float32)
    t = cr.tensor(x, requires_grad=True)
    cr.tanh(t).backward(np.ones_like(x))
    assert product_kernel.cache_info().misses == 1
    (turned,) = cr.vjp(cr.tanh, np.ascontiguousarray(x.T).T)[1](np.ones_like(x))
    assert product_kernel.cache_info().misses == 1
    with cr.op_by_op():
        (again,) = cr.vjp(cr.tanh, x)[1](np.ones_like(x))
    assert t.grad is not None
    for got in (turned, again):
        np.testing.assert_array_equal(t.grad.numpy(), got)
    cr.vjp(cr.tanh, x[:2])[1](np.ones_like(x[:2]))
    assert product_kernel.cache_info().misses == 1


PULLED = sorted(label for label, row in rows.items() if row.takes == 1 and pulls_by_kernel(row))
"""The rows of one argument whose cotangents are one kernel."""


def test_activations_are_pulled_back_by_one_kernel():
    assert {"tanh", "sigmoid", "silu", "mish", "gelu_erf", "gelu_tanh", "softsign"} <= {*PULLED}
    assert not {"exp", "log", "sqrt", "relu", "cbrt"} & {*PULLED}


@sampled("label")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", PULLED)
def test_a_product_by_a_kernel_is_the_product_with_the_slope(
    label: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(eager_kernels, "LEAST", 1)
    x, row = sample(label, dtype), rows[label]
    noise: Any = np.random.default_rng(1).normal(size=x.shape)
    g = noise.astype(dtype)
    (bar,) = row.vjp((True,), g, None, (x,))
    assert product_kernel.cache_info().misses == 1
    with watching(Watch()):
        (parts,) = row.vjp((True,), g, None, (x,))
    assert bar.dtype == dtype and product_kernel.cache_info().misses == 1
    np.testing.assert_allclose(bar, parts, rtol=CLOSE[dtype], atol=CLOSE[dtype] / 10)


@sampled("label")
@pytest.mark.parametrize("label", PULLED)
def test_a_cotangent_of_0_gives_0_wherever_it_does_without_kernels(label: str):
    ((low, high),) = DOMAINS[label]
    far = [0, 1e-40, 1e-3, 1, 30, 1e3, 1e20, 3e38, np.inf]
    points = [x for x in (*far, *[-x for x in far]) if low <= x <= high or abs(x) > 1e30]
    x = np.array(points * 32, np.float32)
    bars: list[Any] = []
    for watched in (Watch(), None):
        t = cr.tensor(x, requires_grad=True)
        with watching(watched) if watched else nullcontext():
            rows[label](t).backward(np.zeros_like(x))
        assert t.grad is not None
        bars.append(t.grad.numpy() + 0.0)
    np.testing.assert_array_equal(*bars)


def test_who_watches_hears_of_a_nan_that_a_rule_makes():
    x = cr.tensor(np.full((8, 8), 200.0, np.float32), requires_grad=True)
    with pytest.raises(NonFiniteError, match="tanh"), cr.trap_nan():
        cr.tanh(x).backward(np.full((8, 8), np.inf, np.float32))  # infinity times a slope of 0


@pytest.mark.parametrize(
    "other",
    [
        np.ones((5, 20), np.float64),
        np.ones((20, 5), np.float32),
        np.ones((20, 5), np.float32).T,
        np.ones((5, 40), np.float32)[:, ::2],
        np.ones((5, 20), ">f4"),
        np.ones(100, np.float32),
        None,
        3.5,
    ],
    ids=str,
)
def test_a_call_refuses_arrays_that_it_is_not_for(other: Any):
    x = np.linspace(-1, 1, 100, dtype=np.float32).reshape(5, 20)
    calls = eager_kernels.Calls(lambda dtype: product_kernel("tanh", dtype), 2)
    bar = calls.run((x, x))
    run = calls.latest[x.shape]
    again = run((x, x))
    assert again is not None
    np.testing.assert_array_equal(again[0], bar)
    for arrays in ((other, x), (x, other), (x,), (x, x, x)):
        assert run(arrays) is None


def test_without_the_compiler_values_go_through_in_blocks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eager_kernels, "has_kernels", lambda: False)
    x = np.random.default_rng(0).normal(size=50_000)
    whole = rows["sech_square"](x)
    assert row_kernel.cache_info().misses == 0
    np.testing.assert_array_equal(whole[-100:], rows["sech_square"](x[-100:]))


def test_rows_of_a_user_s_have_no_kernels(monkeypatch: pytest.MonkeyPatch):
    """A kernel is known by its row's name, which says what it computes in this package only."""
    for name, row in dict(rows).items():
        monkeypatch.setitem(rows, name, row)

    def doubled(x: Any) -> Any:
        return 2 * x

    row = elementwise(floating(doubled), lambda x: 4 * sigmoid(0 * x))
    x = cr.tensor(np.linspace(-2, 2, 4096), requires_grad=True)
    y = row(x)
    y.sum().backward()
    rows.pop("doubled")
    assert np.array_equal(y.detach().numpy(), 2 * x.detach().numpy())
    assert np.array_equal(x.grad.numpy(), np.full(4096, 2.0))


def test_a_row_of_the_user_s_takes_no_name_of_ours():
    with pytest.raises(cr.ConfigError, match="has a row named sigmoid"):
        elementwise(lambda x: 2 * x, lambda x: 2, name="sigmoid")
    assert rows["sigmoid"] is sigmoid
