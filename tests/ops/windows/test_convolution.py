"""Convolution and its transpose: PyTorch's opinion over strides, paddings, dilations, groups."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.windows import convolution as conv
from chainrule.ops.windows import products, windows
from tests.ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp

F = torch.nn.functional

PLANE: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": (1, 3), "padding": (2, 0), "dilation": (2, 1)},
    {"padding": "same", "dilation": (1, 2)},
    {"padding": "valid", "groups": 2},
    {"stride": (3, 2), "groups": 4},
]


def _two(options: dict[str, Any]) -> Pair:
    groups = options.get("groups", 1)
    args = (generic(2, 4, 7, 6), generic(8, 4 // groups, 3, 2, salt=1), generic(8, salt=2))
    return Pair(
        f"conv2d {options}",
        lambda x, w, b: conv.conv2d(x, w, b, **options),
        lambda x, w, b: F.conv2d(x, w, b, **options),
        args,
    )


def _one(options: dict[str, Any]) -> Pair:
    args = (generic(2, 4, 9), generic(6, 4 // options.get("groups", 1), 4, salt=1))
    return Pair(
        f"conv1d {options}",
        lambda x, w: conv.conv1d(x, w, **options),
        lambda x, w: F.conv1d(x, w, **options),
        args,
    )


def _back(n: int, options: dict[str, Any]) -> Pair:
    size, kernel = [((5, 4), (3, 2)), ((6,), (3,))][n == 1]
    groups = options.get("groups", 1)
    args = (generic(2, 4, *size), generic(4, 6 // groups, *kernel, salt=1), generic(6, salt=2))
    ours, theirs = [getattr(m, f"conv_transpose{n}d") for m in (conv, F)]
    return Pair(
        f"conv_transpose{n}d {options}",
        lambda x, w, b: ours(x, w, b, **options),
        lambda x, w, b: theirs(x, w, b, **options),
        args,
    )


def _unfolded(options: dict[str, Any]) -> Pair:
    return Pair(
        f"unfold {options}",
        lambda x: conv.unfold(x, (3, 2), **options),
        lambda x: F.unfold(x, (3, 2), **options),
        (generic(2, 3, 7, 6),),
    )


PAIRS = [
    *map(_two, PLANE),
    *map(_one, [{}, {"stride": 2, "padding": 3}, {"padding": "same"}, {"groups": 2}]),
    *[
        _back(n, o)
        for n in (1, 2)
        for o in (
            {},
            {"stride": 2, "padding": 1, "output_padding": 1},
            {"dilation": 2, "groups": 2},
            {"stride": 2, "dilation": 5, "padding": 2, "output_padding": 3},
            {"dilation": 3, "output_padding": 2},
        )
    ],
    *map(_unfolded, [{}, {"stride": 2, "padding": 1, "dilation": (1, 2)}]),
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")  # PyTorch's
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_agrees_with_torch(pair: Pair) -> None:
    value_and_vjp(pair)
    forward(pair)
    second_order(pair)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("options", PLANE, ids=str)
def test_float32_agrees_with_torch(options: dict[str, Any]) -> None:
    pair = _two(options)
    xs = [torch.tensor(x.astype(np.float32), requires_grad=True) for x in pair.args]
    y = pair.theirs(*xs)
    g = generic(*y.shape, salt=5).astype(np.float32)
    want = torch.autograd.grad(y, xs, torch.tensor(g))
    got, pull = cr.vjp(pair.ours, *[cr.tensor(x.astype(np.float32)) for x in pair.args])
    np.testing.assert_allclose(got.numpy(), y.detach().numpy(), rtol=2e-5, atol=2e-5)
    for bar, other in zip(pull(cr.tensor(g)), want, strict=True):
        assert bar.dtype == np.float32
        np.testing.assert_allclose(bar.numpy(), other.numpy(), rtol=5e-5, atol=5e-5)


def test_third_derivatives_of_the_trilinear_form_agree_with_differences() -> None:
    x, w, g = generic(1, 2, 4, 4), generic(2, 2, 3, 3, salt=1), generic(1, 2, 2, 2, salt=2)
    t = generic(1, 2, 4, 4, salt=3)
    bar = cr.grad(lambda x, w: ((conv.conv2d(x, w) * g) ** 3).sum(), argnums=1)
    _, got = cr.jvp(lambda x: bar(x, cr.tensor(w)), [cr.tensor(x)], [cr.tensor(t)])
    h = 1e-6
    up, down = [bar(cr.tensor(x + s * h * t), cr.tensor(w)).numpy() for s in (1, -1)]
    np.testing.assert_allclose(got.numpy(), (up - down) / (2 * h), rtol=1e-6, atol=1e-6)


def test_vmap_gives_gradients_by_example() -> None:
    x, w = generic(3, 1, 2, 5, 5), cr.tensor(generic(4, 2, 3, 3, salt=1))
    loss = lambda w, x: (conv.conv2d(x, w, padding=1) ** 2).sum()
    each = cr.vmap(cr.grad(loss), in_axes=(None, 0))(w, cr.tensor(x))
    for row, bar in zip(x, each.numpy(), strict=True):
        np.testing.assert_allclose(bar, cr.grad(loss)(w, cr.tensor(row)).numpy(), rtol=1e-12)


def test_messages_name_the_shapes() -> None:
    x, w = generic(2, 4, 7, 6), generic(8, 3, 3, 2)
    for call, said in (
        (
            lambda: conv.conv2d(x, w),
            "conv2d: x (2, 4, 7, 6) has 4 channels (axis 1), but weight (8, 3, 3, 2) takes 3: a "
            "weight (8, 4, 3, 2) fits, or x with 3 channels fits",
        ),
        (
            lambda: conv.conv2d(x, generic(8, 6, 3, 2)),
            "takes 6: if its channels are the last axis, write cr.moveaxis(x, -1, 1)",
        ),
        (lambda: conv.conv2d(x, w, groups=4), "takes 12 in 4 groups: a weight (8, 1, 3, 2) fits"),
        (
            lambda: conv.conv2d(x, w, groups=3),
            "groups divide the 8 channels of weight (8, 3, 3, 2) (axis 0), and 3 does not",
        ),
        (
            lambda: conv.conv_transpose2d(x, w),
            "conv_transpose2d: x (2, 4, 7, 6) has 4 channels (axis 1), but weight (8, 3, 3, 2) "
            "takes 8: a weight (4, 3, 3, 2) fits",
        ),
    ):
        with pytest.raises(ShapeError, match=re.escape(said)):
            call()
    with pytest.raises(ShapeError, match=r"have 3 axes each, not \(2, 4, 7, 6\)"):
        conv.conv1d(x, w)
    with pytest.raises(ShapeError, match=r"kernel \(9, 2\).* is larger than the array \(7, 6\)"):
        conv.conv2d(x, generic(8, 4, 9, 2))
    with pytest.raises(ConfigError, match="'same' needs stride 1"):
        conv.conv2d(x, generic(8, 4, 3, 2), padding="same", stride=2)
    with pytest.raises(ConfigError, match="'same', 'valid' or sizes, not 'full'"):
        conv.conv2d(x, generic(8, 4, 3, 2), padding="full")
    with pytest.raises(ConfigError, match="stride is an integer >= 1, or 2 of them, not 0"):
        conv.conv2d(x, generic(8, 4, 3, 2), stride=0)
    with pytest.raises(ShapeError, match=r"a bias has shape \(8,\), not \(3,\)"):
        conv.conv2d(x, generic(8, 4, 3, 2), generic(3))
    with pytest.raises(ConfigError, match=r"smaller than stride .* or dilation"):
        conv.conv_transpose2d(x, generic(4, 2, 3, 3), dilation=(1, 3), output_padding=(1, 2))


@pytest.mark.parametrize("examples", [1, 2, 5])
def test_columns_are_made_for_some_examples_at_a_time(
    monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    x, w = generic(5, 4, 7, 6), generic(8, 2, 3, 2)

    def answers() -> list[Any]:
        y, pull = cr.vjp(lambda x, w: conv.conv2d(x, w, padding=1, groups=2), x, w)
        return [y.numpy(), *[bar.numpy() for bar in pull(generic(*y.shape, salt=3))]]

    whole = answers()
    place = windows.Windows((7, 6), (3, 2), (1, 1), ((1, 1), (1, 1)), (1, 1))
    columns = products.Columns(place, 2)
    assert columns.wide and columns.count == 7 * 8 - 1  # of rows of 8 elements, all but the last
    size = 4 * 6 * columns.count * 8  # channels, kernel places, columns, bytes
    monkeypatch.setattr(products, "_CACHE", examples * size)
    assert len(columns.runs(x)) == -(-5 // examples)
    for ours, want in zip(answers(), whole, strict=True):
        np.testing.assert_allclose(ours, want, rtol=1e-12)
