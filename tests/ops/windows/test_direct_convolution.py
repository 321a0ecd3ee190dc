"""Convolutions by kernels that read windows in place: the same as by columns, and as PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.loops.expressions import Affine, Buffer, Exprs, Local, Var
from chainrule.compile.loops.statements import For, Let, Store
from chainrule.compile.loops.transposed_copy import is_transposed_copy
from chainrule.ops.windows import convolution_forms as forms
from chainrule.ops.windows import convolution_layouts as layouts
from chainrule.ops.windows import row_copies, shifted_products
from chainrule.ops.windows.convolution_choice import reads_in_place
from chainrule.ops.windows.row_copies import PaddedRows, WindowRows
from chainrule.ops.windows.shifted_products import ShiftedProduct, ShiftedSum, tile_width
from chainrule.ops.windows.windows import Windows
from tests.ops.against_torch import forward, second_order, value_and_vjp
from tests.ops.windows.test_convolution import PAIRS
from tests.sampling import sampled

Array = Any
CLOSE = {"float32": 2e-5, "float64": 1e-12}


@dataclass(frozen=True)
class Case:
    """Windows over x (n, channels, *size), and a weight of `outs` channels."""

    windows: Windows
    n: int
    channels: int
    outs: int
    groups: int
    dtype: str

    def __str__(self) -> str:
        w = self.windows
        parts = [w.size, w.kernel, w.stride, w.padding, w.dilation]
        words = "-".join(["x".join(str(n).replace(", ", ":") for n in p) for p in parts])
        return f"{self.n}.{self.channels}.{self.outs}.{self.groups}-{words}-{self.dtype}"

    def operands(self) -> dict[str, Array]:
        """x, w and g."""
        rng, w = np.random.default_rng(0), self.windows
        shapes = {
            "x": (self.n, self.channels, *w.size),
            "w": (self.outs, self.channels // self.groups, *w.kernel),
            "g": (self.n, self.outs, *w.out),
        }
        return {role: rng.normal(size=s).astype(self.dtype) for role, s in shapes.items()}


def _drawn() -> Iterator[Case]:
    """Cases of one to three axes, whose sizes fill tiles or do not."""
    rng = np.random.default_rng(7)

    def some(low: int, high: int, count: int) -> tuple[int, ...]:
        return tuple([int(n) for n in rng.integers(low, high, count)])

    while True:
        ndim = int(rng.integers(1, 4))
        pads = [some(0, 4, 2) for _ in range(ndim)]
        sizes, kernel = some(1, 11, ndim), some(1, 5, ndim)
        stride, dilation = some(1, 4, ndim), some(1, 3, ndim)
        windows = Windows(sizes, kernel, stride, tuple([(a, b) for a, b in pads]), dilation)
        groups = int(rng.choice([1, 1, 2, 3]))
        channels, outs = [groups * int(n) for n in (rng.integers(1, 6), rng.integers(1, 40))]
        if min(windows.out) > 0:
            dtype = str(rng.choice(["float32", "float64"]))
            yield Case(
                windows, int(rng.integers(1, 5)), channels, outs // groups * groups, groups, dtype
            )


def image(n: int, channels: int, outs: int, size: int, kernel: int, **options: Any) -> Case:
    """A case of two axes that are alike."""
    pads = options.get("padding", 0)
    windows = Windows(
        (size, size),
        (kernel, kernel),
        (options.get("stride", 1),) * 2,
        ((pads, pads),) * 2,
        (options.get("dilation", 1),) * 2,
    )
    return Case(windows, n, channels, outs, options.get("groups", 1), "float32")


CASES = [*islice(_drawn(), 80), image(3, 16, 32, 9, 3, padding=1), image(2, 8, 16, 8, 4, stride=2)]
FORMS = {"g": forms.Convolve, "x": forms.ConvolveInput, "w": forms.ConvolveWeight}


def both_ways(case: Case, result: str) -> tuple[Array, Array]:
    """In place, and by columns; memory for results holds anything."""
    operands = case.operands()
    form = FORMS[result](case.windows, case.groups)
    xs = [operands[role] for role in form.ins]
    room = [np.full(operands[result].shape, np.nan, case.dtype) for _ in range(2)]
    return form.in_place(room[0], xs), form.by_columns(room[1], xs)


def same(case: Case, ours: Array, plain: Array) -> None:
    near = CLOSE[case.dtype] * max(1, math.sqrt(ours.size))
    assert ours.dtype == plain.dtype == case.dtype
    np.testing.assert_allclose(ours, plain, rtol=near, atol=near * max(1, np.abs(plain).max()))


@sampled("result", one_in=2)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("result", FORMS)
def test_in_place_is_by_columns(case: Case, result: str):
    same(case, *both_ways(case, result))


@pytest.mark.parametrize("bytes_", [1, 3000, 5000])
@pytest.mark.parametrize("result", FORMS)
def test_chunks_of_examples_and_of_blocks(
    result: str, bytes_: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(layouts, "NEAR", bytes_)
    case = image(5, 3, 70, 7, 3, padding=1)
    same(case, *both_ways(case, result))


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All convolutions of floats in place; the results that were asked for, by role."""
    asked: list[str] = []

    def always(result: str, operands: Any, *_: Any) -> bool:
        asked.append(result)
        return {a.dtype.char for a in operands.values()} in ({"f"}, {"d"})

    monkeypatch.setattr(forms, "reads_in_place", always)
    return asked


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")  # PyTorch's
@pytest.mark.parametrize("pair", [p for p in PAIRS if "conv" in p.name], ids=str)
def test_derivatives_of_both_orders_agree_with_torch(pair: Any, in_place: list[str]):
    value_and_vjp(pair)
    forward(pair)
    second_order(pair)
    assert {*in_place} == {*FORMS}


def test_what_no_window_sees_does_no_harm(in_place: list[str]):
    """An infinite corner reaches what sees it, and nothing else."""
    x, w = np.ones((1, 2, 6, 6), np.float32), np.ones((8, 2, 3, 3), np.float32)
    x[0, 0, 0, 0] = np.inf
    y, pull = cr.vjp(partial(cr.nn.functional.conv2d, padding=1), x, w)
    assert {*map(tuple, np.argwhere(~np.isfinite(y.numpy()[0, 0])))} == {
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    }
    _, w_bar = pull(np.ones(y.shape, np.float32))
    unseen = np.isfinite(w_bar.numpy()[0, 0])  # where the corner would be beyond the padding
    assert unseen.tolist() == [[False, False, True], [False, False, True], [True] * 3]
    assert np.isfinite(w_bar.numpy()[:, 1]).all()
    g = np.ones(y.shape, np.float32)
    g[0, 0, 0, 0] = np.inf
    x_bar, _ = pull(g)
    assert (
        np.isfinite(x_bar.numpy()[0, :, 2:]).all() and np.isfinite(x_bar.numpy()[0, :, :, 2:]).all()
    )


# --- which way -----------------------------------------------------------------------------------

LARGE = image(32, 16, 32, 28, 3, padding=1)
CHOICES: dict[str, tuple[Case, str]] = {
    "many channels": (LARGE, "gxw"),
    "one channel": (image(64, 1, 32, 28, 5), "gw"),
    "stride 2": (image(16, 32, 64, 32, 3, stride=2, padding=1), "gxw"),
    "small, as one types it": (image(2, 2, 3, 8, 3), ""),
    "windows apart from each other": (image(32, 3, 8, 32, 4, stride=4), ""),
    "one window alone": (image(32, 16, 120, 5, 5), "w"),
    "a group for each channel": (image(16, 64, 64, 14, 3, padding=1, groups=64), "gx"),
}
"""In words: a case, and the results that are computed in place."""


@pytest.mark.parametrize("words", CHOICES)
def test_the_choice(words: str):
    case, chosen = CHOICES[words]
    args = case.operands(), case.windows, case.groups
    assert "".join([r for r in "gxw" if reads_in_place(r, *args)]) == chosen


CHANGES: dict[str, Callable[[Array], Array]] = {
    "two dtypes": lambda x: x.astype(np.float64),
    "complex": lambda x: x.astype(np.complex64),
    "whole numbers": lambda x: x.astype(np.int32),
    "no example": lambda x: x[:0],
}


@pytest.mark.parametrize("words", CHANGES)
def test_what_has_no_kernel(words: str):
    operands = LARGE.operands()
    operands["x"] = CHANGES[words](operands["x"])
    assert not reads_in_place("g", operands, LARGE.windows, 1)


def test_without_the_compiler(monkeypatch: pytest.MonkeyPatch):
    from chainrule.ops.windows import convolution_choice

    assert reads_in_place("g", LARGE.operands(), LARGE.windows, 1)
    monkeypatch.setattr(convolution_choice, "has_kernels", lambda: False)
    assert not reads_in_place("g", LARGE.operands(), LARGE.windows, 1)


def test_a_watched_convolution_has_the_same_bits():
    operands = LARGE.operands()

    def answers() -> list[bytes]:
        x, w = [cr.tensor(operands[r], requires_grad=True) for r in "xw"]
        y = cr.nn.functional.conv2d(x, w, padding=1)
        y.backward(operands["g"])
        assert x.grad is not None and w.grad is not None
        return [a.numpy().tobytes() for a in (y.detach(), x.grad, w.grad)]

    plain = answers()
    with cr.record():
        assert answers() == plain
    with cr.op_by_op():
        assert answers() == plain


# --- the products --------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_of_each_number_of_rows_gives_what_numpy_gives(rows: int, dtype: str):
    rng, kind = np.random.default_rng(1), np.dtype(dtype)
    assert shifted_products.tile_rows(rows) == rows
    width = tile_width(kind, rows)
    p = rng.normal(size=300 + width).astype(kind)
    start = rng.integers(0, 100, 3)
    w = rng.normal(size=(2, 3, 13, rows)).astype(kind)
    offset = rng.integers(0, 200, (2, 13))
    op = ShiftedProduct(width)
    y = np.empty(op.spec(p, w, offset, start).shape, kind)
    shifted_products.product_call(kind, p.shape, w.shape, 3).into((p, w, offset, start), [y])
    np.testing.assert_allclose(y, op.eval(p, w, offset, start), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("length", [5, 9, 16, 45])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_with_padding_are_what_numpy_gives(dtype: str, length: int, step: int):
    """Also rows of which nothing is there, and such as begin before the array."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3, 2, 200)).astype(dtype)
    high = rng.integers(0, length + 1, (2, 7)).astype(np.int32)
    low = rng.integers(0, length, (2, 7)).astype(np.int32)
    first = rng.integers(0, 50, (2, 7)) - step * low
    args = (x, first, low, high, np.zeros(length, np.int64))
    plain = PaddedRows(step).eval(*args)
    y = np.full_like(plain, np.nan)
    row_copies.padding_call(x.dtype, step, x.shape, first.shape, length).into(args, [y])
    np.testing.assert_array_equal(y, plain)


@pytest.mark.parametrize("length", [1, 7, 16, 35])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_windows_are_what_numpy_gives(dtype: str, length: int):
    rng = np.random.default_rng(4)
    t = rng.normal(size=(2, 8, 100)).astype(dtype)
    start, room = rng.integers(0, 60, (3, 5)), np.zeros((6, length), np.int64)
    plain = WindowRows().eval(t, start, room)
    y = np.full(plain.shape, np.nan, dtype)
    call = row_copies.window_call(t.dtype, t.shape, start.shape, room.shape)
    call.into((t, start, room), [y])
    np.testing.assert_array_equal(y, plain)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("groups", "blocks", "terms", "starts"), [(1, 1, 1, 1), (2, 3, 13, 4)])
def test_a_kernel_gives_what_numpy_gives(
    groups: int, blocks: int, terms: int, starts: int, dtype: str
):
    rng, kind = np.random.default_rng(1), np.dtype(dtype)
    width = tile_width(kind)
    p = rng.normal(size=300 + width).astype(kind)
    start = rng.integers(0, 100, starts)
    w = rng.normal(size=(groups, blocks, terms, 8)).astype(kind)
    offset = rng.integers(0, 200, (groups, terms))
    op = ShiftedProduct(width)
    y = np.empty(op.spec(p, w, offset, start).shape, kind)
    shifted_products.product_call(kind, p.shape, w.shape, starts).into((p, w, offset, start), [y])
    np.testing.assert_allclose(y, op.eval(p, w, offset, start), rtol=1e-4, atol=1e-4)
    for narrow in {8, width}:
        v = rng.normal(size=(groups, blocks, starts, 5, narrow)).astype(kind)
        offset = rng.integers(0, 190, (groups, terms, 8))
        total = ShiftedSum(narrow)
        y = np.empty(total.spec(p, v, offset, start).shape, kind)
        call = shifted_products.sum_call(kind, p.shape, v.shape, offset.shape)
        call.into((p, v, offset, start), [y])
        np.testing.assert_allclose(y, total.eval(p, v, offset, start), rtol=1e-4, atol=1e-4)


def test_a_copy_that_changes_rows_with_columns_is_made_of_squares():
    """Whether its number is stored at once or is in a register first."""
    i, j, r = Var("i", 24), Var("j", 16), Local("r", np.dtype(np.float32))
    x, y = [Buffer(n, r.dtype, (24, 16), "input") for n in "xy"]
    e = Exprs()
    value = e.load(x, Affine.of(i) + Affine.of(j) * 24)
    to = Affine.of(i) * 16 + j
    bodies = [(Store(y, to, value),), (Let(r, value), Store(y, to, e.local(r)))]
    other = (Let(r, value), Store(y, to, e.fn("mul", e.local(r), e.local(r))))
    for body, is_copy in ((bodies[0], True), (bodies[1], True), (other, False)):
        assert is_transposed_copy(For(i, (For(j, body, "lanes"),))) == is_copy


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("places", [1, 7, 8, 9, 16, 23, 40, 100])
def test_rows_and_columns_change_places(width: int, places: int, dtype: str):
    x = np.random.default_rng(2).normal(size=(3, 2, width, places)).astype(dtype)
    y = np.empty((2, 3, places, width), dtype)
    shifted_products.turning_call(x.dtype, x.shape).into((x,), [y])
    np.testing.assert_array_equal(y, x.transpose(1, 0, 3, 2))
