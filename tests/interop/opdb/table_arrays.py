"""The part of the table that moves, cuts and joins."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule.nn import functional
from chainrule.ops.indexing import scattering
from chainrule.ops.shapes import arranging as extra
from tests.interop.opdb.harness import Row
from tests.interop.opdb.translate import Unlike, words


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


def _unflattened(x: Any, dim: int, sizes: Any) -> Any:
    return extra.unflatten(x if x.ndim else cr.reshape(x, (1,)), dim, sizes)


def _repeated(x: Any, repeats: Any, dim: int | None = None, *, output_size: Any = None) -> Any:
    if not isinstance(repeats, int):
        raise Unlike("a different number of repetitions for each element")
    return cr.repeat(x, repeats, axis=dim if x.ndim else None)


def _padded(x: Any, widths: Any, mode: str = "constant", value: float | None = 0) -> Any:
    return functional.pad(x, widths, mode, value or 0)


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


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[(*[slice(None)] * (dim % x.ndim), slice(start, end, step))]


def _narrow(x: Any, dim: int, start: Any, length: int) -> Any:
    return extra.narrow(x, dim, int(start), length)


def _meshgrid(*xs: Any, indexing: str = "ij") -> Any:
    first = xs[0] if isinstance(xs[0], list | tuple) else xs
    flat = [cr.reshape(x, (1,)) if x.ndim == 0 else x for x in first]
    return scattering.meshgrid(*flat, indexing=indexing)  # type: ignore[arg-type]


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
    Row("flatten", cr.flatten),
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
    *[
        Row(f"nn.functional.pad.{mode}", _padded)
        for mode in ("constant", "reflect", "replicate", "replicate_negative", "circular")
    ],
    Row("cat", _cat),
    Row("stack", _stacked(cr.stack)),
    Row("hstack", lambda xs: extra.hstack(xs)),
    Row("vstack", lambda xs: extra.vstack(xs)),
    Row("dstack", lambda xs: extra.dstack(xs)),
    Row("column_stack", lambda xs: extra.column_stack(xs)),
    Row("block_diag", extra.block_diag),
    Row("cartesian_prod", extra.cartesian_prod),
    Row("combinations", cr.combinations),
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
    Row("unfold", lambda x, dim, size, step: x.unfold(dim, size, step)),
    Row("unfold_copy", lambda x, dim, size, step: extra.unfold(x, dim, size, step)),
    Row("narrow", _narrow),
    Row("narrow_copy", _narrow),
    Row("select", extra.select),
    Row("slice", _slice),
    Row("clone", _same),
    Row("contiguous", _same),
    Row("alias_copy", _same),
    Row("resolve_conj", _same),
    Row("resolve_neg", _same),
    Row("double", lambda x, memory_format=None: cr.astype(x, np.float64)),
]
