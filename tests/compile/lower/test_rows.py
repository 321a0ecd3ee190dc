"""Rows that are a few vectors stay in registers between the loops that go over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.llvm import short_rows
from tests.sampling import sampled, sampled_file

pytestmark = sampled_file(one_in=3)


LENGTHS = [1, 7, 17, 40, 64, 65]
OVER_A_ROW: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: cr.softmax(x),
    "scaled and causal": lambda x: cr.softmax(
        cr.where(cr.arange(x.shape[-1]) <= cr.arange(len(x))[:, None], x * 0.5, -np.inf)
    ),
    "log_softmax": lambda x: cr.log_softmax(x),
    "normalised": lambda x: cr.layer_norm(x),
    "by its largest, with what is largest": lambda x: (
        x / cr.max(cr.abs(x), axis=-1, keepdims=True), cr.max(x, axis=-1),
    ),
    "the loss": lambda x: cr.cross_entropy(x, cr.argmin(x, axis=-1)),
    "a row that is written twice": lambda x: (
        y := cr.exp(x - cr.max(x, axis=-1, keepdims=True)), y / cr.sum(y, axis=-1, keepdims=True),
    ),
    "whether any is": lambda x: x * cr.any(x > 1, axis=-1, keepdims=True),
}  # fmt: skip


def numbers(n: int, dtype: Any) -> Any:
    """Five rows, one of them of large numbers."""
    x = np.random.default_rng(n).normal(size=(5, n)).astype(dtype)
    x[1] *= 30
    return x


def with_gradient(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The value of `f`, and what a cotangent of its first result becomes."""

    def both(x: Any) -> Any:
        y, pull = cr.vjp(f, x)
        results: list[Any] = cr.tree.flatten(y)[0]
        g, others = cr.cos(3 * results[0]), [0 * r for r in results[1:]]
        return y, pull((g, *others) if others else g)

    return both


def assert_alike(got: Any, want: Any, dtype: Any) -> None:
    """Equal to rounding, leaf by leaf."""
    rtol = 2e-5 if dtype == np.float32 else 1e-12
    for g, w in zip(cr.tree.flatten(got)[0], cr.tree.flatten(want)[0], strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=rtol, atol=rtol * 0.1)


@sampled(one_in=3)
@pytest.mark.parametrize(("n", "dtype"), [*[(n, "f4") for n in LENGTHS], (7, "f8"), (27, "f8")])
@pytest.mark.parametrize("name", OVER_A_ROW)
def test_as_op_by_op(name: str, n: int, dtype: str):
    f, x = with_gradient(OVER_A_ROW[name]), cr.tensor(numbers(n, dtype))
    assert_alike(cr.jit(f)(x), f(x), x.dtype)


@pytest.mark.parametrize("name", OVER_A_ROW)
def test_lengths_that_are_known_at_the_call(name: str):
    f = with_gradient(OVER_A_ROW[name])
    call = cr.jit(f, dynamic={"x": (None, "N")})
    for n in [2, 8, 9, 16, 33, *LENGTHS]:
        x = cr.tensor(numbers(n, np.float32))
        assert_alike(call(x), f(x), x.dtype)


@pytest.mark.parametrize("n", [7, 27, 40])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_special_values(n: int, odd: float):
    x = numbers(n, np.float32)
    x[0, -1], x[3, 0] = odd, odd
    with np.errstate(invalid="ignore"):
        assert_alike(cr.jit(cr.softmax)(cr.tensor(x)), cr.softmax(cr.tensor(x)), np.float32)


def test_short_rows_are_in_registers(monkeypatch: pytest.MonkeyPatch):
    seen: list[short_rows.Row] = []
    emit = short_rows.Row.emit

    def watched(row: short_rows.Row, otherwise: Callable[[], None]) -> None:
        seen.append(row)
        emit(row, otherwise)

    monkeypatch.setenv("CHAINRULE_CACHE_DIR", "")
    monkeypatch.setattr(short_rows.Row, "emit", watched)
    cr.jit(cr.softmax)(cr.tensor(numbers(27, np.float32)))
    assert seen
    seen.clear()
    cr.jit(cr.softmax)(cr.tensor(numbers(200, np.float32)))
    assert not seen
