"""Arrays of other classes: which of them mean something else, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from chainrule.errors import (
    ChainruleError,
    DtypeError,
    ForeignArrayError,
    GradientError,
    describe,
)

_BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
_REFLECTED = frozenset(f"__r{name}__" for name in _BINARY)
_UFUNCS = frozenset({"__array_ufunc__", "__array_function__", "__array_namespace__"})
_HOLDS = frozenset({"__array__", "__array_interface__", "__array_struct__", "__dlpack__"})
_OVERRIDDEN = frozenset(
    {
        *_REFLECTED,
        *_UFUNCS,
        *[f"__{name}__" for name in _BINARY],
        *("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"),
        *("__neg__", "__abs__", "sum", "prod", "mean", "std", "var", "max", "min", "dot"),
    }
)
"""What a subclass of NumPy's array overrides if its numbers mean something else."""
CLASSES: dict[str, tuple[str, str]] = {
    "MaskedArray": (
        "its mask would be lost",
        "x.filled(value) for numbers in the masked places, or np.asarray(x) and weights of 0 there",
    ),
    "matrix": ("its * and ** are matrix products", "np.asarray(x), and @ for a matrix product"),
}
"""Of NumPy's subclasses, by name (`np.ma` takes long to load): why refused, what to write."""
UNKNOWN = "its own arithmetic would be lost", "np.asarray(x) for the plain numbers"


def unreadable(x: Any, cause: Exception) -> Exception:
    """The error for an object of another class whose array cannot be had."""
    if getattr(x, "requires_grad", False):
        return GradientError(
            f"{describe_foreign(x)} requires a gradient in its own library, which would be lost "
            "here: write x.detach()"
        )
    return DtypeError(
        f"{describe_foreign(x)} cannot be read as an array: {' '.join(str(cause).split())}"
    )


def foreign(x: Any) -> ForeignArrayError:
    """The error for an array of a class with operators of its own."""
    return ForeignArrayError(
        f"{describe_foreign(x)} has operators of its own, which would be lost: write "
        "cr.asarray(x) for its values",
        x,
    )


def describe_foreign(x: Any) -> str:
    """The class of an array from outside, its dtype and shape."""
    kind = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if isinstance(shape, Iterable) and dtype is not None:
        return f"{kind} of {dtype} {tuple(cast(Any, shape))}"
    return describe(x)


@lru_cache(1 << 10)
def changes_meaning(cls: type) -> bool:
    """Whether a subclass of NumPy's array computes in a way of its own."""
    above = cls.__mro__[: cls.__mro__.index(np.ndarray)]
    return any(not _OVERRIDDEN.isdisjoint(vars(c)) for c in above)


@lru_cache(1 << 10)
def role_of(cls: type) -> str:
    """What a class is: "own", of arrays with operators of its own; "holder", of objects that only
    hold an array; "", any other."""
    names: set[str] = {name for c in cls.__mro__[:-1] for name in vars(c)}
    if not _UFUNCS.isdisjoint(names):
        return "own"
    if _HOLDS.isdisjoint(names):
        return ""
    listed = issubclass(cls, Sequence)  # array.array: there * repeats
    operators = _REFLECTED - {"__rmul__"} if listed else _REFLECTED
    return "holder" if operators.isdisjoint(names) else "own"


def report_caller(error: ChainruleError, what: Any) -> ChainruleError:
    """The error of the border, with the function or op that was given the array."""
    text = f"{what}: {error}"
    if isinstance(error, ForeignArrayError):
        return ForeignArrayError(text, error.array)
    return type(error)(text)
