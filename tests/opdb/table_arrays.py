"""The part of the table that moves, chooses and joins elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.linalg import diagonal
from chainrule.ops import extra, scattering
from chainrule.ops.selection import getitem
from opdb.harness import Row
from opdb.translate import Unlike, words


def _sizes(first: Any, rest: tuple[Any, ...]) -> Any:
    return tuple(first) if isinstance(first, tuple | list) else (first, *rest)


def _moved(x: Any, source: Any, destination: Any) -> Any:
    if isinstance(source, int):
        return cr.moveaxis(x, source, destination)
    return cr.moveaxis(x, tuple(source), tuple(destination))


def _shape(f: Any) -> Any:
    """A function of sizes, which PyTorch takes one by one or as a tuple."""
    return lambda x, first=(), *rest: f(x, _sizes(first, rest))


def _expanded(x: Any, sizes: Any) -> Any:
    lead = len(sizes) - x.ndim
    kept = (x.shape[i - lead] if n == -1 else n for i, n in enumerate(sizes))
    return cr.broadcast_to(x, tuple(kept))


def _flip(x: Any, dims: Any) -> Any:
    return cr.flip(x, axis=tuple(dims)) if x.ndim and len(dims) else x


def _permuted(x: Any, *dims: Any) -> Any:
    return cr.permute_dims(x, dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)


def _squeezed(x: Any, dim: Any = None) -> Any:
    wanted = range(x.ndim) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    ones = tuple(d for d in wanted if x.ndim and x.shape[d] == 1)
    return cr.squeeze(x, ones) if ones else x


def _swapped(x: Any, a: int, b: int) -> Any:
    return cr.swapaxes(x, a, b) if x.ndim else x


def _flattened(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if x.ndim == 0:
        return cr.reshape(x, (1,))
    a, b = start_dim % x.ndim, end_dim % x.ndim
    return cr.reshape(x, (*x.shape[:a], math.prod(x.shape[a : b + 1]), *x.shape[b + 1 :]))


def _unflattened(x: Any, dim: int, sizes: Any) -> Any:
    return extra.unflatten(x if x.ndim else cr.reshape(x, (1,)), dim, sizes)


def _repeated(x: Any, repeats: Any, dim: int | None = None, *, output_size: Any = None) -> Any:
    if not isinstance(repeats, int):
        raise Unlike("a different number of repetitions for each element")
    return cr.repeat(x, repeats, axis=dim if x.ndim else None)


def _padded(x: Any, widths: Any, mode: str = "constant", value: float | None = 0) -> Any:
    """PyTorch's widths are those of the last axis first; negative ones cut."""
    pairs = list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    grown = cr.pad(x, [(max(a, 0), max(b, 0)) for a, b in pairs], value or 0)
    ends = [(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, grown.shape, strict=True)]
    return grown[tuple(slice(a, b) for a, b in ends)]


def _split(x: Any, size: Any, dim: int = 0) -> Any:
    return cr.split(x, size, axis=dim)


def _placed(f: Any, *, axis: int) -> Any:
    """`hsplit` and its like: `tensor_split` along one axis."""

    def call(x: Any, places: Any) -> Any:
        return extra.tensor_split(x, places, axis=0 if x.ndim == 1 else axis)

    return call


def _tensor_split(x: Any, places: Any, dim: int = 0) -> Any:
    if isinstance(places, cr.Tensor):
        raise Unlike("places as an array")
    return extra.tensor_split(x, places, axis=dim)


def _roll(x: Any, shifts: Any, dims: Any = None) -> Any:
    one = isinstance(shifts, tuple) and not isinstance(dims, tuple)
    return cr.roll(x, shifts[0] if one else shifts, axis=dims) if x.ndim else x


def _stacked(f: Any) -> Any:
    return lambda xs, dim=0: f(list(xs), axis=dim)


def _cat(xs: Any, dim: int = 0) -> Any:
    kept = [x for x in xs if x.shape != (0,)]
    if len(kept) < len(xs) and any(x.ndim > 1 for x in kept):
        raise Unlike("empty vectors, which PyTorch leaves out")
    return cr.concat(list(xs), axis=dim)


def _atleast(n: int) -> Any:
    def one(x: Any) -> Any:
        return extra.atleast(x, n)

    return lambda first, *rest: (
        [one(x) for x in first]
        if isinstance(first, tuple | list)
        else one(first)
        if not rest
        else [one(x) for x in (first, *rest)]
    )


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
    at = index if index.ndim else cr.reshape(index, (1,))
    shape = (*x.shape[:axis], at.shape[0], *x.shape[axis + 1 :]) if axis >= 0 else None
    if shape is None:
        axis = axis + x.ndim
        shape = (*x.shape[:axis], at.shape[0], *x.shape[axis + 1 :])
    value = value if hasattr(value, "shape") else np.asarray(value, x.dtype)
    return scattering.index_copy(x, axis, at, cr.broadcast_to(value, shape))


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
    return scattering.scatter_reduce(x, axis, index, source, "sum")


def _scatter_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, **more: Any) -> Any:
    ours: Any = reduce
    return scattering.scatter_reduce(x, axis, index, source, ours, **more)


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


def _diagonal_scatter(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    at = np.arange(math.prod(x.shape)).reshape(x.shape)
    places = np.diagonal(at, offset, dim1, dim2)
    return cr.reshape(scattering.put(x, places, source), x.shape)


def _select_scatter(x: Any, source: Any, dim: int, index: int) -> Any:
    key = (*[slice(None)] * (dim % x.ndim), index)
    return scattering.index_put(x, key, source)


def _slice_scatter(
    x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    key = (*[slice(None)] * (dim % x.ndim), slice(start, end, step))
    return scattering.index_put(x, key, source)


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[(*[slice(None)] * (dim % x.ndim), slice(start, end, step))]


def _getitem(x: Any, key: Any) -> Any:
    return getitem(x, key)


def _narrow(x: Any, dim: int, start: Any, length: int) -> Any:
    return extra.narrow(x, dim, int(start), length)


def _meshgrid(*xs: Any, indexing: str = "ij") -> Any:
    first = xs[0] if isinstance(xs[0], list | tuple) else xs
    flat = [cr.reshape(x, (1,)) if x.ndim == 0 else x for x in first]
    return scattering.meshgrid(*flat, indexing=indexing)  # type: ignore[arg-type]


def _triangle(f: Any) -> Any:
    return lambda x, diagonal=0: f(x, k=diagonal)


def _combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    from itertools import combinations, combinations_with_replacement

    pick = combinations_with_replacement if with_replacement else combinations
    places = np.array(list(pick(range(x.shape[0]), r)), int).reshape(-1, r)
    return cr.take(x, places, axis=0) if r else cr.take(x, np.zeros(0, int), axis=0)


def _diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    if n == 0:
        return x
    return scattering.diff(x, n=n, axis=dim, prepend=prepend, append=append)


def _like(f: Any) -> Any:
    """`reshape_as` and its like: a shape taken from another array."""
    return lambda x, other: f(x, other.shape)


def _same(x: Any, *rest: Any, **more: Any) -> Any:
    return cr.positive(x)


ARRAYS = [
    Row("reshape", _shape(cr.reshape)),
    Row("view", _shape(cr.reshape)),
    Row("view_copy", _shape(cr.reshape)),
    Row("reshape_as", _like(cr.reshape)),
    Row("view_as", _like(cr.reshape)),
    Row("ravel", cr.flatten),
    Row("flatten", _flattened),
    Row("unflatten", _unflattened),
    Row("permute", _permuted),
    Row("permute_copy", _permuted),
    Row("movedim", _moved),
    Row("transpose", _swapped),
    Row("transpose_copy", _swapped),
    Row("t", lambda x: cr.permute_dims(x, tuple(range(x.ndim))[::-1])),
    Row("t_copy", lambda x: cr.permute_dims(x, tuple(range(x.ndim))[::-1])),
    Row("T", lambda x: x.T),
    Row("H", lambda x: x.T),
    Row("mT", lambda x: x.mT),
    Row("mH", lambda x: x.mT),
    Row("squeeze", _squeezed),
    Row("squeeze.multiple", _squeezed),
    Row("squeeze_copy", _squeezed),
    Row("unsqueeze", words(cr.expand_dims, "input dim=axis")),
    Row("unsqueeze_copy", words(cr.expand_dims, "input dim=axis")),
    Row("expand", _shape(_expanded)),
    Row("expand_copy", _shape(_expanded)),
    Row("expand_as", _like(cr.broadcast_to)),
    Row("broadcast_to", cr.broadcast_to),
    Row("broadcast_tensors", cr.broadcast_arrays),
    Row("flip", _flip),
    Row("fliplr", lambda x: cr.flip(x, axis=1)),
    Row("flipud", lambda x: cr.flip(x, axis=0)),
    Row("roll", _roll),
    Row("rot90", lambda x, k=1, dims=(0, 1): extra.rot90(x, k, dims)),
    Row("tile", lambda x, *reps: cr.tile(x, _sizes(reps[0], reps[1:]))),
    Row("repeat", lambda x, *reps: cr.tile(x, _sizes(reps[0], reps[1:]))),
    Row("repeat_interleave", _repeated),
    Row("constant_pad_nd", lambda x, widths, value=0: _padded(x, widths, value=value)),
    Row("nn.functional.pad.constant", _padded),
    Row("cat", _cat),
    Row("stack", _stacked(cr.stack)),
    Row("hstack", lambda xs: extra.hstack(xs)),
    Row("vstack", lambda xs: extra.vstack(xs)),
    Row("dstack", lambda xs: extra.dstack(xs)),
    Row("column_stack", lambda xs: extra.column_stack(xs)),
    Row("block_diag", extra.block_diag),
    Row("cartesian_prod", extra.cartesian_prod),
    Row("combinations", _combinations),
    Row("meshgrid.variadic_tensors", _meshgrid),
    Row("meshgrid.list_of_tensors", _meshgrid),
    Row("atleast_1d", _atleast(1)),
    Row("atleast_2d", _atleast(2)),
    Row("atleast_3d", _atleast(3)),
    Row("split", _split),
    Row("split.list_args", _split),
    Row("split_with_sizes", _split),
    Row("split_with_sizes_copy", _split),
    Row("unsafe_split", _split),
    Row("chunk", words(extra.chunk, "input chunks=count dim=axis")),
    Row("unsafe_chunk", words(extra.chunk, "input chunks=count dim=axis")),
    Row("tensor_split", _tensor_split),
    Row("hsplit", _placed(extra.tensor_split, axis=1)),
    Row("vsplit", _placed(extra.tensor_split, axis=0)),
    Row("dsplit", _placed(extra.tensor_split, axis=2)),
    Row("unbind", words(cr.unstack, "input dim=axis")),
    Row("unbind_copy", words(cr.unstack, "input dim=axis")),
    Row("unfold", lambda x, dim, size, step: extra.unfold(x, dim, size, step)),
    Row("unfold_copy", lambda x, dim, size, step: extra.unfold(x, dim, size, step)),
    Row("narrow", _narrow),
    Row("narrow_copy", _narrow),
    Row("select", extra.select),
    Row("slice", _slice),
    Row("__getitem__", _getitem),
    Row("select_scatter", _select_scatter),
    Row("slice_scatter", _slice_scatter),
    Row("diagonal_scatter", _diagonal_scatter),
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
    Row("clone", _same),
    Row("contiguous", _same),
    Row("alias_copy", _same),
    Row("resolve_conj", _same),
    Row("resolve_neg", _same),
    Row("double", lambda x, memory_format=None: cr.astype(x, np.float64)),
]
