"""DLPack: handing arrays to other libraries without a copy, and taking theirs.

A tensor's array is never written to. So it goes out marked as read-only, which DLPack can say since
its version 1.0, or as a copy to a reader of an older version; and what comes in is copied.

The protocol: dmlc/dlpack, `dlpack.h`; its Python side: the Array API standard, `__dlpack__`.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from chainrule.engine.arrays import admit, admit_values
from chainrule.engine.dtypes import check_device
from chainrule.engine.graph import variable
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, describe
from chainrule.interop import bfloat16

CPU = (1, 0)
"""kDLCPU, and the number of the device of that type."""
READ_ONLY_SINCE = (1, 0)
"""The first version that can mark an array as read-only."""


def to_dlpack(
    array: Array,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: Any,
    copy: bool | None,
) -> Any:
    """A capsule of `array`, which is read-only, for a reader that knows `max_version`.

    Without a copy where the reader can be told that it must not write. Raises `BufferError` for
    another device, and where only a copy is possible but `copy` is False.
    """
    if stream is not None:
        raise ConfigError("__dlpack__: there are no streams on the CPU; leave `stream` out")
    if dl_device is not None and (int(dl_device[0]), dl_device[1]) != CPU:
        raise BufferError(f"__dlpack__: the tensor is on the CPU, {CPU}, not on {dl_device}")
    told = max_version is not None and tuple(max_version) >= READ_ONLY_SINCE
    if not told and copy is False:
        raise BufferError(
            "__dlpack__: a reader of DLPack before 1.0 cannot be told that a tensor's memory is "
            "read-only, so it needs a copy: leave copy=False out"
        )
    handed = cast(Any, array.copy() if copy or not told else array)
    if array.dtype.kind == "V":
        return bfloat16.to_capsule(handed, max_version)
    return handed.__dlpack__(max_version=max_version)


def read(x: Any) -> Array:
    """The elements of `x`, which speaks DLPack, as an array that may share its memory."""
    try:
        return cast(Array, x) if isinstance(x, np.ndarray) else np.from_dlpack(x)
    except (BufferError, RuntimeError):  # NumPy has no bfloat16
        found = bfloat16.from_capsule(x)
        if found is None:
            raise
        return found


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor with a copy of the elements of `x`, an array of any library that speaks DLPack.

    Shape and dtype of `x`, outside of every graph. A tensor of ours is not copied unless `copy`;
    for another `x`, `copy=False` raises `BufferError`: whoever owns it could write to it.

    >>> cr.from_dlpack(np.array([1.0, 2.0]))
    tensor([1., 2.], dtype=float64)
    """
    check_device(device)
    if isinstance(x, Tensor):
        return x.detach().copy() if copy else x.detach()
    if not hasattr(x, "__dlpack__"):
        raise ConfigError(f"from_dlpack: {describe(x)} does not speak DLPack; see asarray")
    if copy is False:
        raise BufferError(
            "from_dlpack: a tensor's memory is its own, so that nobody changes what a graph keeps: "
            "leave copy=False out"
        )
    return variable(np.array(admit(read(admit_values(x)))))
