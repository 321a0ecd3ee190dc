"""Fourier transforms compiled: every length, exact to rounding, with derivatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import fft
from chainrule.compile.graph.rules.butterflies import MOST, radices
from chainrule.compile.graph.rules.fourier import roots
from chainrule.errors import TraceError
from tests.compile.c.ccompiler import left, needs_compiler
from tests.compile.ops.test_complex import assert_close
from tests.compile.ops.test_ops import eager_ops
from tests.compile.ops.test_ops import made as made
from tests.ops.against_torch import Pair, generic
from tests.ops.signal.test_fft import PAIRS
from tests.sampling import sampled, sampled_file

pytestmark = sampled_file(one_in=3)


LENGTHS = [*range(1, 10), 11, 13, 14, 15, 16, 18, 22, 32, 37, 47, 53, 81, 94, 106, 128, 251, 1000]
"""All radices, by themselves and after others; primes that are sums, products, convolutions."""
SINGLE = [8, 21, 47, 53, 1000]


@sampled(one_in=3)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_transforms_and_their_derivatives_are_those_of_eager_mode(pair: Pair, made: list[Any]):
    f, xs = pair.ours, [cr.asarray(x) for x in pair.args]

    def both(*xs: Any) -> list[Any]:
        y, pull = cr.vjp(f, *xs)
        g = cr.asarray(generic(*y.shape, salt=7, complex_=y.dtype.kind == "c"))
        return [y, *pull(g), cr.jvp(f, tuple(xs), tuple(xs))[1]]

    for got, want in zip(cr.jit(both)(*xs), both(*xs), strict=True):
        assert_close(got, want)
    assert not eager_ops(made)


def error(got: Any, want: Any) -> float:
    assert got.shape == want.shape
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


@sampled(one_in=3)
@pytest.mark.parametrize(
    ("n", "kind"), [*[(n, np.float64) for n in LENGTHS], *[(n, np.float32) for n in SINGLE]]
)
def test_every_length_is_exact_to_rounding(n: int, kind: Any, made: list[Any]):
    """Relative error in the 2-norm, against NumPy in float64."""
    x = np.random.default_rng(n).normal(size=(2, n, 3))
    z = x + 1j * np.random.default_rng(n + 1).normal(size=(2, n, 3))
    want = [np.fft.fft(z, axis=1), np.fft.ifft(z, axis=1), np.fft.fft(x, axis=1),
            np.fft.rfft(x, axis=1), np.fft.irfft(z, n=n, axis=1)]  # fmt: skip

    def every(x: Any, z: Any) -> list[Any]:
        return [fft.fft(z, axis=1), fft.ifft(z, axis=1), fft.fft(x, axis=1), fft.rfft(x, axis=1),
                fft.irfft(z, n=n, axis=1)]  # fmt: skip

    args = [cr.asarray(x.astype(kind)), cr.asarray(z.astype(np.result_type(kind, np.complex64)))]
    for got, y in zip(cr.jit(every)(*args), want, strict=True):
        assert np.finfo(got.numpy().dtype).dtype == kind
        assert error(got.numpy(), y) < 8 * np.finfo(kind).eps
    assert not eager_ops(made)


def factors(n: int) -> list[int]:
    for p in range(2, n):
        if n % p == 0:
            return [p, *factors(n // p)]
    return [n]


def test_a_length_is_split_into_small_primes_or_none():
    for n in range(1, 2000):
        found = radices(n)
        if found is None:
            assert max(factors(n)) > MOST
        else:
            assert np.prod(found, initial=1) == n and max(found, default=1) <= MOST


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 12, 1009])
def test_roots_of_unity(n: int):
    k = np.arange(-n, 2 * n)
    exact = np.exp(-2j * np.pi * np.longdouble(1) * (k % n) / n)
    assert np.abs(roots(n, k) - exact).max() < 4e-16
    on_axes = roots(4, np.arange(4))
    assert on_axes.tolist() == [1, -1j, -1, 1j]


def test_all_axes_inner_ones_and_none():
    x = cr.asarray(generic(3, 4, 5, complex_=True))

    def f(x: Any) -> list[Any]:
        return [fft.fftn(x), fft.ifftn(x, axes=(0, 2)), fft.fftn(x, s=(2, 6), axes=(1, 0)),
                fft.fftn(x, axes=()), fft.fftshift(fft.fft(x.T, axis=1))]  # fmt: skip

    for got, want in zip(cr.jit(f)(x), f(x), strict=True):
        assert_close(got, want)


def test_arrays_without_elements():
    x = cr.asarray(np.zeros((0, 6), np.complex64))
    assert cr.jit(lambda x: fft.fft(x))(x).shape == (0, 6)
    assert cr.jit(lambda x: fft.rfft(cr.real(x)))(x).shape == (0, 4)


def spectrum(x: Any, w: Any) -> Any:
    """A layer in the space of frequencies, and a real one behind it."""
    y = fft.irfft(fft.rfft(x) * w, n=x.shape[-1])
    return cr.sum(cr.tanh(y) ** 2) + cr.sum(cr.abs(fft.fft(y)) ** 2)


def test_a_model_with_transforms(made: list[Any]):
    x, w = cr.asarray(generic(3, 12)), cr.asarray(generic(7, salt=1, complex_=True))
    grad = cr.value_and_grad(spectrum, argnums=(0, 1))
    (a, (x_bar, w_bar)), (b, (x_want, w_want)) = cr.jit(grad)(x, w), grad(x, w)
    for got, want in ((a, b), (x_bar, x_want), (w_bar, w_want)):
        assert_close(got, want)
    assert not eager_ops(made)


def test_batches_of_all_sizes_and_examples_by_themselves():
    f = lambda x: cr.mean(cr.abs(fft.fft(cr.sin(x))) ** 2, axis=1)
    compiled = cr.jit(f, dynamic={"x": ("B", None)})
    for n in (4, 9, 2):
        x = cr.asarray(generic(n, 10))
        assert_close(compiled(x), f(x))
    assert compiled.traces == 1
    g = lambda x: cr.vmap(lambda row: fft.irfft(fft.rfft(row) * 2, n=10))(x)
    x = cr.asarray(generic(3, 10))
    one = cr.jit(g)
    assert_close(one(x), g(x))
    assert not any(r.eager for f in (compiled, one) for r in f.explain().rows)


def test_a_length_that_is_dynamic_is_an_op_in_its_eager_form_or_an_error():
    f = lambda x: cr.sum(cr.abs(fft.ifft(fft.fft(x) * 2)) ** 2)
    compiled = cr.jit(f, dynamic={"x": ("T",)})
    for n in (5, 8, 12):
        x = cr.asarray(generic(n))
        assert_close(compiled(x), f(x))
    assert compiled.traces == 1
    assert {r.fused[0].op for r in compiled.explain().rows if r.eager} == {"fft", "ifft"}
    for halved in (fft.rfft, fft.irfft):
        with pytest.raises(TraceError, match=f"{halved.__name__} takes .* no polynomial"):
            cr.jit(lambda x, g=halved: g(x), dynamic={"x": ("T",)})(cr.asarray(generic(5)))


def test_turns_of_a_loop_are_native(made: list[Any]):
    """Heat on a ring, by its frequencies, until it has settled."""
    decay = cr.asarray(np.exp(-0.1 * np.arange(9) ** 2))

    def settle(x: Any) -> Any:
        def cool(s: Any) -> Any:
            return fft.irfft(fft.rfft(s[0]) * decay, n=16), s[1] + 1

        return cr.while_loop(lambda s: cr.max(s[0]) - cr.min(s[0]) > 0.01, cool, (x, 0))

    x = cr.asarray(generic(16))
    compiled = cr.jit(settle)
    (y, turns), (want, count) = compiled(x), settle(x)
    assert turns.item() == count.item() > 3
    assert_close(y, want, 256)
    assert not eager_ops(made)
    assert not any(r.eager for r in compiled.explain().rows)


def test_a_scan_of_transforms():
    def f(x: Any, w: Any) -> Any:
        return cr.scan(lambda s, v: (fft.irfft(fft.rfft(s) * v, n=8), cr.sum(s)), x, w)[0]

    x, w = cr.asarray(generic(8)), cr.asarray(generic(40, 5, complex_=True) / 4)
    loss = lambda x, w: cr.sum(f(x, w) ** 2)
    grad = cr.grad(loss, argnums=(0, 1))
    for got, want in zip(cr.jit(grad)(x, w), grad(x, w), strict=True):
        assert_close(got, want, 2048)


@needs_compiler
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_transforms_in_c(kind: Any, tmp_path: Path):
    def f(x: Any) -> list[Any]:
        y = fft.rfft(x)
        return [cr.sum(cr.abs(y) ** 2), y, fft.irfft(y * 2j, n=30), fft.fft(x[:, :17] * 1j)]

    x = cr.asarray(generic(2, 30).astype(kind))
    want = [y.numpy() for y in f(x)]
    got = left(cr.jit(f).to_c(tmp_path / "f.c", x).source, want)
    for a, b in zip(got, want, strict=True):
        assert_close(cr.asarray(a), cr.asarray(b))
