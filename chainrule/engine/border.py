"""The border of the public functions: what a wrong call is told.

Inside, functions call each other without it: it costs a user's call a tenth of a microsecond.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, wraps
from inspect import (
    CO_VARARGS,
    CO_VARKEYWORDS,
    isfunction,
    ismodule,
    unwrap,
)
from types import CodeType
from typing import Any, Literal, ParamSpec, TypeVar, cast
from weakref import WeakSet

from numpy.linalg import LinAlgError

from chainrule.engine.arguments import faults
from chainrule.engine.arrays import admit, is_native, passing
from chainrule.engine.misuse.argument_kinds import signature_of
from chainrule.engine.misuse.call_errors import instead, is_required, unbound
from chainrule.engine.misuse.foreign_arrays import report_caller
from chainrule.engine.misuse.number_arguments import numbers_as_arrays
from chainrule.engine.provenance import is_inside
from chainrule.errors import (
    ChainruleError,
    ConfigError,
    DtypeError,
    GradientError,
    NonFiniteError,
    TraceError,
    describe,
    explain,
)

_P = ParamSpec("_P")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])
When = Literal["failed", "before", "after"]
_OF_ARRAYS = (
    "chainrule.ops.",
    "chainrule.engine.creation",
    "chainrule.interop.standard",
    "chainrule.engine.tensors",
)
"""Where functions of arrays are written."""
_CONVERTING = ("chainrule.engine.tensors",)
"""Where functions are written that read the values of another library's arrays."""


@dataclass(frozen=True)
class Public:
    """A function that users call, and what its errors are to say."""

    f: Callable[..., Any]
    name: str
    arrays: bool = True
    """Whether what is declared `Any` is an array."""
    renames: bool = True
    """Whether what functions that it calls say of shapes and dtypes is said under its name."""

    @cached_property
    def wants(self) -> bool:
        """Whether it cannot be called without arguments."""
        return any(map(is_required, signature_of(self.f).parameters.values()))


def border(
    f: Callable[_P, _R],
    name: str | None = None,
    *,
    arrays: bool = True,
    admits: bool = True,
    renames: bool = True,
    when: When = "failed",
) -> Callable[_P, _R]:
    """`f` as a public function, whose errors are ours and name it (as `name`) and an argument.

    When a call fails, its arguments are compared with what the signature declares. So one mechanism
    answers a wrong name, number or kind of argument, for every function. What code of the user's
    raises is left as it is. Functions of arrays are checked when they have failed, so that right
    calls cost nothing. `when` checks every call, before or after it, where a wrong argument would
    be noticed only later. `admits`: it computes with arrays, so arrays of other libraries are
    refused; conversions, and functions that make tensors of arrays, read them.
    """
    public = Public(f, name or f.__name__, arrays, renames)

    @wraps(f)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if admits:
            for x in (*args, *kwargs.values()) if kwargs else args:
                if x.__class__ not in passing and not is_native(x):
                    args, kwargs = _admit_arguments(public.name, args, kwargs)
                    break
        try:
            if when == "before":
                _check(public, args, kwargs)
            y = f(*args, **kwargs)
            if when == "after":
                _check(public, args, kwargs)
            return y
        except Exception as cause:
            if arrays and (new := numbers_as_arrays(f, args, kwargs, cause)) is not None:
                return cast(Any, wrapper)(*new[0], **new[1])
            error = misuse(public, args, kwargs, cause)
            if error is None:
                raise
            raise error from cause

    _guarded.add(wrapper)
    return wrapper


def _admit_arguments(name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a call, arrays as chainrule computes with them."""
    try:
        return [admit(x) for x in args], {key: admit(x) for key, x in kwargs.items()}
    except ChainruleError as error:
        raise report_caller(error, name) from None


_guarded: WeakSet[Any] = WeakSet()
"""The functions that have a border."""


def without_border(f: _F) -> _F:
    """`f`, around which no border is put later: it answers wrong calls by itself."""
    _guarded.add(f)
    return f


def with_border(namespace: dict[str, Any]) -> None:
    """Put the border around the functions and classes that a module shows.

    Completions show these, and no helpers. They say that they are the module's: `pickle` looks for
    a function where it says it is.
    """
    for name, f in namespace.items():
        if not name.startswith("_"):
            namespace[name] = public(f, namespace["__name__"])
    shown = namespace.get("__all__") or [
        n for n, x in namespace.items() if not (n.startswith("_") or ismodule(x))
    ]
    if "__dir__" not in namespace:
        namespace["__dir__"] = lambda: sorted({*shown} - {"annotations"})


def public(f: Any, module: str) -> Any:
    """A function of ours with the border, as one of `module`'s; anything else as it is."""
    if isinstance(f, type) and f.__module__.startswith("chainrule"):
        _guard_class(f)
        return f
    if not (isfunction(f) and f.__module__.startswith("chainrule")) or f in _guarded:
        return f
    arrays = f.__module__.startswith(_OF_ARRAYS)
    when: When = "failed" if arrays else "before"
    admits = arrays and not f.__module__.startswith(_CONVERTING)
    shown = border(f, arrays=arrays, admits=admits, renames=arrays, when=when)
    shown.__module__ = module
    return shown


_HOT = ("forward", "update", "check", "step", "zero_grad")
"""Methods that are called in every step, with arguments that are not the user's."""


def _guard_class(cls: Any) -> None:
    """Put the border around what makes objects of a class, and around its methods, once."""
    if cls.__name__ == "Value" or issubclass(cls, Exception | tuple):
        return  # numbers are made in each step; what goes wrong there is told there
    arrays = cls.__name__ == "Tensor"
    members: dict[str, Any] = dict(cast(Any, vars(cls)))
    made = unwrap(cls.__init__)
    if isfunction(made) and made.__module__.startswith("chainrule"):
        members["__init__"] = made  # it may be that of several classes: told under each name
    for name, f in members.items():
        if not isfunction(f) or f in _guarded or not _takes_more(f):
            continue
        if name == "__init__":
            if f.__code__.co_filename != "<string>":  # else a dataclass has made it
                when: When = "failed" if arrays else "after"
                shown = border(f, cls.__name__, arrays=arrays, admits=False, when=when)
                setattr(cls, name, shown)
        elif not name.startswith("_") and name not in _HOT:
            # `backward` speaks of all ops, and makes tensors of the gradients it is given
            own = arrays and name != "backward"
            setattr(cls, name, border(f, arrays=arrays, admits=own, renames=own))


def _takes_more(f: Any) -> bool:
    """Whether a method takes anything beside its object. (`signature` takes long, for so many.)"""
    code: CodeType = unwrap(f).__code__
    stars = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + stars > 1


def _check(public: Public, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise for the first argument that is not of its declared kind."""
    f, name = public.f, public.name
    if not (args or kwargs or public.wants):
        return
    try:
        given = signature_of(f).bind(*args, **kwargs).arguments
    except TypeError:
        raise DtypeError(unbound(f, name, args, kwargs)) from None
    fault = next(faults(f, given, arrays=public.arrays), None)
    if fault is not None:
        argument, said, is_word = fault
        kind = ConfigError if is_word else DtypeError
        raise kind(f"{name}: {said}{instead(name, argument, given)}")


def misuse(
    public: Public, args: Sequence[Any], kwargs: Mapping[str, Any], cause: Exception
) -> Exception | None:
    """The error for a call that failed because of its arguments; None if `cause` says it all."""
    f, name = public.f, public.name
    try:
        given = signature_of(f).bind(*args, **kwargs).arguments
    except TypeError:
        return DtypeError(unbound(f, name, args, kwargs))
    ours = isinstance(cause, ChainruleError)
    named = ours and _names(cause, name)
    if not _raised_inside(cause) or (named and cause.__cause__ is None):
        return None
    try:
        _check(public, args, kwargs)
    except ChainruleError as error:
        return type(cause)(*error.args) if ours else error
    if isinstance(cause, ChainruleError):
        full = not public.renames and (public.arrays or _head(cause))  # it names what it is about
        return (
            None
            if named or full or isinstance(cause, _OF_VALUES)
            else _error_under_name(cause, name)
        )
    plain = [k for k, x in given.items() if _lacks(x, getattr(cause, "obj", given))]
    if isinstance(cause, AttributeError) and plain:
        said = f"{name} takes tensors and arrays, not {describe(cause.obj)} as {plain[0]}"
        return DtypeError(f"{said}: use tensor(...)")
    return explain(name, [x for k, x in given.items() if k != "self"], cause)


_OF_VALUES = (GradientError, NonFiniteError, TraceError, LinAlgError)
"""Errors of graphs and of numbers: they name the op, as in compiled code."""


def _names(cause: ChainruleError, name: str) -> bool:
    """Whether the error begins with that name."""
    said = str(cause)
    return said.startswith(name) and not said[len(name) :][:1].isidentifier()


def _lacks(x: Any, plain: Any) -> bool:
    """Whether `plain` is `x` or an element of it, and no array."""
    parts = cast("Sequence[Any]", x) if isinstance(x, list | tuple) else ()
    inside = any(each is plain for each in parts)
    return not hasattr(plain, "dtype") and (x is plain or inside)


def _raised_inside(cause: Exception) -> bool:
    """Whether no code but ours and that of what we call ran, from the border's call on."""
    at = cause.__traceback__
    while at is not None and _is_library(at.tb_frame.f_code):
        at = at.tb_next
    return at is None


def _is_library(code: CodeType) -> bool:
    """Whether this is code of ours, of NumPy's, of SciPy's or of Python's own library."""
    file = code.co_filename
    if is_inside(code) or ".pyx" in file or "scipy" in file:
        return True
    return file.startswith(_PYTHON) and "-packages" not in file


_PYTHON = ("<frozen", functools.__file__.removesuffix("functools.py"))


def _error_under_name(cause: ChainruleError, name: str) -> ChainruleError:
    """An error of a function that another, called `name`, has called: under that one's name."""
    error = copy(cause)
    error.args = (f"{name}: {str(cause).removeprefix(_head(cause))}",)
    return error


def _head(cause: ChainruleError) -> str:
    """The name that the error begins with, and its colon."""
    head, colon, rest = str(cause).partition(": ")
    return head + colon if head.isidentifier() and rest else ""
