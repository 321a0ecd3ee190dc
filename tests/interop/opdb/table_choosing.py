"""The part of the table that chooses and replaces elements."""

from __future__ import annotations

from typing import Any

import chainrule as cr
from chainrule.linalg import diagonal
from chainrule.ops.indexing import scatter_reductions, scattering
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.shapes import arranging as extra
from tests.interop.opdb.harness import Row
from tests.interop.opdb.translate import Unlike, words


def _number(f: Any) -> Any:
    """A function along an axis of `x` at indices, where PyTorch's numbers have one element."""

    def call(x: Any, dim: int, index: Any, *rest: Any, **more: Any) -> Any:
        if x.ndim:
            return f(x, dim, index, *rest, **more)
        full = [
            cr.reshape(r, (1,)) if getattr(r, "shape", None) == () else r for r in (index, *rest)
        ]
        y = f(cr.reshape(x, (1,)), dim, *full, **more)
        return y if f is _gather and index.ndim else cr.reshape(y, ())

    return call


def _filled(x: Any, axis: int, index: Any, value: Any) -> Any:
    value = cr.reshape(value, ()) if hasattr(value, "shape") else value
    return cr.index_fill(x, axis, index if index.ndim else cr.reshape(index, (1,)), value)


def _index_reduce(x: Any, axis: int, index: Any, source: Any, reduce: Any, **more: Any) -> Any:
    full = [cr.reshape(a, (1,)) if a.ndim == 0 else a for a in (index, source)]
    return cr.index_reduce(x, axis, *full, reduce, **more)


def _index_add(x: Any, axis: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    index = index if index.ndim else cr.reshape(index, (1,))
    source = source if source.ndim else cr.reshape(source, (1,))
    return scattering.index_add(x, axis, index, source * alpha)


def _index_copy(x: Any, axis: int, index: Any, source: Any) -> Any:
    index = index if index.ndim else cr.reshape(index, (1,))
    return scattering.index_copy(x, axis, index, source)


def _index_select(x: Any, axis: int, index: Any) -> Any:
    return scattering.index_select(x, axis, index if index.ndim else cr.reshape(index, (1,)))


def _scatter(x: Any, axis: int, index: Any, source: Any, *, reduce: str | None = None) -> Any:
    if reduce is not None:
        raise Unlike("scatter with reduce; there is scatter_reduce")
    return scattering.scatter(x, axis, index, source)


def _scatter_add(x: Any, axis: int, index: Any, source: Any) -> Any:
    return scatter_reductions.scatter_reduce(x, axis, index, source, "sum")


def _scatter_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, **more: Any) -> Any:
    ours: Any = reduce
    return scatter_reductions.scatter_reduce(x, axis, index, source, ours, **more)


def _index_put(x: Any, index: Any, values: Any, accumulate: bool = False) -> Any:
    return scattering.index_put(x, tuple(index), values, accumulate=accumulate)


def _embedding(weight: Any, indices: Any, **options: Any) -> Any:
    if options:
        raise Unlike(f"embedding with {sorted(options)}")
    return cr.embedding(weight, indices)


def _put(x: Any, index: Any, values: Any, accumulate: bool = False) -> Any:
    return scattering.put(x, index, cr.reshape(values, index.shape), accumulate=accumulate)


def _gather(x: Any, axis: int, index: Any, *, sparse_grad: bool = False) -> Any:
    if index.ndim != x.ndim:
        raise Unlike("indices of fewer axes")
    smaller = [m < n for n, m in zip(x.shape, index.shape, strict=True)]
    if any(s for i, s in enumerate(smaller) if i != axis % x.ndim):
        raise Unlike("indices smaller than the array along other axes")
    return cr.gather(x, axis, index)


def _along_dim(x: Any, index: Any, dim: int | None = None) -> Any:
    if dim is None:
        return cr.take(cr.flatten(x), cr.flatten(index))
    return cr.take_along_axis(x, index, axis=dim)


def _diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return diagonal(cr.moveaxis(x, (dim1, dim2), (-2, -1)), offset=offset)


def _diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    return cr.moveaxis(scattering.diag_embed(x, offset=offset), (-2, -1), (dim1, dim2))


def _getitem(x: Any, key: Any) -> Any:
    return getitem(x, key)


def _triangle(f: Any) -> Any:
    return lambda x, diagonal=0: f(x, k=diagonal)


def _diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    if n == 0:
        return x
    return scattering.diff(x, n=n, axis=dim, prepend=prepend, append=append)


CHOOSING = [
    Row("__getitem__", _getitem),
    Row("select_scatter", words(cr.select_scatter, "input src dim=axis index=index")),
    Row("slice_scatter", words(cr.slice_scatter, "input src dim start end step")),
    Row(
        "diagonal_scatter",
        words(cr.diagonal_scatter, "input src offset=offset dim1=axis1 dim2=axis2"),
    ),
    Row("masked_scatter", cr.masked_scatter),
    Row("diagonal", _diagonal),
    Row("diagonal_copy", _diagonal),
    Row("linalg.diagonal", lambda x, offset=0, dim1=-2, dim2=-1: _diagonal(x, offset, dim1, dim2)),
    Row("diag", words(extra.diag, "input diagonal=offset")),
    Row("diag_embed", _diag_embed),
    Row("diagflat", lambda x, offset=0: extra.diag(cr.flatten(x), offset)),
    Row("tril", _triangle(scattering.tril)),
    Row("triu", _triangle(scattering.triu)),
    Row("where", lambda a, c, b: cr.where(c, a, b)),
    Row("masked_fill", scattering.masked_fill),
    Row("masked_select", scattering.masked_select),
    Row("take", cr.take),
    Row("take_along_dim", _along_dim),
    Row("gather", _number(_gather)),
    Row("index_select", _number(_index_select)),
    Row("index_add", _number(_index_add)),
    Row("index_copy", _number(_index_copy)),
    Row("index_fill", _number(_filled)),
    *[Row(f"index_reduce.{r}", _number(_index_reduce)) for r in ("prod", "mean", "amin", "amax")],
    Row("index_put", _index_put),
    Row("put", _put),
    Row("scatter", _number(_scatter)),
    Row("scatter_add", _number(_scatter_add)),
    *[
        Row(f"scatter_reduce.{r}", _number(_scatter_reduce))
        for r in ["sum", "prod", "mean", "amin", "amax"]
    ],
    Row("nn.functional.embedding", _embedding),
    Row("diff", _diff),
]
