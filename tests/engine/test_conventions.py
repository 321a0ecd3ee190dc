"""docs/conventions.md, row by row; and what does not fit into a row."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import chainrule as cr

PAGE = Path(__file__).parents[2] / "docs" / "conventions.md"
NAMES = {"cr": cr, "inf": float("inf"), "nan": float("nan")}


@dataclass(frozen=True)
class Row:
    """A row of the page: five cells, of which four are code."""

    what: str
    expression: str
    point: str
    value: str
    gradient: str


def rows_of(page: str) -> list[Row]:
    """The rows of all tables; a row that does not have five cells is an error."""
    out: list[Row] = []
    for line in page.splitlines():
        if not line.startswith("|") or line.startswith(("| what |", "|---")):
            continue
        cells = [c.strip() for c in line.strip("|").split("|")]
        assert len(cells) == 5, f"not five cells: {line}"
        assert all(c[0] == c[-1] == "`" for c in cells[1:]), f"cells are code: {line}"
        out.append(Row(cells[0], *[c.strip("`") for c in cells[1:]]))
    return out


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))


def expect(row: Row) -> None:
    """Compute value and gradient as the row says, in float64."""
    point = eval(f"dict({row.point})", dict(NAMES))
    xs = {k: cr.tensor(np.asarray(v, np.float64), requires_grad=True) for k, v in point.items()}
    y = eval(row.expression, {**NAMES, **xs})
    wanted: Any = eval(row.value, dict(NAMES))
    assert np.allclose(y.detach().numpy(), wanted, rtol=1e-14, atol=0, equal_nan=True), y
    assert y.shape == np.shape(wanted)
    y.backward(np.ones(y.shape))
    for x, text in zip(xs.values(), row.gradient.split(";"), strict=True):
        want = np.asarray(eval(text.strip(), dict(NAMES)), np.float64)
        got = np.zeros(x.shape) if x.grad is None else x.grad.numpy()
        assert got.shape == want.shape
        assert np.allclose(got, want, rtol=1e-13, atol=1e-300, equal_nan=True), f"{got}, {want}"


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.what)
def test_row(row: Row):
    expect(row)


def test_the_page_was_read():
    assert len(ROWS) == PAGE.read_text(encoding="utf-8").count("\n| ") - 10  # ten tables' heads
    assert len({r.what for r in ROWS}) == len(ROWS)


def test_a_wrong_row_is_noticed():
    for value, gradient in (("0", "1"), ("1", "0"), ("[0]", "0")):
        with pytest.raises(AssertionError):
            expect(Row("relu at 0", "cr.relu(x)", "x=0", value, gradient))
    expect(Row("relu at 0", "cr.relu(x)", "x=0", "0", "0"))


# --- What is not one value and one gradient ------------------------------------------------------


@pytest.mark.parametrize("f", [cr.sqrt, cr.log, cr.cbrt, lambda x: 1 / x, lambda x: x**0.5])
def test_strong_zero_holds_for_second_derivatives(f: Any):
    twice = cr.grad(cr.grad(lambda x: cr.where(x > 0, f(x), 0.0)))
    assert twice(np.float64(0.0)).item() == 0
    want = cr.grad(cr.grad(f))(np.float64(0.7))
    assert twice(np.float64(0.7)).item() == want.item() != 0


def test_strong_zero_in_forward_over_reverse():
    """The tangent of a branch that is not taken may be NaN; its product with 0 is 0."""
    f = lambda x: cr.where(x > 0, cr.sqrt(x), 0.0).sum()
    x, v = cr.tensor([4.0, -1.0], cr.float64), cr.tensor([1.0, 1.0], cr.float64)
    (forward,) = cr.hvp(f, (x,), (v,))
    reverse = cr.grad(lambda x: (cr.grad(f)(x) * v).sum())(x)
    np.testing.assert_array_equal(forward.numpy(), [-1 / 32, 0.0])
    np.testing.assert_array_equal(reverse.numpy(), [-1 / 32, 0.0])


def test_strong_zero_in_forward_mode():
    y, dot = cr.jvp(
        lambda x: cr.where(x > 0, cr.sqrt(x), 0.0), (np.float64(0.0),), (np.float64(0),)
    )
    assert (y.item(), dot.item()) == (0, 0)


def test_powers_of_zero_have_every_derivative():
    f: Any = lambda x: x**3.0
    for want in (0, 0, 6, 0):
        f = cr.grad(f)
        assert f(np.float64(0.0)).item() == want


def test_second_derivatives_of_a_product_with_zeros():
    got = cr.hessian(cr.prod)(np.array([0.0, 0.0, 3.0])).numpy()
    assert got.tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]


def test_lengths_and_angles_neither_overflow_nor_underflow():
    for scale in (1e200, 1e-200):
        x = np.array([3.0, 4.0]) * scale
        assert cr.norm(x) == pytest.approx(5 * scale, rel=1e-15)
        assert np.allclose(cr.grad(cr.norm)(x).numpy(), [0.6, 0.8])
        a, b = cr.grad(cr.atan2, (0, 1))(x[0], x[1])
        assert np.allclose([a.item() * scale, b.item() * scale], [0.16, -0.12])


def test_cross_entropy_has_a_gradient_for_a_target_of_zero():
    logits, target = np.array([0.3, -0.4]), np.array([0.0, 1.0])
    got = cr.grad(lambda t: cr.cross_entropy(cr.tensor(logits), t))(target)
    assert np.allclose(got.numpy(), -(logits - np.log(np.exp(logits).sum())))
    hidden = cr.grad(lambda t: cr.cross_entropy(cr.tensor([-np.inf, 0.0]), t))(target)
    assert hidden.numpy().tolist() == [0, 0], "probability 0 where the target is 0 costs nothing"


def test_float16_sums_are_accumulated_in_float32():
    many = cr.ones((5000, 2), np.float16)
    assert cr.sum(many, axis=0).tolist() == [5000, 5000]  # in float16, 2048 + 1 = 2048
    assert cr.mean(cr.full((70000,), 1.5, np.float16)).item() == 1.5  # whose sum is 105000


def test_numpy_warns_of_nothing_that_ieee_defines():
    """log(0), 1/0, 0/0, overflow, casts: values, not warnings, forward, backward, accumulated."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = cr.tensor(np.array([0.0, 1e300, -1.0]), requires_grad=True)
        total = cr.log(x) + 1 / x + x / 0 + cr.exp(x) + cr.sqrt(x) + x * x + cr.asin(x)
        for _ in range(2):
            total.sum().backward(retain_graph=True)
            (-total.sum()).backward(retain_graph=True)
        assert x.grad is not None and not np.isfinite(x.grad.numpy()).all()
        assert x.astype(np.float16).detach().numpy()[1] == np.inf
        cr.grad(cr.grad(lambda v: cr.log(v) / v))(0.0)


@pytest.mark.parametrize("kind", ["error", "ignore"])
def test_numpys_error_state_is_left_alone(kind: Any):
    with np.errstate(all="raise" if kind == "error" else "ignore"):
        before = np.geterr()
        cr.grad(cr.log)(0.0)
        assert np.geterr() == before


# --- Complex numbers: gradients in PyTorch's convention -------------------------------------------

Z = np.array([0.7 - 0.4j, -1.2 + 0.9j, 0.3 + 1.4j])
COMPLEX: dict[str, Any] = {
    "product": lambda m, z: z * z * (2 - 1j),
    "quotient": lambda m, z: (1 + 2j) / z,
    "exp": lambda m, z: m.exp(z),
    "sin": lambda m, z: m.sin(z) * z,
    "abs": lambda m, z: abs(z),
    "sum": lambda m, z: z.sum() * z,
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients_are_pytorchs(name: str):
    ours, theirs = cr.tensor(Z, requires_grad=True), torch.tensor(Z, requires_grad=True)
    y, want = COMPLEX[name](cr, ours), COMPLEX[name](torch, theirs)
    g = (1.3 - 0.6j) if want.is_complex() else 1.3
    y.backward(np.full(y.shape, g))
    want.backward(torch.full(want.shape, g, dtype=want.dtype))
    assert ours.grad is not None and theirs.grad is not None
    assert np.allclose(y.detach().numpy(), want.detach().numpy())
    assert np.allclose(ours.grad.numpy(), theirs.grad.numpy())
