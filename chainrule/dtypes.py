"""What elements are made of: dtypes by the names of the Array API standard, what is known of them.

And where arrays are: on the one device, "cpu".

A dtype is NumPy's `np.dtype`, so `tensor.dtype == cr.float32` and dicts by dtype work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from chainrule.errors import ConfigError, DtypeError

Dtype = np.dtype[Any]

float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
complex64 = np.dtype(np.complex64)
complex128 = np.dtype(np.complex128)
int8, int16 = np.dtype(np.int8), np.dtype(np.int16)
int32, int64 = np.dtype(np.int32), np.dtype(np.int64)
uint8, uint16 = np.dtype(np.uint8), np.dtype(np.uint16)
uint32, uint64 = np.dtype(np.uint32), np.dtype(np.uint64)
bool = np.dtype(np.bool_)

STANDARD: dict[str, Dtype] = {
    str(dtype): dtype
    for dtype in (
        bool,
        *(int8, int16, int32, int64),
        *(uint8, uint16, uint32, uint64),
        *(float32, float64, complex64, complex128),
    )
}
"""The dtypes of the standard by name; float16 is ours besides."""

DEVICE = "cpu"
"""Where every tensor is."""


def check_device(device: Any) -> None:
    """Raise `ConfigError` unless `device` is "cpu" or None."""
    if device not in (None, DEVICE):
        raise ConfigError(f"there is one device, 'cpu', and no {device!r}: leave `device` out")


@dataclass(frozen=True)
class Finfo:
    """Limits of a floating-point dtype: `bits` of a real number, `eps` the distance from 1 to the
    next larger one, the largest and smallest (`min`, negative) and the smallest positive number
    that is not subnormal. `dtype` is real: float32 for complex64.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Dtype


@dataclass(frozen=True)
class Iinfo:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: Dtype


def _dtype(x: Any) -> Dtype:
    """The dtype of an array or tensor, or what names one."""
    try:
        return np.dtype(getattr(x, "dtype", x))
    except TypeError as cause:
        raise DtypeError(f"{x!r} is neither a dtype nor an array") from cause


def finfo(type: Any, /) -> Finfo:
    """The limits of a real or complex dtype, or of the dtype of an array.

    >>> finfo(float32).eps == 2.0**-23
    True
    """
    dtype = _dtype(type)
    if dtype.kind not in "fc":
        raise DtypeError(f"finfo is for floating-point dtypes, not {dtype}; see iinfo")
    info = cast(Any, np.finfo(dtype))
    numbers = [float(n) for n in (info.eps, info.max, info.min, info.smallest_normal)]
    return Finfo(int(info.bits), *numbers, dtype=np.dtype(info.dtype))


def iinfo(type: Any, /) -> Iinfo:
    """The limits of an integer dtype, or of the dtype of an array.

    >>> iinfo(int8).max
    127
    """
    dtype = _dtype(type)
    if dtype.kind not in "iu":
        raise DtypeError(f"iinfo is for integer dtypes, not {dtype}; see finfo")
    info = np.iinfo(dtype)
    return Iinfo(int(info.bits), int(info.max), int(info.min), dtype)


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether `dtype` is of a kind, or of one of a tuple of kinds.

    A kind is a dtype or one of "bool", "signed integer", "unsigned integer", "integral", "real
    floating", "complex floating", "numeric".
    """
    try:
        return cast(Any, np.isdtype)(_dtype(dtype), kind)
    except (TypeError, ValueError) as cause:
        raise DtypeError(f"isdtype: {cause}") from cause


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether numbers of one dtype (or of an array) promote to another without loss of kind."""
    return np.can_cast(_dtype(from_), _dtype(to))


def result_type(*arrays_and_dtypes: Any) -> Dtype:
    """The dtype that an op on these arrays, dtypes and Python numbers gives.

    A Python number takes the dtype of the array that it meets. Raises `DtypeError` where there is
    none: for Python numbers alone.
    """
    known = [x for x in arrays_and_dtypes if not isinstance(x, int | float | complex)]
    if not known:
        raise DtypeError("result_type needs at least one array or dtype")
    plain = [x for x in arrays_and_dtypes if isinstance(x, int | float | complex)]
    return np.result_type(*[_dtype(x) for x in known], *plain)
