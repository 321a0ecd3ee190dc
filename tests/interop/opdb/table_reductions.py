"""The part of the table that sums: reductions, scans, sorting, products, statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import chainrule as cr
from chainrule.ops.indexing import sorting
from chainrule.ops.reductions import scan
from chainrule.ops.shapes import arranging as extra
from tests.interop.opdb.harness import Row
from tests.interop.opdb.translate import Unlike, along, axis_of, reduction, words


def _dtyped(x: Any, dtype: Any) -> Any:
    return x if dtype is None else cr.astype(x, dtype)


def _moment(f: Any) -> Any:
    """`var` and `std`: PyTorch's default correction is 1, in two spellings."""

    def call(
        x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = 1
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        correction = correction if unbiased is None else int(unbiased)
        axis = axis_of(x, dim)
        return f(x, axis=axis, correction=1 if correction is None else correction, keepdims=keepdim)

    return call


def _with_mean(f: Any) -> Any:
    def call(x: Any, dim: Any = None, *args: Any, keepdim: bool = False, **k: Any) -> Any:
        keep = args[1] if len(args) > 1 else keepdim
        axis = None if isinstance(dim, bool) else axis_of(x, dim)
        return _moment(f)(x, dim, *args[:1], keepdim=keep, **k), cr.mean(
            x, axis=axis, keepdims=keep
        )

    return call


def _picked(f: Any, arg: Any) -> Any:
    """`max` along an axis: values and indices."""

    def call(x: Any, dim: int, keepdim: bool = False) -> Any:
        axis = axis_of(x, dim)
        return f(x, axis=axis, keepdims=keepdim), arg(x, axis=axis, keepdims=keepdim)

    return call


def _aminmax(x: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    axis = axis_of(x, dim)
    return cr.min(x, axis=axis, keepdims=keepdim), cr.max(x, axis=axis, keepdims=keepdim)


def _norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    x = _dtyped(x, dtype)
    if p == "nuc":
        if x.ndim != 2 and dim is None:
            raise Unlike("a nuclear norm over all axes")
        axes = (-2, -1) if dim is None else tuple(dim)
        y = cr.linalg.matrix_norm(cr.moveaxis(x, axes, (-2, -1)), ord="nuc")
        return cr.expand_dims(y, tuple(a % x.ndim for a in axes)) if keepdim else y
    return cr.norm(x, axis=axis_of(x, dim), keepdims=keepdim, ord=2 if p in ("fro", None) else p)


def _quantile(x: Any, q: Any, dim: Any = None, keepdim: bool = False, **more: Any) -> Any:
    q = q if isinstance(q, float) else q.numpy() if not q.requires_grad else q
    return sorting.quantile(x, q, axis=axis_of(x, dim), keepdims=keepdim, **more)


def _nanquantile(x: Any, q: Any, dim: Any = None, keepdim: bool = False, **more: Any) -> Any:
    q = q if isinstance(q, float) else q.numpy() if not q.requires_grad else q
    return cr.nanquantile(x, q, axis=axis_of(x, dim), keepdims=keepdim, **more)


def _their_nanmedian(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Values alone: of equal elements PyTorch has any index."""
    found = torch.nanmedian(x, *args, **kwargs)
    return found if isinstance(found, torch.Tensor) else found.values


def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    return cr.mode(x, axis=dim, keepdims=keepdim) if x.ndim else (x, np.zeros((), int))


def _gradient(x: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    h = 1 if spacing is None else spacing
    order: Any = edge_order
    return cr.gradient(x, spacing=h, axis=axis_of(x, dim), edge_order=order)


def _sorted(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    if x.ndim == 0:
        return x, np.zeros((), int)
    options: Any = {"axis": dim, "descending": descending}
    return sorting.sort(x, **options), sorting.argsort(x, **options)


def _topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if x.ndim == 0:
        return x, np.zeros((), int)
    return sorting.topk(x, k, axis=dim, largest=largest)


def _kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if x.ndim == 0:
        return x, np.zeros((), int)
    return sorting.kthvalue(x, k, axis=dim, keepdims=keepdim)


def _lower_median(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """PyTorch's median is the lower of the two in the middle: the k-th value."""
    if dim is None or x.ndim == 0:
        return (
            sorting.kthvalue(cr.flatten(x), (x.size + 1) // 2)[0]
            if dim is None
            else (x, np.zeros((), int))
        )
    return sorting.kthvalue(x, (x.shape[dim] + 1) // 2, axis=dim, keepdims=keepdim)


def _gradient_free(x: Any) -> Any:
    return x.detach()


def _cov(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    if fweights is not None:
        raise Unlike("frequency weights")
    return extra.cov(x, correction=correction, weights=aweights)


def _trapezoid(f: Any) -> Any:
    def call(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Any:
        if isinstance(x, float | int):
            x, dx = None, x
        return f(y, x, dx=dx, axis=dim)

    return call


def _matmul_added(f: Any) -> Any:
    """`addmm` and its like: beta x + alpha f(a, b)."""

    def call(x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Any:
        return x * beta + f(a, b) * alpha

    return call


def _tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    if not isinstance(dims, int):
        left, right = dims
        if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
            raise Unlike("axes of size 1, repeated before they are summed")
        dims = (left, right)
    return cr.tensordot(a, b, axes=dims)


def _vecdot(a: Any, b: Any, *, dim: int = -1) -> Any:
    return cr.vecdot(*cr.broadcast_arrays(a, b), axis=dim)


def _renorm(x: Any, p: float, dim: int, maxnorm: float) -> Any:
    from chainrule.ops.reductions.distances import renorm

    return renorm(x, p, dim, maxnorm)


REDUCTIONS = [
    Row("sum", reduction(cr.sum)),
    Row("nansum", reduction(extra.nansum)),
    Row("mean", reduction(cr.mean)),
    Row("nanmean", reduction(extra.nanmean)),
    Row("prod", reduction(cr.prod)),
    Row("amax", reduction(cr.max)),
    Row("amin", reduction(cr.min)),
    Row("aminmax", _aminmax),
    Row("max.reduction_no_dim", cr.max),
    Row("min.reduction_no_dim", cr.min),
    Row("max.reduction_with_dim", _picked(cr.max, cr.argmax)),
    Row("min.reduction_with_dim", _picked(cr.min, cr.argmin)),
    Row("var", _moment(cr.var)),
    Row("std", _moment(cr.std)),
    Row("var.unbiased", _moment(cr.var)),
    Row("std.unbiased", _moment(cr.std)),
    Row("var_mean", _with_mean(cr.var)),
    Row("std_mean", _with_mean(cr.std)),
    Row("var_mean.unbiased", _with_mean(cr.var)),
    Row("std_mean.unbiased", _with_mean(cr.std)),
    Row("logsumexp", reduction(cr.logsumexp)),
    Row("norm", _norm),
    Row("norm.nuc", _norm),
    Row("norm.fro", _norm),
    Row("norm.inf", _norm),
    Row("renorm", _renorm),
    Row("sum_to_size", lambda x, *shape: _summed(x, shape)),
    # scans and order
    Row("cumsum", along(scan.cumulative_sum)),
    Row("cumprod", along(scan.cumulative_prod)),
    Row("cummax", along(scan.cummax)),
    Row("cummin", along(scan.cummin)),
    Row("logcumsumexp", along(scan.logcumsumexp)),
    Row("sort", _sorted),
    Row("msort", lambda x: sorting.sort(x, axis=0) if x.ndim else x),
    Row("topk", _topk),
    Row("kthvalue", _kthvalue),
    Row("quantile", _quantile),
    Row("median", _lower_median),
    Row("nanquantile", _nanquantile),
    Row("nanmedian", reduction(cr.nanmedian), _their_nanmedian),
    Row("mode", _mode),
    Row("gradient", _gradient),
    # integrals and statistics
    Row("trapz", _trapezoid(extra.trapezoid)),
    Row("trapezoid", _trapezoid(extra.trapezoid)),
    Row("cumulative_trapezoid", _trapezoid(extra.cumulative_trapezoid)),
    Row("cov", _cov),
    Row("corrcoef", extra.corrcoef),
    # products
    Row("matmul", cr.matmul),
    Row("__rmatmul__", lambda a, b: cr.matmul(b, a)),
    Row("mm", cr.matmul),
    Row("mv", cr.matmul),
    Row("bmm", cr.matmul),
    Row("dot", cr.vecdot),
    Row("vdot", cr.vecdot),
    Row("inner", extra.inner),
    Row("outer", cr.outer),
    Row("kron", cr.linalg.kron),
    Row("tensordot", _tensordot),
    Row("einsum", lambda xs, spec: cr.einsum(spec, *xs)),
    Row("addmm", words(extra.addmm, "input mat1 mat2 beta=beta alpha=alpha")),
    Row("addmm.decomposed", words(extra.addmm, "input mat1 mat2 beta=beta alpha=alpha")),
    Row("baddbmm", words(extra.addmm, "input batch1 batch2 beta=beta alpha=alpha")),
    Row("addmv", _matmul_added(cr.matmul)),
    Row("addr", _matmul_added(cr.outer)),
    Row("addbmm", _matmul_added(lambda a, b: cr.sum(cr.matmul(a, b), axis=0))),
    Row("linalg.vecdot", _vecdot),
]


def _summed(x: Any, shape: Any) -> Any:
    from chainrule.ops.families import sum_to

    return sum_to(x, tuple(shape[0]) if shape and not isinstance(shape[0], int) else tuple(shape))
