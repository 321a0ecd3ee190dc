"""bfloat16 through DLPack, which NumPy does not speak: as 16-bit integers under another type code.

A capsule holds a C struct that its receiver owns; its type code is one byte of it. So an array goes
out as integers whose capsule is relabelled, and comes in the same way.

The struct: dmlc/dlpack, `dlpack.h`, versions 0.8 and 1.0.
"""

from __future__ import annotations

import ctypes
from typing import Any, final

import numpy as np

from chainrule.engine import dtypes
from chainrule.engine.op import Array

INTEGER, BRAIN = 1, 4
"""kDLUInt and kDLBfloat."""


class _Tensor(ctypes.Structure):
    """DLTensor, up to its type."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, whose tensor comes last."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def _type_in(capsule: Any) -> _Tensor:
    """The struct in a capsule that nobody has taken yet."""
    name = _name(capsule)
    address = _pointer(capsule, name)
    if name == b"dltensor_versioned":
        return _Versioned.from_address(address).tensor
    return _Tensor.from_address(address)


def to_capsule(array: Array, max_version: tuple[int, int] | None) -> Any:
    """A capsule of an array of bfloat16."""
    integers: Any = array.view(np.uint16)
    capsule = integers.__dlpack__(max_version=max_version)
    _type_in(capsule).code = BRAIN
    return capsule


def from_capsule(x: Any) -> Array | None:
    """The array of `x`, which speaks DLPack, without a copy; None if it is not of bfloat16."""
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:  # a maker from before DLPack 1.0
        capsule = x.__dlpack__()
    found = _type_in(capsule)
    if (found.code, found.bits, found.lanes) != (BRAIN, 16, 1):
        return None
    found.code = INTEGER
    return np.from_dlpack(_Handed(capsule, x.__dlpack_device__())).view(dtypes.bfloat16)


@final
class _Handed:
    """What NumPy is to read: a capsule that is there already."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule = capsule
        self._device = device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device
