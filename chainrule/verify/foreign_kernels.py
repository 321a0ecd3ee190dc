"""Kernels: code that is not Python, to which the user's code hands memory.

A library loaded by ctypes or cffi, a compiled extension, a `kernel[grid](x, out, n)` of Triton's
kind. They read and write what they are told to and check nothing. So code around them is not
changed to see what happens, and is not run in other dtypes than it is made for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, cast

from chainrule.verify.user_code import function_of
from chainrule.verify.user_frames import is_library

_ADDRESSES = frozenset(
    ["data_ptr", "ctypes", "data_as", "byref", "from_address", "__cuda_array_interface__"]
)
"""Names by which code asks where an array lies."""
_CALLERS = ("ctypes", "_ctypes", "_cffi_backend", "cupy", "triton", "numba", "pycuda")
"""Modules of what calls kernels."""
_CHECKED = ("numpy", "torch", "scipy", "chainrule", "ml_dtypes", "llvmlite")
"""Libraries with compiled parts that check what they are given."""
_MOST = 64
"""Functions that are read."""


def kernels_in(functions: Iterable[Callable[..., Any]]) -> list[str]:
    """What of such code some functions, and the user's functions that these call, use: in words."""
    waiting = [f for f in map(function_of, functions) if f is not None]
    read, found = dict[CodeType, None](), list[str]()
    while waiting and len(read) < _MOST:
        f = waiting.pop(0)
        if f.__code__ in read:
            continue
        read[f.__code__] = None
        names = set(_names(f.__code__))
        found += [f"`{f.__qualname__}` asks for `{n}`" for n in sorted(names & _ADDRESSES)]
        for name, value in _reached(f, names):
            if _is_kernel(value):
                found.append(f"`{f.__qualname__}` uses `{name}`")
            waiting += [g for g in _functions(value, names) if not is_library(_file(g))]
    return list(dict.fromkeys(found))


def _file(f: FunctionType) -> str:
    return f.__code__.co_filename


def _names(code: CodeType) -> Iterator[str]:
    """Names that a function uses, those of functions inside of it included."""
    yield from (*code.co_names, *code.co_freevars)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _reached(f: FunctionType, names: set[str]) -> Iterator[tuple[str, Any]]:
    """What these names stand for outside of a function, and the class that it is a method of."""
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a name that has no value yet
            continue
    owner = f.__qualname__.split(".")[0]
    for name in sorted({*names, owner}):
        if name in f.__globals__:
            yield name, f.__globals__[name]


def _functions(value: Any, names: set[str]) -> Iterator[FunctionType]:
    """The Python functions that a value is, or has under one of some names."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, type | ModuleType):
        for name in sorted(names & vars(value).keys()):
            inner = getattr(vars(value)[name], "__func__", vars(value)[name])
            yield from [inner] if isinstance(inner, FunctionType) else []


def _is_kernel(value: Any) -> bool:
    """Whether calling a value, or something in it, hands memory to what is not Python."""
    if isinstance(value, BuiltinFunctionType):
        return _is_extension(sys.modules.get(value.__module__ or ""))
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in _CALLERS or _is_extension(value)
    if isinstance(value, type | FunctionType):
        return False
    cls = cast("type[object]", type(value))
    made_by = {c.__module__.partition(".")[0] for c in cls.__mro__}
    return bool(made_by & set(_CALLERS)) or _is_launched(cls)


def _is_extension(module: ModuleType | None) -> bool:
    root = "" if module is None else module.__name__.partition(".")[0]
    file = getattr(module, "__file__", None) or ""
    known = root in _CHECKED or root in sys.stdlib_module_names
    return not known and file.endswith(tuple(EXTENSION_SUFFIXES))


def _is_launched(cls: type[object]) -> bool:
    """Whether an item of an object of a class is what is called, and it is no container:
    `kernel[grid](x, out, n)`."""
    container = any(hasattr(cls, name) for name in ("__len__", "__iter__", "__contains__"))
    checked = cls.__module__.partition(".")[0] in _CHECKED
    return hasattr(cls, "__getitem__") and not container and not checked
