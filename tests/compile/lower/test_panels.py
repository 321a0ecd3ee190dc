"""Large products in panels: odd sizes, all orientations, long sums, special values, what follows.

Everywhere the machine's registers are said to be wide enough for products in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.lower import matmul_choice, ordering
from chainrule.compile.lower.packing import pack_a, panels
from chainrule.compile.runtime import threads
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)


@pytest.fixture(autouse=True)
def in_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(matmul_choice, "WIDE", 1)
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", str(tmp_path))


def data(*shape: int, dtype: Any = np.float32, seed: int = 7) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def operands(m: int, n: int, k: int, turned: str, dtype: Any = np.float32) -> tuple[Any, Any]:
    a = data(*((k, m) if "a" in turned else (m, k)), dtype=dtype)
    b = data(*((n, k) if "b" in turned else (k, n)), dtype=dtype, seed=8)
    return a, b


def turn(x: Any, turned: bool) -> Any:
    return cr.permute_dims(x, (1, 0)) if turned else x


def product(turned: str) -> Any:
    return lambda a, b: turn(a, "a" in turned) @ turn(b, "b" in turned)


def exact(a: Any, b: Any, turned: str) -> Any:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a.T if "a" in turned else a) @ (b.T if "b" in turned else b)


def close(got: Any, want: Any, k: int) -> None:
    """Within rounding of sums of k products of numbers of about 1."""
    eps = np.finfo(np.asarray(got).dtype).eps
    np.testing.assert_allclose(got, want, rtol=0, atol=4 * k * eps)


SIZES = [(64, 128, 64), (65, 193, 129), (130, 450, 64), (67, 1217, 300), (100, 136, 1025),
         (71, 130, 2051), (64, 1090, 2050)]  # fmt: skip
"""m, n, k: what is left over of panels, tiles, steps and blocks of a sum is 0, 1, some."""


@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_product(sizes: tuple[int, int, int], turned: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(matmul_choice, "NEAR", 0)
    a, b = operands(*sizes, turned)
    f = cr.jit(product(turned))
    close(f(cr.asarray(a), cr.asarray(b)).numpy(), exact(a, b, turned), sizes[2])
    text = str(f.loops())
    assert "# a panel" in text and "BLAS" not in text and "pack" not in text
    assert ("# sums" in text) == (sizes[2] > panels.DEEP)


@pytest.mark.parametrize("k", [pack_a.DEEP, pack_a.DEEP + 1, 1300])
@pytest.mark.parametrize("m", [64, 96, 83, pack_a.MANY + 3])
def test_rows_are_copied_where_their_terms_lie_across(m: int, k: int, monkeypatch: Any):
    monkeypatch.setattr(matmul_choice, "NEAR", 0)
    for turned in ("", "a"):
        a, b = operands(m, 613, k, turned)
        f = cr.jit(lambda a, b, turned=turned: product(turned)(cr.relu(a), b * 2))
        want = exact(np.maximum(a, 0), b * 2, turned)
        close(f(cr.asarray(a), cr.asarray(b)).numpy(), want, 2 * k)
        whole = m % 16 == 0 or m > pack_a.MANY
        assert ("# strips" in str(f.loops())) == ("a" in turned and k > pack_a.DEEP and whole)


@pytest.mark.parametrize("turned", ["", "a", "b"])
def test_in_float64(turned: str):
    a, b = operands(70, 517, 1500, turned, np.float64)
    f = cr.jit(product(turned))
    close(f(cr.asarray(a), cr.asarray(b)).numpy(), exact(a, b, turned), 1500)
    assert "# a panel" in str(f.loops())


@pytest.mark.parametrize("k", [160, 1500])
def test_what_follows_is_done_with_each_element(k: int):
    a, b = operands(90, 330, k, "b")
    bias, other = data(330, seed=9), data(90, 330, seed=10)
    f = cr.jit(lambda a, b, c, d: cr.relu(product("b")(a, b) + c) * d)
    got = f(*map(cr.asarray, (a, b, bias, other))).numpy()
    close(got, np.maximum(exact(a, b, "b") + bias, 0) * other, 4 * k)
    assert str(f.loops()).count("matmul(") == 1, "one kernel"


@pytest.mark.parametrize("k", [200, 1500])
def test_infinities_and_nan_stay_where_they_are(k: int):
    a, b = operands(70, 200, k, "")
    a[3, k - 1], a[5, k // 2], b[k // 2, 199], b[9, 3] = np.nan, np.inf, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        want = a @ b
    got = cr.jit(product(""))(cr.asarray(a), cr.asarray(b)).numpy()
    for what in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(what(got), what(want))
    assert np.isnan(got).sum() >= 200 and np.isinf(got).sum() > 200


@pytest.mark.parametrize("k", [150, 1300])
def test_a_parameter_is_updated_by_what_is_multiplied(k: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(matmul_choice, "NEAR", 0)
    w0, g, x = data(128, 300), data(k, 128, seed=1), data(k, 300, seed=2)
    w = cr.tensor(w0, requires_grad=True)
    opt = cr.optim.SGD([w], lr=0.5)

    @cr.jit
    def step(g: Any, x: Any) -> Any:
        opt.zero_grad()
        (cr.permute_dims(g, (1, 0)) @ x * w).sum().backward()
        opt.step()
        return w

    for _ in range(2):
        got = step(cr.asarray(g), cr.asarray(x))
    close(got.detach().numpy(), w0 - exact(g, x, "a"), 2 * k)
    assert "# a panel" in str(step.loops())


def test_rows_may_be_many_or_few():
    b = data(500, 400)
    f = cr.jit(lambda a, b: a @ b, dynamic={"a": ("N", None)})
    for m in (1, 3, 64, 201):
        a = data(m, 500, seed=m)
        close(f(cr.asarray(a), cr.asarray(b)).numpy(), exact(a, b, ""), 500)
    assert "# a panel" in str(f.loops())


@pytest.mark.parametrize("k", [200, 1100])
@pytest.mark.parametrize("n", [384, 901])
def test_threads_change_no_bit(n: int, k: int):
    a, b = operands(200, n, k, "a")
    f = cr.jit(product("a"))
    found: list[bytes] = []
    before = threads.get_num_threads()
    for count in (1, 2, 3, before):
        threads.set_num_threads(count)
        found += [f(cr.asarray(a), cr.asarray(b)).numpy().tobytes() for _ in range(3)]
    assert len(set(found)) == 1
    assert " parallel:" in str(f.loops())


@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("m", [512, 1037])
def test_a_left_matrix_that_no_cache_holds(m: int, turned: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(panels, "FAR", 1 << 16)
    monkeypatch.setattr(matmul_choice, "NEAR", 0)
    a, b = operands(m, 200, 150, turned)
    f = cr.jit(product(turned))
    close(f(cr.asarray(a), cr.asarray(b)).numpy(), exact(a, b, turned), 150)
    assert "# a panel" in str(f.loops())


def test_a_large_result_is_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ordering, "LARGE", 1 << 16)
    a, b = operands(200, 300, 150, "")
    f = cr.jit(lambda a, b: a @ b + cr.softmax(cr.permute_dims(b, (1, 0)) @ b, axis=-1)[:200])
    got = f(cr.asarray(a), cr.asarray(b)).numpy()
    s = b.T.astype(np.float64) @ b
    s = np.exp(s - s.max(-1, keepdims=True))
    close(got, exact(a, b, "") + (s / s.sum(-1, keepdims=True))[:200], 300)
    kernels = str(f.loops()).split("\n\n")
    last = [k for k in kernels if "matmul float32[200, 300]" in k]
    assert last and all("add float32[200, 300]" in k for k in last)


def test_a_small_matrix_is_not_copied():
    a, b = operands(70, 200, 200, "")
    f = cr.jit(product(""))
    close(f(cr.asarray(a), cr.asarray(b)).numpy(), exact(a, b, ""), 200)
    assert "# a panel" not in str(f.loops())
