"""What elements are made of: dtypes by the names of the Array API standard, what is known of them.

And where arrays are: on the one device, "cpu".

A dtype is NumPy's `np.dtype`, so `tensor.dtype == cr.float32` and dicts by dtype work. NumPy has no
bfloat16 of its own: that is ml_dtypes', imported when `bfloat16` is first asked for. To NumPy it is
of kind "V", and nothing else of that kind is ever let in, so kinds tell what a number is.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, wraps
from typing import Any, cast

import numpy as np

from chainrule import optional
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
bfloat16: Dtype

INEXACT = "fcV"
"""The kinds of dtypes that can be differentiated."""
REAL = "fV"
"""The kinds of real floating-point dtypes."""
NARROW = "eE"
"""The characters of float16 and bfloat16, whose sums of many terms are added up in float32."""

STANDARD: dict[str, Dtype] = {
    str(dtype): dtype
    for dtype in (
        bool,
        *(int8, int16, int32, int64),
        *(uint8, uint16, uint32, uint64),
        *(float32, float64, complex64, complex128),
    )
}
"""The dtypes of the standard by name; float16 and bfloat16 are ours besides."""

DEVICE = "cpu"
"""Where every tensor is."""


def __getattr__(name: str) -> Any:
    if name != "bfloat16":
        raise AttributeError(f"module 'chainrule.engine.dtypes' has no attribute {name!r}")
    found = globals()[name] = np.dtype(optional.require("ml_dtypes", "bfloat16").bfloat16)
    return found


def check_real(what: str, *xs: Any) -> None:
    """Raise `DtypeError` if one of `xs` (arrays, Specs, numbers) is complex: `what` asks which of
    two numbers is larger, or is defined for real numbers only."""
    for x in xs:
        if getattr(x, "dtype", float64).kind == "c" or x.__class__ is complex:
            raise DtypeError(
                f"{what} is for real numbers, not {getattr(x, 'dtype', x)}, which have no order: "
                "take real(x), imag(x) or abs(x) first"
            )


_DEVICES = {"cpu", "cuda", "gpu", "hip", "ipu", "meta", "mps", "mtia", "tpu", "xla", "xpu"}
"""What other packages call devices."""


def is_device(x: Any) -> builtins.bool:
    """Whether `x` is a device of another package's: "cpu", "cuda:0", a `torch.device`."""
    named = x if isinstance(x, str) else str(x) if type(x).__name__ == "device" else ""
    return named.partition(":")[0].lower() in _DEVICES


def check_device(device: Any) -> None:
    """Raise `ConfigError` unless `device` is "cpu" or None."""
    if device not in (None, DEVICE):
        raise ConfigError(f"there is one device, 'cpu', and no {device!r}: leave `device` out")


@dataclass(frozen=True)
class Finfo:
    """Limits of a floating-point dtype: `bits` is the size of a real number, `eps` the distance
    from 1 to the next larger one. `max` and `min` (negative) are the extremes, `smallest_normal` is
    the smallest positive normal number. `dtype` is real: float32 for complex64.
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
        return np.dtype(x if isinstance(x, type) else getattr(x, "dtype", x))
    except TypeError as cause:
        raise DtypeError(f"{x!r} is neither a dtype nor an array") from cause


def finfo(type: Any, /) -> Finfo:
    """The limits of a real or complex dtype, or of the dtype of an array.

    >>> cr.finfo(cr.float32).eps == 2.0**-23
    True
    """
    dtype = _dtype(type)
    if dtype.kind not in INEXACT:
        raise DtypeError(f"finfo is for floating-point dtypes, not {dtype}; see iinfo")
    return _finfo(dtype)


@cache
def _finfo(dtype: Dtype) -> Finfo:
    known: Any = optional.require("ml_dtypes", "bfloat16") if dtype.kind == "V" else np
    info = known.finfo(dtype)
    numbers = [float(n) for n in (info.eps, info.max, info.min, info.smallest_normal)]
    return Finfo(int(info.bits), *numbers, dtype=np.dtype(info.dtype))


def iinfo(type: Any, /) -> Iinfo:
    """The limits of an integer dtype, or of the dtype of an array.

    >>> cr.iinfo(cr.int8).max
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

    >>> cr.isdtype(cr.float32, "real floating")
    True
    """
    try:
        known = _dtype(dtype)
        if known.kind == "V":
            kinds = cast("Sequence[Any]", kind) if isinstance(kind, tuple) else (kind,)
            # whatever else float32 is in, bfloat16 is in
            return any(k == known or (type(k) is str and isdtype(float32, k)) for k in kinds)
        return cast(Any, np.isdtype)(known, kind)
    except (TypeError, ValueError) as cause:
        raise DtypeError(f"isdtype: {cause}") from cause


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether numbers of one dtype (or of an array) promote to another without loss of kind.

    >>> cr.can_cast(cr.float32, cr.float64), cr.can_cast(cr.float64, cr.int32)
    (True, False)
    """
    return np.can_cast(_dtype(from_), _dtype(to))


def result_type(*arrays_and_dtypes: Any) -> Dtype:
    """The dtype that an op on these arrays, dtypes and Python numbers gives.

    A Python number takes the dtype of the array that it meets. Raises `DtypeError` where there is
    none: for Python numbers alone.

    >>> cr.result_type(cr.float32, cr.int16), cr.result_type(cr.float32, cr.int64)
    (dtype('float32'), dtype('float64'))
    """
    known = [_dtype(x) for x in arrays_and_dtypes if not isinstance(x, int | float | complex)]
    if not known:
        raise DtypeError("result_type needs at least one array or dtype")
    plain = [x for x in arrays_and_dtypes if isinstance(x, int | float | complex)]
    brain = [d for d in known if d.kind == "V"]
    if not brain:
        return np.result_type(*known, *plain)
    # what a byte holds, and Python's real numbers, are bfloat16 beside it, which else is as float32
    others = [d for d in known if d.kind != "V" and d.itemsize > 1]
    if not others and not [x for x in plain if isinstance(x, complex)]:
        return brain[0]
    return np.result_type(float32, *others, *plain)


def alike(*arrays: Any) -> list[Any]:
    """`arrays` (or Python numbers) in the dtype that `result_type` gives."""
    dtype = result_type(*[getattr(x, "dtype", x) for x in arrays])
    return [np.asarray(x, dtype) for x in arrays]


def rounded_once(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` of arrays, computed in float32 where those are float16 or bfloat16, and rounded at last.

    So what takes several steps, or sums many terms, is as exact as one rounding allows.
    """

    @wraps(fn)
    def wrapper(*xs: Any) -> Any:
        for x in xs:
            if hasattr(x, "dtype") and x.dtype.char in NARROW:
                break
        else:
            return fn(*xs)
        typed = [x for x in xs if hasattr(x, "dtype")]
        y = fn(*[single(x) for x in xs])
        return y.astype(result_type(*[x.dtype for x in typed]), copy=False)

    return wrapper


def single(x: Any) -> Any:
    """`x`, in float32 if it is an array of float16 or bfloat16."""
    return x.astype(float32) if hasattr(x, "dtype") and x.dtype.char in NARROW else x


_NUMBERS: dict[str, Any] = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}


def number_of(x: Any) -> Any:
    """A Python number in place of a `Spec` that stands for one (`weak`), of its kind; else `x`."""
    return _NUMBERS[x.dtype.kind] if getattr(x, "weak", False) else x


def weakly(values: Sequence[Any], y: Any) -> Any:
    """`y`, rounded where NumPy took a Python number among `values` for more than a bfloat16.

    In NumPy such a number takes the dtype of the array that it meets, if that is one of NumPy's
    own. Beside a bfloat16 NumPy computes in float32 or float64, and what is left to do is to round.
    A whole number becomes a bfloat16 first: `x * 257` is `x * 256`; `x * 257.0` is rounded last.
    """
    for v in values:
        if not isinstance(v, int | float) and getattr(v, "dtype", float32).kind == "V":
            break
    else:
        return y
    known = [number_of(v) for v in values]
    typed = [v for v in known if hasattr(v, "dtype")]
    plain = [v for v in known if isinstance(v, int | float | complex) and not hasattr(v, "dtype")]
    want = result_type(*[v.dtype for v in typed], *plain)
    wider = getattr(y, "dtype", None) in (float32, float64)
    return y.astype(want) if wider and want.kind == "V" else y


@lru_cache(maxsize=4096, typed=True)
def beside(number: float, dtype: Dtype) -> Any:
    """What NumPy makes of a Python number, which is not 0, beside an array of `dtype`: of float32
    and float64 an array without axes, which it computes with twice as fast. (0 is left out, for
    -0.0 is equal to it.)"""
    if number.__class__ not in (int, float) or dtype.char not in "fd" or not -_FAR < number < _FAR:
        return number
    x = np.asarray(number, dtype)
    x.flags.writeable = False
    return x


_FAR = 1e38
"""Below it numbers of float32 do not overflow."""
