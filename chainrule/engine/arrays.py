"""The border for arrays: what comes from outside becomes an array that ops compute with.

Every way in asks `admit`: arguments of functions, operators and compiled functions, arrays that a
traced function captures, `tensor` and `asarray`, assignments, NumPy's protocols. So inside are
arrays of NumPy's own class, in native byte order, of dtypes that tensors have, and nothing else.
`docs/conventions.md` has the kinds of arrays, one a row.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any, cast

import numpy as np

from chainrule.engine.dtypes import STANDARD, Dtype, float16
from chainrule.engine.misuse.foreign_arrays import (
    CLASSES,
    UNKNOWN,
    changes_meaning,
    describe_foreign,
    foreign,
    role_of,
    unreadable,
)
from chainrule.engine.op import kinds as kinds
from chainrule.errors import (
    DtypeError,
    ForeignArrayError,
    ShapeError,
)

Array = np.ndarray[Any, Dtype]

native: dict[Dtype, Dtype] = {d: d for d in (*STANDARD.values(), float16)}
"""The dtypes that tensors have, in native byte order; bfloat16 joins them when it is first met."""
_NUMBERS = frozenset({bool, int, float, complex})
passing: set[type] = {*_NUMBERS, str, type(None)}
"""Classes that `admit` need not look at: chainrule's own that speak NumPy's protocols, too."""

# fmt: off
_DEEPEST = 64
"""As many axes as an array of NumPy's can have."""
_HELD = "; a tensor holds numbers or bools, of up to 64 bits a part: write"
_DTYPES: dict[str, tuple[str, str]] = {
    "O": ("holds Python objects", "np.array(x.tolist(), dtype=np.float64)"),
    "S": ("holds bytes", "x.astype(np.float64) if they spell numbers"),
    "U": ("holds text", "x.astype(np.float64) if it spells numbers"),
    "T": ("holds text", "x.astype(np.float64) if it spells numbers"),
    "M": ("holds dates", "(x - x.min()) / np.timedelta64(1, 's') for seconds"),
    "m": ("holds durations", "x / np.timedelta64(1, 's') for seconds"),
    "f": ("has more than 64 bits", "x.astype(np.float64)"),
    "c": ("has parts of more than 64 bits", "x.astype(np.complex128)"),
}
"""By the kind of a dtype that tensors do not have: what it is, what to write."""
# fmt: on


# --- Dtypes --------------------------------------------------------------------------------------


def admit_dtype(dtype: Any, what: str = "a tensor") -> Dtype:
    """The dtype that `dtype` names, in native byte order.

    Raises `DtypeError` if it is none that tensors have; `what` would have had it.
    """
    try:
        found = np.dtype(dtype)
    except TypeError as cause:
        raise DtypeError(
            f"{what} cannot have {dtype!r}, which is not a dtype of NumPy's"
        ) from cause
    here = native.get(found) or _native(found)
    if here is None:
        reason, advice = _reason(found)
        raise DtypeError(f"{what} cannot have the dtype {found}, which {reason}{_HELD} {advice}")
    return here


def _native(dtype: Dtype) -> Dtype | None:
    """`dtype` in native byte order, None if tensors do not have it."""
    if dtype.name == "bfloat16":
        return native.setdefault(dtype, dtype)
    return native.get(dtype.newbyteorder("=")) if dtype.kind in "biufc" else None


def is_native(x: Any) -> bool:
    """Whether `x` is an array as `admit` returns it."""
    return x.__class__ is np.ndarray and x.dtype in native


def holds_numbers(dtype: Dtype) -> bool:
    """Whether tensors have `dtype`, in some byte order."""
    return dtype in native or _native(dtype) is not None


def _reason(dtype: Dtype) -> tuple[str, str]:
    """Why tensors do not have `dtype`, and what to write."""
    if dtype.names is not None:
        fields = [repr(name) for name in dtype.names]
        return "is structured", f"x[{fields[0]}] for one of its fields ({', '.join(fields)})"
    other = "is not a number of NumPy's", "x.astype(np.float32)"
    return _DTYPES.get(dtype.kind, other)


# --- Arrays --------------------------------------------------------------------------------------


def admit(x: Any, depth: int = 0) -> Any:
    """`x` as chainrule computes with it, where it is an array; all else as it is.

    An array of NumPy's own class and of native byte order is returned itself. Another byte order is
    converted. Subclasses that change no meaning (np.memmap) become views of NumPy's own class.
    Objects that only hold an array give that array. Lists and tuples are looked through; `x` is in
    `depth` of them.

    Raises `DtypeError` for dtypes that tensors do not have, and for subclasses that change the
    meaning of an array (masked arrays, np.matrix). Raises `ForeignArrayError` for arrays of other
    libraries.
    """
    kind: type = x.__class__
    if kind is np.ndarray:
        return x if x.dtype in native else _to_native(x)
    if kind in passing or kind in kinds:
        return x
    if kind is list or kind is tuple:
        return _same_or(x, admit, depth)
    if isinstance(x, np.ndarray):
        return admit(_plain(cast(Array, x)))
    if isinstance(x, np.generic):
        return _scalar(x)
    role = role_of(kind)
    if role == "own":
        raise foreign(x)
    return read(x) if role == "holder" else x


def admit_values(x: Any, depth: int = 0) -> Any:
    """`x` as a new tensor copies it: as `admit`, but arrays of other libraries pass."""
    if x.__class__ is list or x.__class__ is tuple:
        return _same_or(x, admit_values, depth)
    return admit(x) if _is_numpys(x) else x


def operand(x: Any) -> Any:
    """`x` as an op computes with it: an array, or a number.

    Raises as `admit`, and `ForeignArrayError` for what is neither.
    """
    x = admit(x)
    if x.__class__ in _NUMBERS or _is_numpys(x):
        return x
    try:
        array: Array = np.asarray(x)
    except ValueError as cause:
        raise ShapeError(" ".join(str(cause).split())) from cause
    except (TypeError, RuntimeError) as cause:
        raise ForeignArrayError(
            f"{describe_foreign(x)} cannot be read as an array: {cause}", x
        ) from cause
    if not holds_numbers(array.dtype):
        number = ": write float(x)" if hasattr(x, "__float__") else ""
        raise ForeignArrayError(
            f"{describe_foreign(x)} is neither an array nor a number{number}", x
        )
    return admit(array)


def read(x: Any) -> Array:
    """The array that an object of another class holds."""
    try:
        lent = hasattr(x, "__dlpack__") and not hasattr(x, "__array__")
        array = np.from_dlpack(x) if lent else np.asarray(x)
    except (TypeError, ValueError, RuntimeError, BufferError) as cause:
        raise unreadable(x, cause) from cause
    return admit(array)


def is_fixed(x: Array) -> bool:
    """Whether nobody can write to the memory of `x`, through another array either."""
    array: Any = x
    while type(array) is np.ndarray and not array.flags.writeable:
        if array.base is None:
            return True
        array = array.base
    return type(array) is bytes


def may_overlap_itself(x: Array) -> bool:
    """Whether two elements of `x` may be at one place, as in views by `as_strided`."""
    reach = x.itemsize
    for step, n in sorted((abs(s), n) for s, n in zip(x.strides, x.shape, strict=True) if n > 1):
        if step < reach:
            return x.size > 1
        reach = step * n
    return False


# --- Parts ---------------------------------------------------------------------------------------


def _to_native(x: Array) -> Array:
    dtype = _native(x.dtype)
    if dtype is None:
        reason, advice = _reason(x.dtype)
        raise DtypeError(f"an array of {x.dtype} {x.shape} {reason}{_HELD} {advice}")
    return x if x.dtype is dtype else x.astype(dtype)


def _is_numpys(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic)


def _scalar(x: Any) -> Any:
    if x.dtype in native or x.dtype.kind in "SU" or _native(x.dtype) is not None:
        return x
    reason, advice = _reason(x.dtype)
    raise DtypeError(f"{describe_foreign(x)} {reason}{_HELD} {advice}")


def _plain(x: Array) -> Array:
    """An array of a subclass as one of NumPy's own class, in the same memory."""
    if not changes_meaning(type(x)):
        return np.asarray(x)
    numpys = [c.__name__ for c in type(x).__mro__ if c.__module__.partition(".")[0] == "numpy"]
    known = [said for name, said in CLASSES.items() if name in numpys]
    reason, advice = known[0] if known else UNKNOWN
    raise DtypeError(f"{describe_foreign(x)}: {reason}; write {advice}")


def _same_or(x: Any, admitted: Callable[[Any, int], Any], depth: int) -> Any:
    """The list or tuple `x` with its parts admitted; itself, if they are what they were."""
    if depth == _DEEPEST:
        raise DtypeError(
            f"lists in more than {depth} lists: an array has no more axes than that; write them as "
            "flat lists, and be sure that none holds itself"
        )
    parts = [admitted(part, depth + 1) for part in x]
    if all(map(is_, x, parts)):
        return x
    return parts if x.__class__ is list else tuple(parts)
