"""The part of the table about matrices, norms and Fourier transforms.

Where a factorisation leaves signs open, both libraries are asked for what does not depend on them.
"""

from __future__ import annotations

import math
from typing import Any

import torch

import chainrule as cr
from chainrule.ops.reductions import distances
from tests.interop.opdb.harness import Row
from tests.interop.opdb.translate import Unlike, axis_of, words

la = cr.linalg


def _hermitian(f: Any) -> Any:
    """`f` of the symmetric part: outside symmetric matrices both libraries are free."""
    return lambda x, *args, **options: f((x + x.mT) / 2, *args, **options)


def _symmetric(entry: str, ours: Any, theirs: Any) -> Row:
    return Row(entry, _hermitian(ours), _hermitian(theirs))


def _part(x: Any, upper: bool) -> Any:
    return (
        (cr.triu if upper else cr.tril)(x)
        if isinstance(x, cr.Tensor)
        else x.triu()
        if upper
        else x.tril()
    )


def _factor_last(f: Any) -> Any:
    """`f(b, factor)` of the triangle of the factor."""
    return lambda b, factor, upper=False: f(b, _part(factor, upper), upper)


def _with_upper(f: Any) -> Any:
    """f, with PyTorch's last argument."""
    return lambda *args: f(*args[:-1], upper=args[-1])


def _factor_first(f: Any) -> Any:
    return lambda factor, upper=False: f(_part(factor, upper), upper)


def _matrix_axes(f: Any) -> Any:
    """A function of the last two axes, for PyTorch's `dim` and `keepdim`."""

    def call(
        x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, dtype: Any = None
    ) -> Any:
        x = x if dtype is None else cr.astype(x, dtype)
        axes = tuple(dim)
        y = f(cr.moveaxis(x, axes, (-2, -1)), ord=ord)
        return cr.expand_dims(y, tuple(sorted(a % x.ndim for a in axes))) if keepdim else y

    return call


def _vector_norm(
    x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    x = x if dtype is None else cr.astype(x, dtype)
    return la.vector_norm(x, axis=axis_of(x, dim), keepdims=keepdim, ord=ord)


def _norm(
    x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    x = x if dtype is None else cr.astype(x, dtype)
    return la.norm(x, ord, axis_of(x, dim), keepdims=keepdim)


def _inverse(x: Any) -> Any:
    return la.inv(x)


def _solve(a: Any, b: Any, *, left: bool = True) -> Any:
    """PyTorch takes b of one axis fewer than a for a batch of vectors."""
    if not left:
        raise Unlike("x a = b")
    vectors = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    return cr.squeeze(la.solve(a, cr.expand_dims(b, -1)), -1) if vectors else la.solve(a, b)


def _triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    return la.solve_triangular(a, b, upper=upper, left=left, unitriangular=unitriangular)


def _ours_svd(x: Any, full_matrices: bool = False) -> Any:
    u, s, vh = la.svd(x, full_matrices=False)
    k = s.shape[-1]
    return s, cr.abs(u[..., :k]), cr.abs(vh)


def _their_svd(x: Any, full_matrices: bool = False) -> Any:
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    return s, u.abs(), vh.abs()


def _ours_eigh(x: Any, UPLO: str = "L") -> Any:
    w, v = la.eigh(x)
    return w, cr.abs(v)


def _their_eigh(x: Any, UPLO: str = "L") -> Any:
    w, v = torch.linalg.eigh(x, UPLO=UPLO)
    return w, v.abs()


def _ours_eig(x: Any) -> Any:
    w, v = la.eig(x)
    return w, cr.abs(v)


def _their_eig(x: Any) -> Any:
    w, v = torch.linalg.eig(x)
    return w, v.abs()


def _qr(x: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        raise Unlike("R alone")
    return tuple(la.qr(x, mode=mode))


def _pinv(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    if atol is not None:
        raise Unlike("an absolute tolerance")
    return la.pinv(x, rtol=rtol)


def _logdet(x: Any) -> Any:
    sign, log = la.slogdet(x)
    return cr.where(sign < 0, math.nan, log)


def _cond(x: Any, p: Any = None) -> Any:
    if 0 in x.shape[-2:]:
        raise Unlike("no elements")
    return la.cond(x, p)


def _with_pivots(pivot: bool) -> None:
    if not pivot:
        raise Unlike("elimination without exchanges")


def _lu(x: Any, pivot: bool = True) -> Any:
    _with_pivots(pivot)
    return tuple(la.lu(x)[1:])


def _lu_factor(x: Any, pivot: bool = True) -> Any:
    _with_pivots(pivot)
    return la.lu_factor(x)[0]


def _lu_solve(LU: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    if adjoint:
        raise Unlike("the adjoint equation")
    return la.lu_solve(LU, pivots, b, left=left)


def _lstsq(a: Any, b: Any, *, driver: str) -> Any:
    return la.lstsq(a, b).solution


def _their_lstsq(a: Any, b: Any, *, driver: str) -> Any:
    return torch.linalg.lstsq(a, b, driver=driver).solution


def _vander(x: Any, N: int | None = None) -> Any:
    if x.ndim == 0:
        raise Unlike("a number as one element")
    return la.vander(x, N)


def _matrix_power(x: Any, n: int) -> Any:
    return la.matrix_power(x, n)


def _cross(a: Any, b: Any, dim: Any = None) -> Any:
    if dim is None:
        raise Unlike("the first axis of size 3")
    return la.cross(*cr.broadcast_arrays(a, b), axis=dim)


def _linalg_cross(a: Any, b: Any, *, dim: int = -1) -> Any:
    return la.cross(*cr.broadcast_arrays(a, b), axis=dim)


def _cdist(a: Any, b: Any, p: float = 2.0, compute_mode: str = "") -> Any:
    return distances.cdist(a, b, ord=p)


# --- Fourier -------------------------------------------------------------------------------------

ft = cr.fft


def _one(f: Any) -> Any:
    def call(x: Any, n: Any = None, dim: int = -1, norm: Any = None) -> Any:
        return f(x, n=n, axis=dim, norm=norm or "backward")

    return call


def _several(f: Any, default: Any = None) -> Any:
    def call(x: Any, s: Any = None, dim: Any = default, norm: Any = None) -> Any:
        if s is not None and dim is None:
            dim = tuple(range(-len(s), 0))
        axes = (dim,) if isinstance(dim, int) else dim
        if s is not None and -1 in (s if isinstance(s, list | tuple) else (s,)):
            raise Unlike("a size of -1")
        return f(x, s=s, axes=axes, norm=norm or "backward")

    return call


def _shifted(f: Any) -> Any:
    return lambda x, dim=None: f(x, axes=tuple(dim) if isinstance(dim, list) else dim)


FOURIER = [
    *[
        Row(f"fft.{n}", _one(getattr(ft, n)))
        for n in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
    ],
    *[
        Row(f"fft.{n}", _several(getattr(ft, n)))
        for n in ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"]
    ],
    *[
        Row(f"fft.{n}2", _several(getattr(ft, n + "2"), (-2, -1)))
        for n in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
    ],
    Row("fft.fftshift", _shifted(ft.fftshift)),
    Row("fft.ifftshift", _shifted(ft.ifftshift)),
]

LINALG = [
    Row("linalg.norm", _norm),
    Row("linalg.norm.subgradients_at_zero", _norm),
    Row("linalg.vector_norm", _vector_norm),
    Row("linalg.matrix_norm", _matrix_axes(la.matrix_norm)),
    Row("linalg.det", la.det),
    Row("linalg.slogdet", lambda x: tuple(la.slogdet(x))),
    Row("logdet", _logdet),
    Row("linalg.inv", _inverse),
    Row("linalg.solve", _solve),
    Row("linalg.solve_triangular", _triangular),
    _symmetric("linalg.cholesky", words(la.cholesky, "input upper=upper"), torch.linalg.cholesky),
    _symmetric("cholesky", words(la.cholesky, "input upper=upper"), torch.cholesky),
    Row(
        "cholesky_solve",
        _factor_last(_with_upper(la.cholesky_solve)),
        _factor_last(torch.cholesky_solve),
    ),
    Row(
        "cholesky_inverse",
        _factor_first(_with_upper(la.cholesky_inverse)),
        _factor_first(torch.cholesky_inverse),
    ),
    Row("linalg.qr", _qr),
    Row("qr", lambda x, some=True: _qr(x, "reduced" if some else "complete")),
    Row("linalg.svdvals", la.svdvals),
    Row("linalg.svd", _ours_svd, _their_svd),
    Row("linalg.eig", _ours_eig, _their_eig),
    Row("linalg.eigvals", la.eigvals),
    _symmetric("linalg.eigh", _ours_eigh, _their_eigh),
    _symmetric("linalg.eigvalsh", lambda x, UPLO="L": la.eigvalsh(x), torch.linalg.eigvalsh),
    Row("linalg.pinv", _pinv),
    _symmetric("linalg.pinv.hermitian", _pinv, torch.linalg.pinv),
    Row("pinverse", lambda x, rcond=None: la.pinv(x, rtol=rcond)),
    Row("linalg.matrix_power", _matrix_power),
    Row("linalg.multi_dot", la.multi_dot),
    Row("linalg.tensorinv", la.tensorinv),
    Row("linalg.tensorsolve", words(la.tensorsolve, "a b dims=axes")),
    Row("linalg.cond", _cond),
    Row("linalg.householder_product", la.householder_product),
    Row("linalg.vander", _vander),
    Row("linalg.lu", _lu, lambda x, pivot=True: torch.linalg.lu(x)[1:]),
    Row("linalg.lu_factor", _lu_factor, lambda x, pivot=True: torch.linalg.lu_factor(x)[0]),
    Row("linalg.lu_solve", _lu_solve),
    Row("lu_solve", lambda b, LU, pivots: la.lu_solve(LU, pivots, b)),
    Row("linalg.lstsq.grad_oriented", _lstsq, _their_lstsq),
    Row("matrix_exp", la.matrix_exp),
    Row("stft", cr.stft),
    Row("linalg.cross", _linalg_cross),
    Row("cross", _cross),
    Row("trace", la.trace),
    Row("cdist", _cdist),
    Row("dist", lambda a, b, p=2: distances.dist(a, b, p)),
    Row("nn.functional.pdist", lambda x, p=2: distances.pdist(x, ord=p)),
    *FOURIER,
]
