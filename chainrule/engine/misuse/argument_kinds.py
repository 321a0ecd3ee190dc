"""The kinds of arguments: what a signature declares, and a kind in words.

In functions of arrays `Any` declares an array: a tensor, an array, a number, or nested lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from inspect import Parameter, Signature, signature
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

Kind = Any
"""An annotation: a class, a union, a generic alias, or `Array`."""


class Array:
    """The kind of whatever can become an array of numbers."""


class Dtype:
    """The kind of whatever names a dtype."""


_BY_NAME: Mapping[str, Kind] = {
    "dtype": Dtype,
    "axis": int | tuple[int, ...] | None,
    "axes": Any,
    "key": Any,
    "stream": Any,
    "device": str | None,
}
"""The kinds of arguments that are declared `Any` although they are no arrays."""


@cache
def kinds(f: Callable[..., Any], *, arrays: bool) -> dict[str, Kind]:
    """The declared kind of each parameter of `f`; `Any` where that is not known.

    With `arrays`, what is declared `Any` is an array, unless its name says otherwise.
    """
    space = {**_TYPING, **getattr(f, "__globals__", {})}
    found: dict[str, Kind] = {}
    for name, p in signature_of(f).parameters.items():
        kind = _resolve_annotation(p.annotation, space)
        if arrays:
            kind = _with_arrays(name, kind)
        if p.default is None and kind is not Any:
            kind = kind | None
        found[name] = kind
    return found


_TYPING: dict[str, Any] = {
    "Any": Any, "Callable": Callable, "Iterable": Iterable, "Sequence": Sequence,
    "Mapping": Mapping, "Literal": Literal,
}  # fmt: skip


def _resolve_annotation(annotation: Any, space: dict[str, Any]) -> Kind:
    """What an annotation means; `Any` if it names what is imported for type checkers alone."""
    if annotation is Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, space)
    except (NameError, TypeError, AttributeError):
        return Any


def _with_arrays(name: str, kind: Kind) -> Kind:
    """The kind of an argument of a function of arrays, for which `Any` means an array."""
    if kind is Any:
        return _BY_NAME.get(name, Array)
    if kind == Sequence[Any] and name != "widths":
        return Sequence[Array]
    return kind


_WORDS: dict[Any, str] = {
    NoneType: "None", int: "an integer", float: "a number", complex: "a number",
    bool: "True or False", str: "a string", Array: "a tensor, an array or a number",
    Dtype: "a dtype of numbers",
}  # fmt: skip
_CLASSES = {"Variable": "a tensor", "Tensor": "a tensor", "ndarray": "an array"}
_MANY: dict[Any, str] = {int: "integers", float: "numbers", Array: "tensors or arrays"}


def words(kind: Kind) -> str:
    """A kind in words.

    >>> words(int | tuple[int, ...] | None)
    'an integer, several integers or None'
    """
    if type(kind) is UnionType or get_origin(kind) is Union:
        return _either([words(k) for k in get_args(kind)])
    if get_origin(kind) is Literal:
        return _either([repr(k) for k in get_args(kind)])
    if kind in _WORDS:
        return _WORDS[kind]
    origin = get_origin(kind)
    if (named := getattr(origin or kind, "__name__", "")) in _CLASSES:
        return _CLASSES[named]
    if origin is None or not issubclass(origin, (Callable, Iterable)):
        return f"a {(origin or kind).__name__}"
    if origin is Callable:
        return "a function"
    if issubclass(origin, Mapping):
        return "a dict"
    elements = get_args(kind)
    return f"several {_MANY.get(elements[0] if elements else None, 'values')}"


def _either(parts: Sequence[str]) -> str:
    """The words, each once, joined by commas and "or"."""
    parts = list(dict.fromkeys(parts))
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


@cache
def signature_of(f: Callable[..., Any]) -> Signature:
    """The signature of a public function, looked up once."""
    return signature(f)
