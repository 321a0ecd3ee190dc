"""Every row of the NumPy table: NumPy's own value, and the derivative of NumPy's own function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.interop.numpy_table import (
    ACCUMULATE,
    FUNCTIONS,
    NEWER,
    REDUCE,
    SHAPES,
    SPECIAL,
    UFUNCS,
    VALUES,
)
from chainrule.ops.families import rows
from chainrule.tree import flatten

RNG = np.random.default_rng(7)
V = np.array([0.31, -1.27, 2.43, 0.87, -0.64])
W = np.array([1.13, 0.57, -0.81])
M = RNG.permutation(np.linspace(-2.03, 1.91, 12)).reshape(3, 4)
N = RNG.permutation(np.linspace(-1.33, 2.71, 20)).reshape(4, 5)
S = RNG.normal(size=(3, 3)) + 3 * np.eye(3)
P = S @ S.T
T = RNG.permutation(np.linspace(-1.7, 2.1, 24)).reshape(2, 3, 4)
POSITIVE = np.array([0.43, 1.71, 2.29])
Z = RNG.normal(size=(2, 3)) + 1j * RNG.normal(size=(2, 3))


@dataclass(frozen=True, eq=False)
class Case:
    """`f(*args)` calls `fn`, a function of NumPy's (or a method of a ufunc, with its name)."""

    fn: Any
    f: Callable[..., Any]
    args: tuple[Any, ...]

    def __str__(self) -> str:
        # A ufunc of NumPy 2.1 does not say its module.
        module = getattr(self.fn, "__module__", "numpy")
        name = self.fn if isinstance(self.fn, str) else f"{module}.{self.fn.__name__}"
        return f"{name}[{','.join(str(np.shape(x)) for x in self.args)}]"


def case(fn: Any, f: Callable[..., Any], *args: Any) -> Case:
    return Case(fn, f, args)


REDUCTIONS = [np.sum, np.prod, np.mean, np.var, np.std, np.max, np.min, np.ptp, np.median]
REDUCTIONS += [np.nansum]
CHOOSING = (np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp2)
REAL = [fn for fn in REDUCE if fn not in (np.logical_and, np.logical_or)]
FOURIER = [np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft, np.fft.hfft, np.fft.ihfft]
FOURIER_N = [np.fft.fftn, np.fft.ifftn, np.fft.rfftn, np.fft.irfftn]
FOURIER_N += [np.fft.fft2, np.fft.ifft2, np.fft.rfft2, np.fft.irfft2]

NEWER_SAMPLES = {"matvec": (M, N[:, 0]), "vecmat": (W, M)}
NEWER_ARGUMENTS = [(getattr(np, name), *NEWER_SAMPLES[name]) for name in NEWER if name in vars(np)]

CASES = [
    *[case(fn, lambda x, fn=fn: fn(x), M) for fn in REDUCTIONS],
    *[case(fn, lambda x, fn=fn: fn(x, axis=1, keepdims=True), M) for fn in REDUCTIONS],
    case(np.var, lambda x: np.var(x, axis=0, ddof=1), M),
    case(np.var, lambda x: np.var(x, axis=1), Z),
    case(np.std, lambda x: np.std(x, 1, ddof=1), M),
    case(np.std, lambda x: np.std(x), Z),
    case(np.sum, lambda x: np.sum(x, 0, dtype=np.float64), M),
    case(np.average, lambda x: np.average(x, axis=1), M),
    case(np.average, lambda x, w: np.average(x, axis=0, weights=w), M, POSITIVE),
    case(np.quantile, lambda x: np.quantile(x, [0.2, 0.7], axis=1), M),
    case(np.percentile, lambda x: np.percentile(x, 30), V),
    case(np.cumsum, lambda x: np.cumsum(x), M),
    case(np.cumsum, lambda x: np.cumsum(x, axis=1), M),
    case(np.cumprod, lambda x: np.cumprod(x, axis=0), M),
    case(np.cumulative_sum, lambda x: np.cumulative_sum(x, axis=1, include_initial=True), M),
    case(np.cumulative_prod, lambda x: np.cumulative_prod(x, axis=1), M),
    case(np.trapezoid, lambda y: np.trapezoid(y, dx=0.3, axis=0), M),
    case(np.trapezoid, lambda y, x: np.trapezoid(y, x), V, np.cumsum(V**2)),
    case(np.diff, lambda x: np.diff(x, n=2), M),
    case(np.gradient, lambda x: np.gradient(x), M),
    case(np.gradient, lambda x: np.gradient(x, 0.3, axis=1), M),
    # products
    case(np.dot, lambda a, b: np.dot(a, b), M, N),
    case(np.dot, lambda a, b: np.dot(a, b), T, N),
    case(np.dot, lambda a, b: np.dot(a, b), W, M),
    case(np.dot, lambda a, b: np.dot(a, b), np.array(1.7), M),
    case(np.inner, lambda a, b: np.inner(a, b), M, N.T),
    case(np.inner, lambda a, b: np.inner(a, b), np.array(0.7), N),
    case(np.vdot, lambda a, b: np.vdot(a, b), Z, 1j * Z + 2),
    case(np.outer, lambda a, b: np.outer(a, b), V, M),
    case(np.kron, lambda a, b: np.kron(a, b), M, W),
    case(np.cross, lambda a, b: np.cross(a, b), S, W),
    case(np.cross, lambda a, b: np.cross(a, b, axisa=0, axisc=0), M, N[:, :3]),
    case(np.tensordot, lambda a, b: np.tensordot(a, b, axes=([2, 0], [0, 1])), T, N[:, :2]),
    case(np.tensordot, lambda a, b: np.tensordot(a, b, 1), M, N),
    case(np.einsum, lambda a, b: np.einsum("ij,jk->ki", a, b), M, N),
    case(np.einsum, lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), M, N),
    case(np.trace, lambda a: np.trace(a, offset=1), T),
    *[case(np.convolve, lambda a, v, m=m: np.convolve(a, v, m), V, W) for m in ("full", "same")],
    case(np.convolve, lambda a, v: np.convolve(a, v, "valid"), W, V),
    # shapes
    case(np.reshape, lambda x: np.reshape(x, (4, -1)), M),
    case(np.reshape, lambda x: np.reshape(x, (2, 6), order="F"), M),
    case(np.ravel, lambda x: np.ravel(x, order="F"), M),
    case(np.transpose, lambda x: np.transpose(x), T),
    case(np.transpose, lambda x: np.transpose(x, (1, 2, 0)), T),
    case(np.matrix_transpose, lambda x: np.matrix_transpose(x), T),
    case(np.swapaxes, lambda x: np.swapaxes(x, 0, 2), T),
    case(np.moveaxis, lambda x: np.moveaxis(x, [0, 1], [2, 0]), T),
    case(np.expand_dims, lambda x: np.expand_dims(x, (0, 2)), M),
    case(np.squeeze, lambda x: np.squeeze(x), M.reshape(3, 1, 4, 1)),
    case(np.broadcast_to, lambda x: np.broadcast_to(x, (2, 3)), W),
    case(np.broadcast_arrays, lambda x, y: np.broadcast_arrays(x, y), W, V.reshape(-1, 1)),
    case(np.concatenate, lambda x, y: np.concatenate([x, y], axis=1), M, S),
    case(np.concatenate, lambda x: np.concatenate((x, np.ones((1, 4)))), M),
    case(np.stack, lambda x, y: np.stack([x, y], axis=1), M, N[:3, :4]),
    case(np.unstack, lambda x: np.unstack(x, axis=1), M),
    case(np.append, lambda x, y: np.append(x, y), M, V),
    case(np.pad, lambda x: np.pad(x, ((1, 2), (0, 1)), constant_values=0.7), M),
    case(np.pad, lambda x: np.pad(x, 2, mode="reflect"), M),
    case(np.meshgrid, lambda x, y: np.meshgrid(x, y), V, W),
    case(np.tril, lambda x: np.tril(x, -1), M),
    case(np.triu, lambda x: np.triu(x, 1), M),
    case(np.diag, lambda x: np.diag(x, 1), W),
    case(np.diag, lambda x: np.diag(x, -1), M),
    case(np.diagflat, lambda x: np.diagflat(x), M),
    case(np.diagonal, lambda x: np.diagonal(x, 1), T),
    # moving
    case(np.roll, lambda x: np.roll(x, 5), M),
    case(np.repeat, lambda x: np.repeat(x, [1, 0, 2], axis=0), M),
    case(np.tile, lambda x: np.tile(x, (2, 1, 2)), M),
    case(np.resize, lambda x: np.resize(x, (4, 5)), M),
    case(np.delete, lambda x: np.delete(x, [0, 2], axis=1), M),
    case(np.rot90, lambda x: np.rot90(x), M),
    case(np.rollaxis, lambda x: np.rollaxis(x, 2), T),
    case(np.flip, lambda x: np.flip(x, 1), M),
    case(np.fliplr, lambda x: np.fliplr(x), M),
    case(np.flipud, lambda x: np.flipud(x), M),
    *[case(fn, lambda x, fn=fn: fn(x), V) for fn in (np.atleast_1d, np.atleast_2d, np.atleast_3d)],
    case(np.split, lambda x: np.split(x, [1, 3], axis=1), M),
    case(np.array_split, lambda x: np.array_split(x, 3, axis=1), M),
    case(np.hsplit, lambda x: np.hsplit(x, 2), M),
    case(np.vsplit, lambda x: np.vsplit(x, [1]), M),
    case(np.dsplit, lambda x: np.dsplit(x, 2), T),
    *[case(fn, lambda x, y, fn=fn: fn([x, y]), W, W * 1.3) for fn in (np.vstack, np.hstack)],
    *[case(fn, lambda x, y, fn=fn: fn([x, y]), W, W * 1.3) for fn in (np.dstack, np.column_stack)],
    case(np.block, lambda x, y: np.block([[x, y], [y, x]]), M, M * 0.7),
    # choosing
    case(np.where, lambda x: np.where(x > 0, x**2, 0.3), M),
    case(np.select, lambda x: np.select([x > 1, x > 0], [x**2, 3 * x], 0.1), M),
    case(np.clip, lambda x: np.clip(x, -1, 1.05), M),
    case(np.take, lambda x: np.take(x, [[0, 2], [2, 1]], axis=1), M),
    case(np.take_along_axis, lambda x: np.take_along_axis(x, np.array([[1], [0], [3]]), 1), M),
    case(np.sort, lambda x: np.sort(x, axis=0), M),
    case(np.sort, lambda x: np.sort(x, axis=None), M),
    case(np.partition, lambda x: np.partition(x, 2), M),
    case(np.unique, lambda x: np.unique(x), M),
    case(np.unique_values, lambda x: np.sort(np.unique_values(x)), M),
    # elements
    case(np.round, lambda x: np.round(x, 1), M + 0.013),
    case(np.fix, lambda x: np.fix(x), M),
    case(np.sinc, lambda x: np.sinc(x), M),
    case(np.unwrap, lambda x: np.unwrap(7 * x, axis=0), M),
    case(np.unwrap, lambda x: np.unwrap(3 * x, period=2.5, discont=2.0), M),
    case(np.real, lambda x: np.real(x), Z),
    case(np.imag, lambda x: np.imag(x), Z),
    case(np.angle, lambda x: np.angle(x), Z),
    case(np.real_if_close, lambda x: np.real_if_close(x), M),
    case(np.nan_to_num, lambda x: np.nan_to_num(x), M),
    case(np.astype, lambda x: np.astype(x, np.complex128), M),
    case(np.copy, lambda x: np.copy(x), M),
    # creation
    case(np.zeros_like, lambda x: x + np.zeros_like(x), M),
    case(np.ones_like, lambda x: x * np.ones_like(x, dtype=np.float64), M),
    case(np.empty_like, lambda x: x + 0 * np.empty_like(x), M),
    case(np.full_like, lambda x: x * np.full_like(x, 0.3), M),
    case(np.full, lambda x: np.full((2, 3), x[0], like=x), V),
    case(np.linspace, lambda a, b: np.linspace(a, b, 5, endpoint=False), W, W**2),
    case(np.array, lambda x: np.array([x, 2 * x], like=x), M),
    case(np.asarray, lambda x: np.asarray([[x, 2 * x]], like=x), M),
    # linear algebra
    case(np.linalg.norm, lambda x: np.linalg.norm(x), M),
    case(np.linalg.norm, lambda x: np.linalg.norm(x, 3, axis=1), M),
    case(np.linalg.norm, lambda x: np.linalg.norm(x, "nuc", axis=(0, 2), keepdims=True), T),
    case(np.linalg.matrix_norm, lambda x: np.linalg.matrix_norm(x), T),
    case(np.linalg.vector_norm, lambda x: np.linalg.vector_norm(x, axis=0), M),
    *[case(f, lambda x, f=f: f(x), S) for f in (np.linalg.det, np.linalg.inv, np.linalg.slogdet)],
    case(np.linalg.pinv, lambda x: np.linalg.pinv(x), M),
    case(np.linalg.solve, lambda a, b: np.linalg.solve(a, b), S, M),
    case(np.linalg.cholesky, lambda x: np.linalg.cholesky(x @ x.T), S),
    case(np.linalg.qr, lambda x: np.linalg.qr(x), M.T),
    case(np.linalg.eig, lambda x: np.abs(np.linalg.eig(x)[1]), S),
    case(np.linalg.eigvals, lambda x: np.abs(np.linalg.eigvals(x)), S),
    case(np.linalg.eigh, lambda x: np.abs(np.linalg.eigh(x + x.T)[1]), S),
    case(np.linalg.eigvalsh, lambda x: np.linalg.eigvalsh(x), P),
    case(np.linalg.eigvalsh, lambda x: np.linalg.eigvalsh(x, "U"), P),
    case(np.linalg.svd, lambda x: np.linalg.svd(x, compute_uv=False), M),
    case(np.linalg.svdvals, lambda x: np.linalg.svdvals(x), M),
    case(np.linalg.matrix_power, lambda x: np.linalg.matrix_power(x, -2), S),
    case(np.linalg.matrix_transpose, lambda x: np.linalg.matrix_transpose(x), T),
    case(np.linalg.multi_dot, lambda a, b: np.linalg.multi_dot([a, b, b.T]), M, N),
    case(np.linalg.cross, lambda a, b: np.linalg.cross(a, b), S, S**2),
    case(np.linalg.outer, lambda a, b: np.linalg.outer(a, b), V, W),
    case(np.linalg.matmul, lambda a, b: np.linalg.matmul(a, b), T, N),
    case(np.linalg.tensordot, lambda a, b: np.linalg.tensordot(a, b, axes=1), T, N),
    case(np.linalg.vecdot, lambda a, b: np.linalg.vecdot(a, b), Z, Z * 1j + 2),
    case(np.linalg.trace, lambda x: np.linalg.trace(x), T),
    case(np.linalg.diagonal, lambda x: np.linalg.diagonal(x, offset=1), T),
    # Fourier
    *[case(f, lambda x, f=f: f(x, norm="ortho"), M) for f in FOURIER],
    *[case(f, lambda x, f=f: f(x), T) for f in FOURIER_N],
    case(np.fft.fftshift, lambda x: np.fft.fftshift(x), M),
    case(np.fft.ifftshift, lambda x: np.fft.ifftshift(x, axes=1), M),
    # ufuncs that are more than a row of the op table, and methods
    case(np.logaddexp, lambda a, b: np.logaddexp(a, b), M, M[::-1]),
    case(np.cbrt, lambda a: np.cbrt(a), POSITIVE),
    case(np.ldexp, lambda a: np.ldexp(a, 3), M),
    case(np.matmul, lambda a, b: np.matmul(a, b), T, N),
    case(np.vecdot, lambda a, b: np.vecdot(a, b), Z, Z * 1j + 2),
    *[case(f, lambda a, b, f=f: f(a, b), *args) for f, *args in NEWER_ARGUMENTS],
    *[case(f, lambda a, b, f=f: f(a, b), M, M[::-1]) for f in CHOOSING],
    *[case(f, lambda a, b, f=f: f(a, b), M, M[::-1] + 0.11) for f in (np.fmod, np.divmod)],
    case(np.float_power, lambda a, b: np.float_power(a, b), POSITIVE, W),
    case(np.heaviside, lambda a: np.heaviside(a, 0.5), M),
    *[case(f, lambda a, f=f: f(a), M) for f in (np.deg2rad, np.radians, np.rad2deg, np.degrees)],
    *[case(f, lambda a, f=f: f(a), M) for f in (np.fabs, np.modf, np.sign)],
    case(np.conjugate, lambda a: np.conjugate(a), Z),
    *[case("reduce", lambda x, f=f: f.reduce(x), M) for f in REAL],
    *[case("reduce", lambda x, f=f: f.reduce(x, axis=1, keepdims=True), M) for f in REAL],
    *[case("accumulate", lambda x, f=f: f.accumulate(x, axis=1), M) for f in ACCUMULATE],
    case("outer", lambda a, b: np.multiply.outer(a, b), M, W),
    case("outer", lambda a: np.subtract.outer([1.0, 2.0], a), M),
    case("dtype", lambda a: np.add(a, 1, dtype=np.float64), M),
]

WITHOUT_GRADIENT = {
    np.all: lambda x: np.all(x > 0, axis=0),
    np.any: lambda x: np.any(x > 1, axis=1),
    np.count_nonzero: lambda x: np.count_nonzero(x > 0, axis=1),
    np.argmax: lambda x: np.argmax(x, axis=1),
    np.argmin: lambda x: np.argmin(x),
    np.nonzero: lambda x: np.nonzero(x > 0),
    np.isin: lambda x: np.isin(x, x[:1]),
    np.linalg.matrix_rank: lambda x: np.linalg.matrix_rank(x),
    np.logical_and: lambda x: np.logical_and.reduce(x > 0),
    np.logical_or: lambda x: np.logical_or.reduce(x > 1, axis=1),
    np.isclose: lambda x: np.isclose(x, x + 1e-9),
    np.argsort: lambda x: np.argsort(x, axis=0),
    np.searchsorted: lambda x: np.searchsorted(np.sort(x[0]), 0.3),
}
"""Functions whose result no gradient flows through."""


def leaves(y: Any) -> list[Any]:
    return flatten(tuple(y) if isinstance(y, tuple) else y)[0]


def noise(shape: Any, dtype: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x


@pytest.mark.parametrize("fn", sorted(SHAPES, key=lambda fn: fn.__name__))
def test_what_asks_for_a_shape_or_a_dtype_needs_no_numbers(fn: Any):
    def f(x: Any) -> Any:
        return fn(x, np.float64) if fn is np.can_cast else fn(x)

    for x in (V.astype(np.float32), M, Z):
        want = f(x)
        seen: list[Any] = [f(cr.tensor(x))]
        cr.jit(lambda t, seen=seen: seen.append(f(t)) or t)(cr.tensor(x))
        assert seen == [want, want]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_derivative(case: Case):
    plain = [np.asarray(y) for y in leaves(case.f(*case.args))]
    tensors = [cr.tensor(x, requires_grad=True) for x in case.args]
    got = leaves(case.f(*tensors))
    assert all(isinstance(y, cr.Tensor) for y in got)
    for y, expected in zip(got, plain, strict=True):
        assert y.dtype == expected.dtype and y.shape == expected.shape
        np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-9, atol=1e-11)
    along = [noise(x.shape, x.dtype, 3 + i) for i, x in enumerate(case.args)]
    weights = [noise(y.shape, y.dtype, 11 + i) for i, y in enumerate(plain)]
    h = 1e-6
    ends = [
        leaves(case.f(*[x + s * h * v for x, v in zip(case.args, along, strict=True)]))
        for s in (1, -1)
    ]
    slope = sum(
        float(np.real(np.vdot(w, a - b))) / (2 * h) for w, a, b in zip(weights, *ends, strict=True)
    )
    _, pull = cr.vjp(lambda *xs: tuple(leaves(case.f(*xs))), *case.args)
    bars = pull(tuple(weights))
    for b, x in zip(bars, case.args, strict=True):
        assert b.dtype == x.dtype and b.shape == x.shape
    reverse = sum(float(np.real(np.vdot(b.numpy(), v))) for b, v in zip(bars, along, strict=True))
    _, dots = cr.jvp(lambda *xs: tuple(leaves(case.f(*xs))), case.args, along)
    forward = sum(float(np.real(np.vdot(w, d.numpy()))) for w, d in zip(weights, dots, strict=True))
    assert reverse == pytest.approx(slope, rel=2e-6, abs=2e-8)
    assert forward == pytest.approx(slope, rel=2e-6, abs=2e-8)


@pytest.mark.parametrize("fn", WITHOUT_GRADIENT, ids=lambda fn: fn.__name__)
def test_value_without_derivative(fn: Any):
    f = WITHOUT_GRADIENT[fn]
    got, expected = leaves(f(cr.tensor(M, requires_grad=True))), leaves(f(M))
    for y, e in zip(got, expected, strict=True):
        assert isinstance(y, cr.Tensor) and not y.requires_grad
        np.testing.assert_array_equal(y.numpy(), e)


STATISTICS = [
    "nanmean", "nanmax", "nanmin", "nanprod", "nanvar", "nanstd", "nanmedian", "nanquantile",
    "nanpercentile", "cov", "corrcoef", "interp", "polyval", "vander", "i0",
]  # fmt: skip
SOLVERS = ("cond", "lstsq", "tensorinv", "tensorsolve")
"""Rows whose cases are in `test_numpy_statistics.py`, which checks that none is left out."""


def test_every_row_has_a_case():
    tested = {c.fn for c in CASES if not isinstance(c.fn, str)} | set(WITHOUT_GRADIENT)
    tested |= {getattr(np, name) for name in STATISTICS} | {getattr(np.linalg, n) for n in SOLVERS}
    assert not set(FUNCTIONS) - tested, "functions of the table without a case"
    own = {row.fn for row in rows.values()} | {np.power}
    assert not set(UFUNCS) - own - tested, "ufuncs of the table without a case"


UNARY = [r for r in rows.values() if isinstance(r.fn, np.ufunc) and len(r.partials) == 1]
BINARY = [r for r in rows.values() if isinstance(r.fn, np.ufunc) and len(r.partials) == 2]
ABOVE_ONE = (np.arccosh,)


@pytest.mark.parametrize("row", UNARY, ids=str)
def test_a_ufunc_of_one_array_is_its_row(row: Any):
    x = np.array([0.31, 0.72, 0.55]) + (1 if row.fn in ABOVE_ONE else 0)
    got, ours = [cr.vjp(f, x)[1](np.ones(3))[0] for f in (row.fn, row)]
    np.testing.assert_array_equal(got.numpy(), ours.numpy())
    np.testing.assert_array_equal(row.fn(cr.tensor(x)).numpy(), row.fn(x))


@pytest.mark.parametrize("row", BINARY, ids=str)
def test_a_ufunc_of_two_arrays_is_its_row(row: Any):
    a, b = np.array([0.31, 1.72, 2.55]), np.array([1.21, 0.43, 0.87])
    got, ours = [cr.vjp(f, a, b)[1](np.ones(3)) for f in (row.fn, row)]
    for g, o in zip(got, ours, strict=True):
        np.testing.assert_array_equal(g.numpy(), o.numpy())
    np.testing.assert_array_equal(row.fn(a, cr.tensor(b)).numpy(), row.fn(a, b))


@pytest.mark.parametrize("name", SPECIAL)
def test_a_ufunc_of_scipy(name: str):
    special = pytest.importorskip("scipy.special")
    fn = getattr(special, name)
    args = [np.array([0.31, 0.72, 0.55]), np.array([0.21, 0.43, 0.87])][: fn.nin]
    _, pull = cr.vjp(fn, *args)
    for i, bar in enumerate(pull(np.ones(3))):
        up, down = [[x + s * 1e-6 * (i == j) for j, x in enumerate(args)] for s in (1, -1)]
        np.testing.assert_allclose(bar.numpy(), (fn(*up) - fn(*down)) / 2e-6, rtol=1e-6)


# --- Refusals ------------------------------------------------------------------------------------

X = cr.tensor(M, requires_grad=True)
REFUSED = {
    "where of a ufunc": (lambda: np.sin(X, where=M > 0), cr.DtypeError, ["np.sin", "np.where("]),
    "out of a ufunc": (
        lambda: np.add(X, 1, out=cr.zeros(M.shape)),
        cr.DtypeError,
        ["never written", "out"],
    ),
    "out of a function": (lambda: np.sum(X, out=M[0]), cr.DtypeError, ["np.sum", "never written"]),
    "initial": (lambda: np.max(X, initial=3.0), cr.DtypeError, ["initial", "afterwards"]),
    "unknown argument": (lambda: np.einsum("ij", X, order="F"), cr.DtypeError, ["order", "takes"]),
    "no derivative": (lambda: np.histogram(X), cr.GradientError, ["np.histogram", "detach()"]),
    "no derivative of a ufunc": (lambda: np.spacing(X), cr.GradientError, ["np.spacing", "(3, 4)"]),
    "reduceat": (lambda: np.add.reduceat(X, [0, 1]), cr.GradientError, ["np.add.reduceat"]),
    "at": (lambda: np.add.at(X, 0, 1.0), cr.GradientError, ["np.add.at"]),
    "reduce without a derivative": (lambda: np.hypot.reduce(X), cr.GradientError, ["hypot.reduce"]),
    "an array of tensors": (lambda: np.array([X, X]), cr.GradientError, ["cr.asarray", "detach()"]),
    "r_": (lambda: np.r_[X, X], cr.GradientError, ["np.r_[x, y] cr.concat([x, y])"]),
    "c_": (lambda: np.c_[X, X], cr.GradientError, ["np.c_[x, y] cr.column_stack([x, y])"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str):
    call, kind, words = REFUSED[what]
    with pytest.raises(kind) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_what_a_refusal_says_to_write_is_what_numpy_would_have_given():
    a, b = M[0], M[1]
    t, u = cr.tensor(a), cr.tensor(b)
    np.testing.assert_array_equal(cr.stack([t, u]).numpy(), np.array([a, b]))
    np.testing.assert_array_equal(cr.concat([t, u]).numpy(), np.r_[a, b])
    np.testing.assert_array_equal(cr.column_stack([t, u]).numpy(), np.c_[a, b])


def test_in_place_addition_to_an_array_is_refused():
    total = np.zeros((3, 4))
    with pytest.raises(cr.DtypeError, match="never written"):
        total += X


def test_where_no_gradient_is_needed_numpy_computes():
    counts, edges = np.histogram(cr.tensor(M), bins=4)
    expected = np.histogram(M, bins=4)
    assert isinstance(counts, cr.Tensor) and isinstance(edges, cr.Tensor)
    np.testing.assert_array_equal(counts.numpy(), expected[0])
    np.testing.assert_array_equal(edges.numpy(), expected[1])


def test_values_are_computed_although_a_gradient_is_needed():
    assert np.shape(X) == (3, 4) and np.ndim(X) == 2 and np.size(X) == 12
    assert np.allclose(X, M) is True and np.array_equal(X, M) is True
    assert np.iscomplexobj(X) is False
    assert {np.allclose, np.array_equal} <= VALUES


def test_arrays_on_the_left_keep_the_graph():
    w = cr.tensor(W, requires_grad=True)
    a = np.arange(3.0)
    for y in (a * w, a + w, a / w, a - w, np.float64(2) * w, a @ w, a < w):
        assert isinstance(y, cr.Tensor)
    (a * w).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), a)
    assert (np.float64(2) * cr.tensor([1.0])).dtype == np.float64
    assert (2.0 * cr.tensor([1.0])).dtype == np.float32


_BITS = "bitwise_", "logical_", "gcd", "lcm"
_NAMES = [n for n, f in vars(np).items() if isinstance(f, np.ufunc) and not n.startswith(_BITS)]


@pytest.mark.parametrize("name", [n for n in _NAMES if hasattr(cr, n) and n != "vecmat"])
def test_a_ufunc_is_our_function_of_the_same_name(name: str):
    """However the row computes: with the ufunc itself, or more exactly."""
    f, ours = vars(np)[name], getattr(cr, name)
    xs = [np.array([0.5, 0.25]), np.array([2, 3] if name == "ldexp" else [0.75, 0.125])][: f.nin]
    if name in ("matmul", "matvec"):
        xs = [x + np.eye(2) for x in xs]
    if name in ("acosh", "arccosh"):
        xs = [x + 1 for x in xs]
    taped = [cr.tensor(x, requires_grad=x.dtype.kind == "f") for x in xs]
    y, z = f(*taped), ours(*taped)
    assert type(y) is type(z) and cr.all(y == z) and y.dtype == z.dtype
    np.testing.assert_allclose(y.detach().numpy(), f(*xs), rtol=1e-14)
