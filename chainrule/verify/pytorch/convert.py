"""NumPy arrays to PyTorch's tensors and back, any dtype, strides kept.

bfloat16 is ml_dtypes' on our side; it travels as its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chainrule.engine.dtypes import bfloat16

Array = NDArray[Any]


def to_numpy(x: Tensor) -> Array:
    """A copy of the values of x, with the same shape and dtype; strides are x's if it is dense."""
    dense = x.detach().resolve_conj().resolve_neg()
    if dense.layout != torch.strided:
        dense = dense.to_dense()
    dense = dense.cpu().clone()
    if dense.dtype == torch.bfloat16:
        return dense.view(torch.int16).numpy().view(bfloat16)
    return dense.numpy()


def to_torch(x: Array) -> Tensor:
    """A tensor of its own memory with the values, dtype and strides of x.

    Strides of 0 (an expanded array) and gaps are kept. PyTorch has no negative strides: such an
    array becomes a contiguous tensor. NumPy's scalars are arrays, too.
    """
    x = np.asarray(x)
    if x.flags.c_contiguous or not x.size or not _expressible(x):
        # Cloned: where in memory an array begins decides in which order some ops add.
        usable = x.flags.c_contiguous and x.flags.writeable
        return _wrapped(x if usable else x.copy()).clone()
    steps = [s // x.itemsize for s in x.strides]
    span = 1 + sum([(n - 1) * s for n, s in zip(x.shape, steps, strict=True)])
    # Code that takes it for contiguous reads wrong numbers, and no memory of others.
    memory = np.zeros(max(span, x.size), x.dtype)
    view = np.lib.stride_tricks.as_strided(memory, x.shape, x.strides)
    view[...] = x
    return torch.as_strided(_wrapped(memory), x.shape, steps)


def _expressible(x: Array) -> bool:
    return all(s >= 0 and s % x.itemsize == 0 for s in x.strides)


_from_numpy = cast("Callable[[Array], Tensor]", torch.from_numpy)  # pyright: ignore[reportUnknownMemberType]


def _wrapped(x: Array) -> Tensor:
    if x.dtype == bfloat16:
        return _from_numpy(x.view(np.int16)).view(torch.bfloat16)
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    return _from_numpy(x)


def is_float(x: Any) -> bool:
    """Whether x is a tensor that can have a gradient: of real or complex floating dtype."""
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


def plain(x: Any) -> Any:
    """What an `Input` holds for an argument: the array of a tensor, anything else as it is."""
    return to_numpy(x) if isinstance(x, Tensor) else x


def tensor_like(value: Any, like: Any) -> Any:
    """The argument for a value: a tensor where `like`, the argument as captured, was one, on the
    same device: a kernel runs nowhere else."""
    return to_torch(np.asarray(value)).to(like.device) if isinstance(like, Tensor) else value


def elements(xs: Iterable[Any]) -> int:
    """Numbers in all tensors among xs."""
    return sum([x.numel() for x in xs if isinstance(x, Tensor)])
