"""Is an argument of the kind that its function declares, and what to say if it is not.

Signatures are the one statement of kinds: `axis: int | None`, `training: bool`, `x: Any`. They are
read when a call has failed (by `border`) or when an object is made; a call that works pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter
from operator import index
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

import numpy as np

from chainrule.engine.arrays import admit, admit_dtype
from chainrule.engine.misuse.argument_kinds import Array, Dtype, Kind, kinds, signature_of, words
from chainrule.errors import ChainruleError, describe, explain

_DEEPEST = 64
"""As many axes as an array of NumPy's can have."""


def fits(x: Any, kind: Kind) -> bool:
    """Whether `x` is of that kind. What cannot be decided counts as yes."""
    if kind is Any or (not isinstance(kind, type | UnionType) and get_origin(kind) is None):
        return True
    if type(kind) is UnionType or get_origin(kind) is Union:
        return any(fits(x, k) for k in get_args(kind))
    if get_origin(kind) is Literal:
        return isinstance(x, str | int) and x in get_args(kind)
    check = _CHECKS.get(kind)
    if check is not None:
        return check(x)
    origin = get_origin(kind)
    return isinstance(x, kind) if origin is None else _holds(x, origin, get_args(kind))


def _holds(x: Any, origin: Any, elements: Sequence[Kind]) -> bool:
    """Whether `x` is a collection of that kind, with such elements."""
    if origin is Callable:
        return callable(x)
    if issubclass(origin, np.ndarray):
        return isinstance(x, origin)
    if not issubclass(origin, Iterable):
        return isinstance(x, origin)
    if isinstance(x, str | bytes) or isinstance(x, Mapping) != issubclass(origin, Mapping):
        return False
    if issubclass(origin, Mapping):
        return True
    if origin is tuple and not isinstance(x, tuple | list):
        return False
    if origin is tuple and elements[1:] != (...,):  # each element has a kind of its own
        x = cast("Sequence[Any]", x)
        return len(x) == len(elements) and all(map(fits, x, elements))
    if not isinstance(x, Collection):
        return isinstance(x, Iterable) and not issubclass(origin, Sequence)
    return not elements or all(fits(each, elements[0]) for each in cast("Iterable[Any]", x))


def _is_integer(x: Any) -> bool:
    if isinstance(x, bool | np.bool_ | type):
        return False
    try:
        index(x)
    except Exception:  # an error that tensors have, too: its number may not be known yet
        return getattr(getattr(x, "dtype", None), "kind", "") in ("i", "u")
    return True


def _is_number(x: Any) -> bool:
    if isinstance(x, int | float | np.number | np.bool_):
        return not isinstance(x, np.complexfloating)
    return _has_numbers(x) and len(x.shape) == 0


def _is_complex(x: Any) -> bool:
    return isinstance(x, complex | np.complexfloating) or _is_number(x)


def _is_bool(x: Any) -> bool:
    return isinstance(x, bool | np.bool_) or (type(x) is int and x in (0, 1))


def _is_dtype(x: Any) -> bool:
    if x is None or isinstance(x, int | float | complex | list | tuple | dict | np.ndarray):
        return False
    return _names_dtype(x) and np.dtype(x).kind not in "OSUMm"


def _names_dtype(x: Any) -> bool:
    try:
        np.dtype(x)
    except Exception:
        return False
    return True


def _has_numbers(x: Any) -> bool:
    """Whether `x` is an array, a tensor or the like of numbers."""
    if isinstance(x, type) or not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return False
    return getattr(x.dtype, "kind", "f") not in ("O", "S", "U", "M", "m")


def _is_array(x: Any) -> bool:
    """Whether `x` can become an array of numbers; walked with a list, so that depth is no risk."""
    waiting: list[tuple[Any, int]] = [(x, 0)]
    while waiting:
        each, depth = waiting.pop()
        if isinstance(each, list | tuple):
            each = cast("Sequence[Any]", each)
            if depth == _DEEPEST:
                return False
            once = {id(one): one for one in each}  # a list that holds itself would not end
            waiting += [(one, depth + 1) for one in once.values()]
        elif not _is_element(each):
            return False
    return True


def _is_element(x: Any) -> bool:
    if isinstance(x, type | str | bytes | Mapping):
        return False
    if isinstance(x, int | float | complex | np.bool_) or _has_numbers(x):
        return True
    holders = ("__array__", "__dlpack__", "__array_interface__", "__buffer__")
    return not hasattr(x, "dtype") and (
        any(hasattr(x, name) for name in holders)
        or isinstance(x, memoryview | bytearray)
        or type(x).__module__.startswith("chainrule")
        or (hasattr(x, "__len__") and hasattr(x, "__getitem__"))
    )


_CHECKS: dict[Any, Callable[[Any], bool]] = {
    NoneType: lambda x: x is None,
    int: _is_integer,
    float: _is_number,
    complex: _is_complex,
    bool: _is_bool,
    str: lambda x: isinstance(x, str),
    Array: _is_array,
    Dtype: _is_dtype,
}


def explain_arrays(op: Any, xs: Sequence[Any], cause: Exception) -> Exception:
    """The error to raise when `op` failed on `xs`, which were to be arrays."""
    if op.of_user:
        return cause
    for x in xs:
        if not _is_array(x):
            return explain(op, xs, cause, f"{describe(x)} is no tensor, array or number")
        if isinstance(x, list | tuple) and _is_ragged(cast("Sequence[Any]", x)):
            return explain(op, xs, cause, f"the lists in {describe(x)} differ in length")
    return explain(op, xs, cause)


def _is_ragged(x: Sequence[Any]) -> bool:
    try:
        np.asarray(x, dtype=np.complex128)
    except (TypeError, ValueError):
        return True
    return False


def faults(
    f: Callable[..., Any], given: Mapping[str, Any], *, arrays: bool
) -> Iterator[tuple[str, str, bool]]:
    """Each argument that is not of its declared kind: its name, and the sentence about it. The bool
    says whether it is a word, but none of those that there are."""
    declared = kinds(f, arrays=arrays)
    parameters = signature_of(f).parameters
    for name, x in given.items():
        kind, p = declared[name], parameters[name]
        for each in _each(p, x):
            if each is not p.default and not fits(each, kind):
                word = isinstance(each, str) and get_origin(kind) is Literal
                is_not = repr(each) if word else f"{describe(each)}{_advice(each)}"
                said = f"{name} must be {words(kind)}, not {is_not}"
                yield name, _refusal(each, kind) or said, word
                break


def _refusal(x: Any, kind: Kind) -> str:
    """What the border for arrays says of a dtype or of an array that tensors do not have."""
    meant = get_args(kind) or (kind,)
    try:
        if Dtype in meant and _names_dtype(x):
            admit_dtype(x)
        elif Array in meant:
            admit(x)
    except ChainruleError as error:
        return str(error)
    return ""


def _each(p: Parameter, x: Any) -> Iterable[Any]:
    """The arguments that a parameter stands for."""
    if p.kind is Parameter.VAR_POSITIONAL:
        return x
    return x.values() if p.kind is Parameter.VAR_KEYWORD else (x,)


def _advice(x: Any) -> str:
    """What to do about an array that holds no numbers."""
    kind = getattr(getattr(x, "dtype", None), "kind", None)
    return "; convert it with astype first" if isinstance(kind, str) and kind in "OSUMm" else ""
