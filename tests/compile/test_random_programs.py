"""Random programs of array ops: compiled, they give what they give eagerly, gradients included.

What a table of ops cannot show is what comes of their neighbours: which share a kernel, what
is computed again, whose memory is used twice. Several values of a program are its results, parts
beside the wholes that they are taken from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.nn import functional as F  # noqa: N812
from tests.compile.c.ccompiler import left, needs_compiler
from tests.sampling import sampled

STEPS, RESULTS, LARGEST = 14, 6, 6000
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
SLICES = (
    slice(None), slice(None), slice(None, None, -1), slice(1, None), slice(None, None, 2),
    slice(-2, None), slice(None, 5), slice(0, 1),
)  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """What a move may use: the value that it begins with, all values so far, and chance."""

    x: Any
    values: list[Any]
    r: Random

    def axis(self) -> int:
        return self.r.randrange(-self.x.ndim, self.x.ndim)

    def fitting(self, fits: Callable[[Any], bool]) -> Any:
        """One of the values that fit, or `x`."""
        return self.r.choice([v for v in self.values if fits(v)] or [self.x])


def broadcasts(a: Any, b: Any) -> bool:
    pairs = zip(a.shape[::-1], b.shape[::-1], strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def unary(t: Turn) -> Any:
    f = t.r.choice([
        cr.tanh, cr.sin, cr.sigmoid, cr.relu, cr.abs, cr.square, cr.erf, F.gelu, F.silu, cr.floor,
        lambda x: cr.exp(cr.clip(x, -5, 5)), lambda x: 1 / (cr.abs(x) + 1), lambda x: 0.3 * x,
        lambda x: cr.sqrt(cr.abs(x) + 0.5), lambda x: cr.where(x > 0.1, x, cr.tanh(x)),
    ])  # fmt: skip
    return f(t.x)


def binary(t: Turn) -> Any:
    f = t.r.choice([
        cr.add, cr.subtract, cr.multiply, cr.maximum, cr.minimum,
        lambda a, b: a / (cr.abs(b) + 0.5), lambda a, b: (cr.abs(a) + 0.5) ** cr.clip(b, -2, 2),
        lambda a, b: cr.where(a > b, 2 * a, b), lambda a, b: cr.sqrt(a * a + b * b + 1),
    ])  # fmt: skip
    return f(t.x, t.fitting(lambda v: broadcasts(t.x, v)))


def reduced(t: Turn) -> Any:
    f = t.r.choice([cr.sum, cr.mean, cr.max, cr.min, cr.var, cr.logsumexp])
    return f(t.x, axis=t.r.choice([None, t.axis()]), keepdims=t.r.random() < 0.5)


def permuted(t: Turn) -> Any:
    return cr.permute_dims(t.x, tuple(t.r.sample(range(t.x.ndim), t.x.ndim)))


def reshaped(t: Turn) -> Any:
    return cr.reshape(t.x, t.r.choice([(-1,), t.x.shape[::-1]]))


def part(t: Turn) -> Any:
    return t.x[tuple([t.r.choice(SLICES) for _ in t.x.shape])]


def element(t: Turn) -> Any:
    return t.x[t.r.randrange(t.x.shape[0])]


def joined(t: Turn) -> Any:
    other = t.fitting(lambda v: v.ndim == t.x.ndim and v.shape[:-1] == t.x.shape[:-1])
    return cr.concat([t.x, other, t.x][: t.r.randint(2, 3)], axis=-1)


def stacked(t: Turn) -> Any:
    return cr.stack([t.x, cr.sin(t.x)], axis=t.r.randint(0, t.x.ndim))


def product(t: Turn) -> Any:
    fits = [v for v in t.values if v.ndim == 2 and v.shape[0] == t.x.shape[-1]]
    if fits:
        return 0.2 * (t.x @ t.r.choice(fits))
    turned = t.x if t.x.ndim == 1 else cr.matrix_transpose(t.x)
    return 0.1 * (t.x @ turned if t.r.random() < 0.5 else turned @ t.x)


def rows(t: Turn) -> Any:
    f = t.r.choice([F.softmax, F.log_softmax, cr.cumulative_sum])
    return f(t.x, axis=t.axis()) if t.r.random() < 0.7 else F.layer_norm(t.x)


def taken(t: Turn) -> Any:
    n = t.x.shape[axis := t.axis()]
    index = np.array([t.r.randrange(-n, n) for _ in range(t.r.randint(1, 6))])
    return cr.take(t.x, cr.asarray(index), axis=axis)


def largest(t: Turn) -> Any:
    index = cr.expand_dims(cr.argmax(t.x, axis=-1), axis=-1)
    return cr.take_along_axis(cr.sin(t.x), index, axis=-1)


def moved(t: Turn) -> Any:
    f = t.r.choice([
        lambda x: cr.roll(x, t.r.randint(-3, 3), axis=t.axis()),
        lambda x: cr.pad(x, [(t.r.randint(0, 2), t.r.randint(0, 2)) for _ in x.shape]),
        lambda x: cr.broadcast_to(x[None], (3, *x.shape)),
        lambda x: cr.tril(x) if x.ndim > 1 else cr.sort(x),
    ])  # fmt: skip
    return f(t.x)


ANY = [unary, unary, unary, binary, binary, binary, stacked]
MOVES = [
    *ANY, reduced, reduced, permuted, reshaped, part, part, element, joined, product, product,
    product, rows, rows, taken, largest, moved,
]  # fmt: skip
"""What is chosen from; where there is no axis, from `ANY`."""


def program(seed: int) -> tuple[Callable[..., list[Any]], list[Any]]:
    """A function of one to four arrays, of up to three axes each; and those."""
    r = Random(seed)
    sizes = [r.choice(SIZES) for _ in range(3)]
    shapes = [
        tuple([1 if r.random() < 0.15 else n for n in sizes[: r.randint(0, 3)][::-1]])
        for _ in range(r.randint(1, 4))
    ]
    noise = np.random.default_rng(seed)

    def f(*xs: Any) -> list[Any]:
        r, values = Random(seed + 1), list(xs)
        for _ in range(STEPS):
            x = r.choice(values[-6:])
            y = r.choice(MOVES if x.ndim else ANY)(Turn(x, values, r))
            values.append(y if y.size <= LARGEST else cr.mean(y, axis=0))
        return values[-RESULTS:]

    return f, [cr.tensor(noise.normal(size=s)) for s in shapes]


def with_gradients(f: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The results of `f`, and the derivative of what they add up to, each with weights."""

    def both(*xs: Any) -> list[Any]:
        ys, pull = cr.vjp(lambda *args: tuple(f(*args)), *xs)
        weights = [cr.cos(cr.arange(y.size, dtype=y.dtype) + i) for i, y in enumerate(ys)]
        shaped = [cr.reshape(w, y.shape) for w, y in zip(weights, ys, strict=True)]
        return [*ys, *pull(tuple(shaped))]

    return both


@sampled(one_in=4)
@pytest.mark.parametrize("seed", range(80))
def test_a_random_program_compiled_gives_the_same(seed: int):
    f, xs = program(seed)
    g = with_gradients(f)
    for got, want in zip(cr.jit(g)(*xs), g(*xs), strict=True):
        a, b = got.detach().numpy(), want.detach().numpy()
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        scale = np.abs(b).max(initial=1e-3)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * scale)


@sampled(one_in=4)
@needs_compiler
@pytest.mark.parametrize("seed", range(80, 100))
def test_a_random_program_in_c_gives_the_same(seed: int, tmp_path: Path):
    f, xs = program(seed)
    g = with_gradients(f)
    want = [y.detach().numpy() for y in g(*xs)]
    for a, b in zip(left(cr.jit(g).to_c(tmp_path / "p.c", *xs).source, want), want, strict=True):
        scale = np.abs(b).max(initial=1e-3)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * scale)


@pytest.mark.parametrize("columns", [slice(5), slice(3, 4), slice(None, None, 2)])
def test_a_part_of_a_product_is_a_result_beside_the_whole(columns: slice):
    def f(x: Any) -> tuple[Any, Any]:
        y = cr.abs(x @ cr.matrix_transpose(x)) + 0.5
        return y, y[..., columns]

    x = cr.tensor(np.random.default_rng(0).normal(size=(16, 17, 1)))
    for got, want in zip(cr.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_parts_of_parts_of_parts(n: int):
    """All of them at once: empty ones, and those that are read backwards, too."""
    cuts = SLICES[1:]

    def f(x: Any) -> list[Any]:
        return [x[a][b][c] for a in cuts for b in cuts for c in cuts]

    x = cr.tensor(np.arange(float(n)))
    for got, want in zip(cr.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
