"""Methods of a tensor whose arguments are written otherwise than those of a function.

`x` is the tensor. Shapes and axes may be written out: `x.reshape(2, 3)` and `x.reshape((2, 3))`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine import creation
from chainrule.engine.dtypes import DEVICE, is_device, isdtype
from chainrule.engine.graph import Variable, apply
from chainrule.engine.op import Alias
from chainrule.engine.tensors import tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops import complex as complex_ops
from chainrule.ops.indexing import selection
from chainrule.ops.linalg import base, functions
from chainrule.ops.shapes import arranging, joining, shaping, slices
from chainrule.ops.special import table

_ALIAS = Alias()


def _one(sizes: tuple[int | Sequence[int], ...]) -> Any:
    """int | Sequence[int] that were written out, as one argument."""
    return sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes


# --- Shapes --------------------------------------------------------------------------------------


def reshape(x: Any, *shape: int | Sequence[int]) -> Any:
    """The elements in row-major order under another shape, in which one size may be -1."""
    return shaping.reshape(x, _one(shape))


def reshape_as(x: Any, other: Any) -> Any:
    """The elements in row-major order under the shape of `other`."""
    return shaping.reshape(x, other.shape)


def permute_dims(x: Any, *axes: int | Sequence[int]) -> Any:
    """Axes reordered: axis i of the result is axis `axes[i]` of this tensor."""
    return shaping.permute_dims(x, _one(axes))


def transpose(x: Any, *axes: Any) -> Any:
    """Without axes, all in reverse order; with all axes, NumPy's `permute_dims`; with two of more
    axes, PyTorch's exchange of these, which is an error in NumPy.

    Raises for two axes of a matrix in their order: nothing in NumPy and an exchange in PyTorch.
    """
    if axes in ((0, 1), (-2, -1)) and x.ndim == 2:
        raise ConfigError(
            f"transpose{axes} of a matrix: PyTorch exchanges the axes, NumPy does nothing; "
            f"write swapaxes{axes}, or leave it out"
        )
    if len(axes) == 2 != x.ndim:
        return shaping.swapaxes(x, *axes)
    return shaping.permute_dims(x, _one(axes)) if axes else shaping.permute_dims(x, _reversed(x))


def _reversed(x: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim))[::-1]


def t(x: Any) -> Any:
    """The transpose of a matrix; a vector or a number as it is."""
    if x.ndim > 2:
        raise ShapeError(f"t: is for matrices, not {x.shape}; write x.T or x.mT")
    return shaping.permute_dims(x, _reversed(x))


def squeeze(x: Any, axis: int | tuple[int, ...] | None = None) -> Any:
    """Without the axes `axis`, which must have size 1; None for all that have."""
    ones = tuple([i for i, n in enumerate(x.shape) if n == 1])
    return shaping.squeeze(x, ones if axis is None else axis)


def flip(x: Any, *axis: int | Sequence[int]) -> Any:
    """The order of elements reversed along the axes; without any, along all."""
    return slices.flip(x, _one(axis) if axis else None)


def tile(x: Any, *repetitions: int | Sequence[int]) -> Any:
    """Laid out `repetitions[i]` times along axis i, new axes in front as needed."""
    return joining.tile(x, _one(repetitions))


def broadcast_to(x: Any, *shape: int | Sequence[int]) -> Any:
    """Repeated to `shape` along new axes and those of size 1."""
    return shaping.broadcast_to(x, _one(shape))


def expand(x: Any, *shape: int | Sequence[int]) -> Any:
    """`broadcast_to`, where a size -1 stands for that of the tensor."""
    wanted: tuple[int, ...] = tuple(_one(shape))
    here = (0,) * (len(wanted) - x.ndim) + tuple(x.shape)
    filled = [n if m == -1 else m for m, n in zip(wanted, here, strict=False)]
    return shaping.broadcast_to(x, tuple(filled))


def expand_as(x: Any, other: Any) -> Any:
    """Repeated to the shape of `other`."""
    return shaping.broadcast_to(x, other.shape)


def unfold(x: Any, axis: int, size: int, step: int) -> Any:
    """All windows of `size` elements along `axis`, every `step`, along a new last axis."""
    return arranging.unfold(x, axis, size, step)


# --- Values --------------------------------------------------------------------------------------


def copy(x: Any) -> Any:
    """The same values as a tensor of its own, to assign to; gradients flow through."""
    return apply(_ALIAS, x)


def H(x: Any) -> Any:  # noqa: N802
    """The conjugate transpose of a matrix."""
    if x.ndim != 2:
        raise ShapeError(f"H: is for matrices, not {x.shape}; write x.mH for the last two axes")
    return mH(x)


def mH(x: Any) -> Any:  # noqa: N802
    """The conjugate, with the last two axes exchanged."""
    return complex_ops.conj(shaping.matrix_transpose(x))


def adjoint(x: Any) -> Any:
    """The conjugate, with the last two axes exchanged: `x.mH`."""
    return mH(x)


def dot(x: Any, b: Any) -> Any:
    """NumPy's product: over the last axis here and the last but one of `b`."""
    return np.dot(x, b)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonals of the matrices in two axes, by default the first, as a new last axis."""
    return base.diagonal(shaping.moveaxis(x, (axis1, axis2), (-2, -1)), offset=offset)


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The sums of the diagonals of the matrices in two axes, by default the first."""
    return functions.trace(shaping.moveaxis(x, (axis1, axis2), (-2, -1)), offset=offset)


def where(x: Any, condition: Any, other: Any) -> Any:
    """The elements where `condition` is true, those of `other` elsewhere."""
    return selection.where(condition, x, other)


def addcmul(x: Any, a: Any, b: Any, *, value: float = 1) -> Any:
    """x + value * a * b."""
    return x + value * (a * b)


def addcdiv(x: Any, a: Any, b: Any, *, value: float = 1) -> Any:
    """x + value * a / b."""
    return x + value * (a / b)


def polygamma(x: Any, n: Any) -> Any:
    """The n-th derivative of `digamma`."""
    return table.polygamma(n, x)


# --- Dtypes and devices --------------------------------------------------------------------------


def to(x: Any, target: object = None, dtype: Any = None, *, device: Any = None) -> Any:
    """The same numbers as another dtype: `target` is a dtype, a tensor that has it, or "cpu"."""
    wanted: Any = target
    if is_device(target):
        device, wanted = target, None
    if device is not None and str(device) != DEVICE:
        raise ConfigError(f"to: there is one device, {DEVICE!r}: leave the call out")
    wanted = dtype if wanted is None else wanted
    if isinstance(wanted, Variable):
        wanted = wanted.value.dtype
    return x if wanted is None else shaping.astype(x, wanted)


def type_as(x: Any, other: Any) -> Any:
    """The same numbers as the dtype of `other`."""
    return shaping.astype(x, other.dtype)


def cpu(x: Any) -> Any:
    """The tensor itself: it is on the CPU."""
    return x


def contiguous(x: Any) -> Any:
    """The tensor itself: no result depends on how an array lies in memory."""
    return x


# --- Questions -----------------------------------------------------------------------------------


def numel(x: Any) -> int:
    """Number of elements."""
    return x.size


def dim(x: Any) -> int:
    """Number of axes."""
    return x.ndim


def itemsize(x: Any) -> int:
    """Bytes of one element."""
    return x.dtype.itemsize


def element_size(x: Any) -> int:
    """Bytes of one element."""
    return x.dtype.itemsize


def is_floating_point(x: Any) -> bool:
    """Whether the elements are real floating-point numbers."""
    return isdtype(x.dtype, "real floating")


def is_complex(x: Any) -> bool:
    """Whether the elements are complex numbers."""
    return isdtype(x.dtype, "complex floating")


# --- New tensors of the same dtype ---------------------------------------------------------------


def new_zeros(
    x: Any, *shape: int | Sequence[int], dtype: Any = None, requires_grad: bool = False
) -> Any:
    """Zeros of another shape in this dtype."""
    return creation.zeros(_one(shape), dtype or x.dtype, requires_grad=requires_grad)


def new_ones(
    x: Any, *shape: int | Sequence[int], dtype: Any = None, requires_grad: bool = False
) -> Any:
    """Ones of another shape in this dtype."""
    return creation.ones(_one(shape), dtype or x.dtype, requires_grad=requires_grad)


def new_empty(x: Any, *shape: int | Sequence[int], dtype: Any = None) -> Any:
    """A tensor of another shape in this dtype, whose elements are zeros until they are assigned."""
    return creation.empty(_one(shape), dtype or x.dtype)


def new_full(x: Any, shape: int | Sequence[int], fill_value: Any, dtype: Any = None) -> Any:
    """A tensor of another shape in this dtype, with every element `fill_value`."""
    return creation.full(shape, fill_value, dtype or x.dtype)


def new_tensor(x: Any, data: Any, dtype: Any = None, *, requires_grad: bool = False) -> Any:
    """A copy of `data` in this dtype."""
    return tensor(data, dtype or x.dtype, requires_grad=requires_grad)
