"""Which of our functions stands for which of NumPy's: one row each, parameters by NumPy's names.

A row says what it supports by what its parameters name; `interop.numpy` refuses the rest. Ufuncs of
the op table stand for themselves. Functions that only move elements (`MOVES`, `JOINS`) are not
stated at all: NumPy runs them on the numbers of the elements, and what comes out says which element
to take. `VALUES` have no derivative, whatever they are given.
"""

# ruff: noqa: E501 (a table: one row, one line)
# The rows' lambdas have no annotations: that is the table's form.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import fft, linalg
from chainrule.engine import creation as cre
from chainrule.interop import numpy_matrices as matrices
from chainrule.interop import numpy_rows as rows_
from chainrule.interop import numpy_statistics as samples
from chainrule.interop.numpy_rows import A
from chainrule.ops import complex as cx
from chainrule.ops import contraction as con
from chainrule.ops import elementwise as ew
from chainrule.ops.families import rows, strong_mul
from chainrule.ops.indexing import index_arrays, order_statistics, scattering, selection, sets
from chainrule.ops.reductions import norms, scan
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes import arranging, joining, shaping
from chainrule.ops.special import bessel
from chainrule.ops.special import table as special

Call = Callable[..., Any]

LN_2 = math.log(2)
DEGREE = math.pi / 180

# fmt: off
NEWER: dict[str, Call] = {
    "matvec": lambda x1, x2: con.matmul(A(x1), A(x2)[..., None])[..., 0],
    "vecmat": lambda x1, x2: con.matmul(cx.conj(A(x1))[..., None, :], A(x2))[..., 0, :],
}
"""Ufuncs of NumPy 2.2, by name: NumPy 2.1 does not have them."""

UFUNCS: dict[Any, Call] = {
    **{row.fn: row for row in rows.values() if isinstance(row.fn, np.ufunc)},
    np.cbrt:        lambda x: ew.cbrt(x),
    np.logaddexp:   lambda x1, x2: ew.logaddexp(x1, x2),
    np.ldexp:       lambda x1, x2: special.ldexp(x1, x2),
    np.power:       ew.power,
    np.sign:        lambda x: cx.sign(x),
    np.maximum:     ew.maximum,
    np.minimum:     ew.minimum,
    np.float_power: lambda x1, x2: ew.power(shaping.astype(A(x1), np.float64), x2),
    np.conjugate:   lambda x: cx.conj(x),
    np.fabs:        lambda x: ew.abs(x),
    np.fmax:        lambda x1, x2: selection.where(ew.isnan(x1), x2, selection.where(ew.isnan(x2), x1, ew.maximum(x1, x2))),
    np.fmin:        lambda x1, x2: selection.where(ew.isnan(x1), x2, selection.where(ew.isnan(x2), x1, ew.minimum(x1, x2))),
    np.heaviside:   lambda x1, x2: selection.where(x1 == 0, x2, selection.where(x1 > 0, 1.0, 0.0)),
    np.deg2rad:     lambda x: x * DEGREE,
    np.radians:     lambda x: x * DEGREE,
    np.rad2deg:     lambda x: x / DEGREE,
    np.degrees:     lambda x: x / DEGREE,
    np.logaddexp2:  lambda x1, x2: ew.logaddexp(x1 * LN_2, x2 * LN_2) / LN_2,
    np.divmod:      lambda x1, x2: (ew.floor_divide(x1, x2), ew.remainder(x1, x2)),
    np.modf:        lambda x: (x - ew.trunc(x), ew.trunc(x)),
    np.matmul:      lambda x1, x2: con.matmul(A(x1), A(x2)),
    np.vecdot:      lambda x1, x2: red.sum(cx.conj(A(x1)) * A(x2), axis=-1),
    **{getattr(np, name): row for name, row in NEWER.items() if name in vars(np)},
}

SPECIAL: dict[str, Call] = {
    "expit":     ew.sigmoid,
    "erf":       ew.erf,
    "erfc":      ew.erfc,
    "logit":     lambda x: ew.log(x) - ew.log1p(-x),
    "log_expit": lambda x: -ew.softplus(-x),
    "xlogy":     lambda x, y: strong_mul(x, ew.log(y)),
    "xlog1py":   lambda x, y: strong_mul(x, ew.log1p(y)),
}
"""Ufuncs of scipy.special, by name: nothing imports SciPy for their sake."""

REDUCE: dict[Any, Call] = {
    np.add:         lambda array, axis=0, keepdims=False: red.sum(array, axis=axis, keepdims=keepdims),
    np.multiply:    lambda array, axis=0, keepdims=False: red.prod(array, axis=axis, keepdims=keepdims),
    np.maximum:     lambda array, axis=0, keepdims=False: red.max(array, axis=axis, keepdims=keepdims),
    np.minimum:     lambda array, axis=0, keepdims=False: red.min(array, axis=axis, keepdims=keepdims),
    np.logaddexp:   lambda array, axis=0, keepdims=False: norms.logsumexp(array, axis=axis, keepdims=keepdims),
    np.logical_and: lambda array, axis=0, keepdims=False: red.all(array, axis=axis, keepdims=keepdims),
    np.logical_or:  lambda array, axis=0, keepdims=False: red.any(array, axis=axis, keepdims=keepdims),
}

ACCUMULATE: dict[Any, Call] = {
    np.add:       lambda array, axis=0: scan.cumulative_sum(array, axis=axis),
    np.multiply:  lambda array, axis=0: scan.cumulative_prod(array, axis=axis),
    np.maximum:   lambda array, axis=0: scan.cummax(array, axis=axis)[0],
    np.minimum:   lambda array, axis=0: scan.cummin(array, axis=axis)[0],
    np.logaddexp: lambda array, axis=0: scan.logcumsumexp(array, axis=axis),
}

_PLAIN: dict[Any, Call] = {
    # --- reductions
    np.sum:           lambda a, axis=None, dtype=None, keepdims=False: red.sum(a, axis=axis, dtype=dtype, keepdims=keepdims),
    np.prod:          lambda a, axis=None, dtype=None, keepdims=False: red.prod(a, axis=axis, dtype=dtype, keepdims=keepdims),
    np.mean:          lambda a, axis=None, keepdims=False: red.mean(a, axis=axis, keepdims=keepdims),
    np.var:           rows_.var,
    np.std:           rows_.std,
    np.max:           lambda a, axis=None, keepdims=False: red.max(a, axis=axis, keepdims=keepdims),
    np.min:           lambda a, axis=None, keepdims=False: red.min(a, axis=axis, keepdims=keepdims),
    np.ptp:           lambda a, axis=None, keepdims=False: red.max(a, axis=axis, keepdims=keepdims) - red.min(a, axis=axis, keepdims=keepdims),
    np.average:       rows_.average,
    np.median:        rows_.median,
    np.quantile:      lambda a, q, axis=None, keepdims=False: rows_.quantile(a, q, axis, keepdims),
    np.percentile:    lambda a, q, axis=None, keepdims=False: rows_.quantile(a, A(q) / 100, axis, keepdims),
    np.cumsum:        lambda a, axis=None: scan.cumsum(a, axis),
    np.cumprod:       lambda a, axis=None: scan.cumprod(a, axis),
    np.cumulative_sum:  scan.cumulative_sum,
    np.cumulative_prod: scan.cumulative_prod,
    np.all:           lambda a, axis=None, keepdims=False: red.all(a, axis=axis, keepdims=keepdims),
    np.any:           lambda a, axis=None, keepdims=False: red.any(a, axis=axis, keepdims=keepdims),
    np.count_nonzero: lambda a, axis=None, keepdims=False: red.count_nonzero(a, axis=axis, keepdims=keepdims),
    np.argmax:        lambda a, axis=None, keepdims=False: red.argmax(a, axis=axis, keepdims=keepdims),
    np.argmin:        lambda a, axis=None, keepdims=False: red.argmin(a, axis=axis, keepdims=keepdims),
    np.nansum:        lambda a, axis=None, keepdims=False: red.sum(rows_.without_nan(a), axis=axis, keepdims=keepdims),
    np.nanmean:       lambda a, axis=None, keepdims=False: arranging.nanmean(a, axis, keepdims=keepdims),
    np.nanmax:        samples.nanmax,
    np.nanmin:        samples.nanmin,
    np.nanprod:       samples.nanprod,
    np.nanvar:        samples.nanvar,
    np.nanstd:        samples.nanstd,
    np.nanmedian:     lambda a, axis=None, keepdims=False: order_statistics.nanquantile(a, 0.5, axis, keepdims=keepdims),
    np.nanquantile:   lambda a, q, axis=None, keepdims=False: order_statistics.nanquantile(a, q, axis, keepdims=keepdims),
    np.nanpercentile: lambda a, q, axis=None, keepdims=False: order_statistics.nanquantile(a, A(q) / 100, axis, keepdims=keepdims),
    np.cov:           samples.cov,
    np.corrcoef:      samples.corrcoef,
    np.interp:        samples.interp,
    np.polyval:       samples.polyval,
    np.vander:        lambda x, N=None, increasing=False: arranging.vander(x, N, increasing=increasing),
    np.i0:            lambda x: bessel.i0(x),
    np.trapezoid:     rows_.trapezoid,
    np.gradient:      rows_.gradient,
    np.diff:          lambda a, n=1, axis=-1, prepend=None, append=None: scattering.diff(a, axis=axis, n=n, prepend=prepend, append=append),
    # --- products
    np.dot:           matrices.dot,
    np.inner:         matrices.inner,
    np.vdot:          lambda a, b: red.sum(cx.conj(shaping.flatten(A(a))) * shaping.flatten(A(b))),
    np.outer:         lambda a, b: con.outer(shaping.flatten(A(a)), shaping.flatten(A(b))),
    np.kron:          lambda a, b: linalg.kron(A(a), A(b)),
    np.cross:         matrices.cross,
    np.tensordot:     matrices.tensordot,
    np.einsum:        matrices.einsum,
    np.trace:         lambda a, offset=0: matrices.on_front_matrices(linalg.trace, a, offset),
    np.convolve:      matrices.convolve,
    # --- shapes
    np.reshape:       rows_.reshape,
    np.ravel:         lambda a, order="C": rows_.reshape(a, -1, order=order),
    np.transpose:     lambda a, axes=None: shaping.permute_dims(a, range(a.ndim)[::-1] if axes is None else axes),
    np.matrix_transpose: lambda x: shaping.matrix_transpose(x),
    np.swapaxes:      lambda a, axis1, axis2: shaping.swapaxes(a, axis1, axis2),
    np.moveaxis:      lambda a, source, destination: shaping.moveaxis(a, rows_.axes(source), rows_.axes(destination)),
    np.expand_dims:   lambda a, axis: shaping.expand_dims(a, rows_.axes(axis)),
    np.squeeze:       lambda a, axis=None: shaping.squeeze(a, tuple([i for i, n in enumerate(a.shape) if n == 1]) if axis is None else axis),
    np.broadcast_to:  lambda array, shape: shaping.broadcast_to(array, (shape,) if isinstance(shape, int) else tuple(shape)),
    np.broadcast_arrays: lambda *args: shaping.broadcast_arrays(*[A(x) for x in args]),
    np.concatenate:   rows_.concatenate,
    np.stack:         lambda arrays, axis=0: joining.stack([A(x) for x in arrays], axis=axis),
    np.unstack:       lambda x, axis=0: joining.unstack(x, axis=axis),
    np.append:        lambda arr, values, axis=None: joining.concat([A(arr), A(values)], axis=axis),
    np.pad:           rows_.pad,
    np.meshgrid:      lambda *xi, indexing="xy": tuple(scattering.meshgrid(*[shaping.flatten(A(x)) for x in xi], indexing=indexing)),
    np.tril:          lambda m, k=0: scattering.tril(m, k=k),
    np.triu:          lambda m, k=0: scattering.triu(m, k=k),
    np.diag:          lambda v, k=0: scattering.diag_embed(v, offset=k) if v.ndim == 1 else linalg.diagonal(v, offset=k),
    np.diagflat:      lambda v, k=0: scattering.diag_embed(shaping.flatten(v), offset=k),
    np.diagonal:      lambda a, offset=0: matrices.on_front_matrices(linalg.diagonal, a, offset),
    # --- choosing
    np.where:         rows_.where,
    np.select:        rows_.select,
    np.clip:          rows_.clip,
    np.take:          lambda a, indices, axis=None: selection.take(a, A(indices), axis=axis),
    np.take_along_axis: lambda arr, indices, axis=-1: selection.take_along_axis(arr, indices, axis=axis),
    np.sort:          lambda a, axis=-1, kind=None, stable=None: rows_.sort(a, axis),
    np.partition:     lambda a, kth, axis=-1: rows_.partition(a, kth, axis),
    np.unique:        lambda ar: sets.unique_values(ar),
    np.unique_values: lambda x: sets.unique_values(x),
    np.nonzero:       lambda a: index_arrays.nonzero(a),
    np.isin:          lambda element, test_elements, invert=False: sets.isin(A(element), A(test_elements), invert=invert),
    # --- elements
    np.round:         rows_.round,
    np.fix:           lambda x: ew.trunc(x),
    np.sinc:          rows_.sinc,
    np.unwrap:        rows_.unwrap,
    np.real:          lambda val: cx.real(val),
    np.imag:          lambda val: cx.imag(val) if val.dtype.kind == "c" else val * 0,
    np.angle:         lambda z, deg=False: cx.angle(z) / (DEGREE if deg else 1),
    np.real_if_close: lambda a: cx.real(a) if a.dtype.kind == "c" and not np.any(cx.imag(a)) else a,
    np.nan_to_num:    rows_.nan_to_num,
    np.astype:        lambda x, dtype: shaping.astype(x, dtype),
    np.copy:          lambda a: a.copy(),
    # --- creation
    np.zeros_like:    lambda a, dtype=None: cre.zeros_like(a, dtype),
    np.ones_like:     lambda a, dtype=None: cre.ones_like(a, dtype),
    np.empty_like:    lambda prototype, dtype=None: cre.empty_like(prototype, dtype),
    np.full_like:     lambda a, fill_value, dtype=None: cre.full(a.shape, fill_value, dtype or a.dtype),
    np.full:          lambda shape, fill_value, dtype=None: cre.full(shape, fill_value, dtype),
    np.linspace:      rows_.linspace,
    np.array:         lambda object, dtype=None: rows_.array(object, dtype),
    np.asarray:       lambda a, dtype=None: rows_.array(a, dtype),
    # --- linear algebra
    np.linalg.norm:          matrices.norm,
    np.linalg.matrix_norm:   lambda x, keepdims=False, ord="fro": linalg.matrix_norm(x, keepdims=keepdims, ord=ord),
    np.linalg.vector_norm:   lambda x, axis=None, keepdims=False, ord=2: linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord),
    np.linalg.det:           lambda a: linalg.det(a),
    np.linalg.slogdet:       lambda a: linalg.slogdet(a),
    np.linalg.inv:           lambda a: linalg.inv(a),
    np.linalg.pinv:          lambda a: linalg.pinv(a),
    np.linalg.solve:         lambda a, b: linalg.solve(A(a), A(b)),
    np.linalg.cholesky:      lambda a: linalg.cholesky(a),
    np.linalg.qr:            lambda a, mode="reduced": linalg.qr(a, mode=mode),
    np.linalg.eig:           lambda a: linalg.eig(a),
    np.linalg.eigvals:       lambda a: linalg.eigvals(a),
    np.linalg.eigh:          matrices.eigh,
    np.linalg.eigvalsh:      lambda a, UPLO="L": linalg.eigvalsh(matrices.symmetric(a, UPLO)),
    np.linalg.svd:           matrices.svd,
    np.linalg.svdvals:       lambda x: linalg.svdvals(x),
    np.linalg.cond:          lambda x, p=None: linalg.cond(x, p),
    np.linalg.lstsq:         lambda a, b, rcond=None: tuple(linalg.lstsq(A(a), A(b), rtol=rcond)),
    np.linalg.tensorinv:     lambda a, ind=2: linalg.tensorinv(a, ind),
    np.linalg.tensorsolve:   lambda a, b, axes=None: linalg.tensorsolve(A(a), A(b), axes),
    np.linalg.matrix_power:  lambda a, n: linalg.matrix_power(a, n),
    np.linalg.matrix_rank:   lambda A: linalg.matrix_rank(A),
    np.linalg.matrix_transpose: lambda x: shaping.matrix_transpose(x),
    np.linalg.multi_dot:     matrices.multi_dot,
    np.linalg.cross:         lambda x1, x2, axis=-1: linalg.cross(A(x1), A(x2), axis=axis),
    np.linalg.outer:         lambda x1, x2: con.outer(A(x1), A(x2)),
    np.linalg.matmul:        lambda x1, x2: con.matmul(A(x1), A(x2)),
    np.linalg.tensordot:     matrices.tensordot,
    np.linalg.vecdot:        lambda x1, x2, axis=-1: red.sum(cx.conj(A(x1)) * A(x2), axis=axis),
    np.linalg.trace:         lambda x, offset=0: linalg.trace(x, offset=offset),
    np.linalg.diagonal:      lambda x, offset=0: linalg.diagonal(x, offset=offset),
    # --- Fourier transforms
    np.fft.fft:       lambda a, n=None, axis=-1, norm=None: fft.fft(a, n=n, axis=axis, norm=norm or "backward"),
    np.fft.ifft:      lambda a, n=None, axis=-1, norm=None: fft.ifft(a, n=n, axis=axis, norm=norm or "backward"),
    np.fft.rfft:      lambda a, n=None, axis=-1, norm=None: fft.rfft(a, n=n, axis=axis, norm=norm or "backward"),
    np.fft.irfft:     lambda a, n=None, axis=-1, norm=None: fft.irfft(a, n=n, axis=axis, norm=norm or "backward"),
    np.fft.hfft:      lambda a, n=None, axis=-1, norm=None: fft.hfft(a, n=n, axis=axis, norm=norm or "backward"),
    np.fft.ihfft:     lambda a, n=None, axis=-1, norm=None: fft.ihfft(a, n=n, axis=axis, norm=norm or "backward"),
    np.fft.fftn:      lambda a, s=None, axes=None, norm=None: fft.fftn(a, s=s, axes=axes, norm=norm or "backward"),
    np.fft.ifftn:     lambda a, s=None, axes=None, norm=None: fft.ifftn(a, s=s, axes=axes, norm=norm or "backward"),
    np.fft.rfftn:     lambda a, s=None, axes=None, norm=None: fft.rfftn(a, s=s, axes=axes, norm=norm or "backward"),
    np.fft.irfftn:    lambda a, s=None, axes=None, norm=None: fft.irfftn(a, s=s, axes=axes, norm=norm or "backward"),
    np.fft.fft2:      lambda a, s=None, axes=(-2, -1), norm=None: fft.fftn(a, s=s, axes=axes, norm=norm or "backward"),
    np.fft.ifft2:     lambda a, s=None, axes=(-2, -1), norm=None: fft.ifftn(a, s=s, axes=axes, norm=norm or "backward"),
    np.fft.rfft2:     lambda a, s=None, axes=(-2, -1), norm=None: fft.rfftn(a, s=s, axes=axes, norm=norm or "backward"),
    np.fft.irfft2:    lambda a, s=None, axes=(-2, -1), norm=None: fft.irfftn(a, s=s, axes=axes, norm=norm or "backward"),
    np.fft.fftshift:  lambda x, axes=None: fft.fftshift(x, axes=axes),
    np.fft.ifftshift: lambda x, axes=None: fft.ifftshift(x, axes=axes),
}
# fmt: on

MOVES = (
    *(np.roll, np.repeat, np.tile, np.resize, np.delete, np.rot90, np.rollaxis),
    *(np.flip, np.fliplr, np.flipud, np.atleast_1d, np.atleast_2d, np.atleast_3d),
    *(np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit),
)
"""Functions that move elements of their first argument; the others are numbers and numbers only."""

JOINS = (np.vstack, np.hstack, np.dstack, np.column_stack, np.block)
"""Functions that move elements of the arrays in their one argument, a nested list."""

FUNCTIONS: dict[Any, Call] = {
    **_PLAIN,
    **{fn: rows_.move(fn) for fn in MOVES},
    **{fn: rows_.join(fn) for fn in JOINS},
}

SHAPES = frozenset(
    (
        *(np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.common_type),
        *(np.iscomplexobj, np.isrealobj),
    )
)
"""Functions that ask for shapes and dtypes only: those of traced values are known."""

VALUES = frozenset(
    (
        *(np.allclose, np.isclose, np.array_equal, np.array_equiv, np.argsort, np.argpartition),
        *(np.argwhere, np.flatnonzero, np.searchsorted, np.digitize, np.isin, np.bincount),
        *(np.isreal, np.iscomplex, np.isposinf, np.isneginf, np.nanargmax, np.nanargmin),
        *(np.array_repr, np.array_str, np.array2string, np.shares_memory, np.may_share_memory),
        *(np.save, np.savetxt, np.lexsort, np.min_scalar_type),
    )
)
"""Functions whose results are whole numbers, bools, text: computed on the values."""
