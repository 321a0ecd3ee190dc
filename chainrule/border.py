"""The border of the public functions: what a wrong call is told, PyTorch's spellings included.

Inside, functions call each other without it: it costs a user's call a tenth of a microsecond.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import wraps
from importlib import import_module
from inspect import Parameter, isfunction, signature
from os.path import dirname
from types import CodeType
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

from chainrule.arguments import faults
from chainrule.errors import ChainruleError, DtypeError, describe, explain
from chainrule.provenance import is_inside

_P = ParamSpec("_P")
_R = TypeVar("_R")
_OF_ARRAYS = ("chainrule.ops.", "chainrule.creation", "chainrule.interop.standard")
"""Where functions of arrays are written."""


def border(
    f: Callable[_P, _R], name: str | None = None, *, arrays: bool = True, early: bool = False
) -> Callable[_P, _R]:
    """`f` as a public function, whose errors are ours and name it (as `name`) and an argument.

    A call that works is not looked at. When one fails, its arguments are compared with what the
    signature declares: so one mechanism answers a wrong name, a wrong number and a wrong kind of
    argument, of every function. What code of the user's raises is left as it is. `arrays`: whether
    what is declared `Any` is an array. `early`: look before the call, where a wrong argument would
    be noticed only later.
    """
    name = name or f.__name__

    @wraps(f)
    def bordered(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            if early:
                _check(f, name, arrays, args, kwargs)
            return f(*args, **kwargs)
        except Exception as cause:
            error = misuse(f, name, arrays, args, kwargs, cause)
            if error is None:
                raise
            raise error from cause

    _guarded.add(bordered)
    return bordered


_guarded: WeakSet[Any] = WeakSet()
"""The functions that have a border."""


def with_border(namespace: dict[str, Any]) -> None:
    """Put the border around the functions and classes that a module shows.

    They say that they are the module's: `pickle` looks for a function where it says it is.
    """
    for name, f in namespace.items():
        if not name.startswith("_"):
            namespace[name] = public(f, namespace["__name__"])


def public(f: Any, module: str) -> Any:
    """A function of ours with the border, as one of `module`'s; anything else as it is."""
    if isinstance(f, type) and f.__module__.startswith("chainrule"):
        _guard_class(f)
        return f
    if not (isfunction(f) and f.__module__.startswith("chainrule")) or f in _guarded:
        return f
    arrays = f.__module__.startswith(_OF_ARRAYS)
    shown = border(f, arrays=arrays, early=not arrays)
    shown.__module__ = module
    return shown


_HOT = ("forward", "update", "check", "step", "zero_grad")
"""Methods that are called in every step, with arguments that are not the user's."""


def _guard_class(cls: Any) -> None:
    """Put the border around what makes objects of a class, and around its methods, once."""
    if cls.__name__ == "Value" or issubclass(cls, Exception | tuple):
        return  # numbers are made in each step; what goes wrong there is told there
    arrays = cls.__name__ == "Tensor"
    for name, f in list(vars(cls).items()):
        if not isfunction(f) or f in _guarded or len(signature(f).parameters) < 2:
            continue
        if name == "__init__":
            setattr(cls, name, border(f, cls.__name__, arrays=arrays, early=not arrays))
        elif not name.startswith("_") and name not in _HOT:
            setattr(cls, name, border(f, arrays=arrays))


def _check(
    f: Callable[..., Any],
    name: str,
    arrays: bool,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> None:
    """Raise for the first argument that is not of its declared kind."""
    try:
        given = signature(f).bind(*args, **kwargs).arguments
    except TypeError:
        raise DtypeError(_unbound(f, name, args, kwargs)) from None
    fault = next(faults(f, given, arrays=arrays), None)
    if fault is not None:
        raise DtypeError(f"{name}: {fault[1]}{_instead(name, fault[0], given)}")


def misuse(
    f: Callable[..., Any],
    name: str,
    arrays: bool,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    cause: Exception,
) -> Exception | None:
    """The error for a call that failed because of its arguments; None if `cause` says it all."""
    try:
        given = signature(f).bind(*args, **kwargs).arguments
    except TypeError:
        return DtypeError(_unbound(f, name, args, kwargs))
    if not _raised_inside(cause):
        return None
    named = isinstance(cause, ChainruleError) and _names(cause, name)
    if named and cause.__cause__ is None:
        return None
    try:
        _check(f, name, arrays, args, kwargs)
    except DtypeError as error:
        return type(cause)(*error.args) if isinstance(cause, ChainruleError) else error
    if isinstance(cause, ChainruleError):
        return None if named else _renamed(cause, name)
    values = [x for k, x in given.items() if k != "self"]
    if isinstance(cause, AttributeError):
        plain = [k for k, x in given.items() if _lacks(x, cause.obj)]
        if plain:
            return DtypeError(
                f"{name} takes tensors and arrays, not {describe(cause.obj)} as {plain[0]}: use "
                "tensor(...)"
            )
    return explain(name, values, cause)


def _names(cause: ChainruleError, name: str) -> bool:
    """Whether the error begins with that name."""
    said = str(cause)
    return said.startswith(name) and not said[len(name) :][:1].isidentifier()


def _lacks(x: Any, plain: Any) -> bool:
    """Whether `plain` is `x` or an element of it, and no array."""
    inside = any(each is plain for each in x) if isinstance(x, list | tuple) else False
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


_PYTHON = ("<frozen", dirname(functools.__file__))


def _renamed(cause: ChainruleError, name: str) -> ChainruleError:
    """An error of a function that another, called `name`, has called: under that one's name."""
    head, _, rest = str(cause).partition(": ")
    error = copy(cause)
    error.args = (f"{name}: {rest if head.isidentifier() and rest else cause}",)
    return error


def _unbound(
    f: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """What to say of a call whose arguments do not fit the signature of `f`."""
    named = [p for p in signature(f).parameters.values() if p.name != "self"]
    places = [p for p in named if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    words = [p.name for p in named if p.kind is not p.POSITIONAL_ONLY]
    for word in kwargs:
        if word not in words:
            return f"{name} has no argument '{word}': {_respelled(word, [p.name for p in named])}"
    count = len(args) - ("self" in signature(f).parameters)
    if count > len(places) and not any(p.kind is p.VAR_POSITIONAL for p in named):
        settings = [f"{p.name}=" for p in named if p.kind is p.KEYWORD_ONLY]
        advice = "give the others by name: " + ", ".join(settings) if settings else "leave out the rest"
        shape = "shape" in [p.name for p in places[:1]] and all(isinstance(x, int) for x in args)
        if shape:
            advice = f"a shape is one argument, {tuple(args)}"
        taken = ", ".join(p.name for p in places) or "nothing"
        return f"{name} takes only {taken} by place; {advice}"
    twice = [p.name for p in places[:count] if p.name in kwargs]
    if twice:
        return f"{name} got its argument '{twice[0]}' twice, by place and by name"
    missing = [p.name for p in [*places[count:], *named] if p.name not in kwargs and _needed(p)]
    return f"{name} needs its argument '{missing[0]}': it takes {', '.join(p.name for p in named)}"


def _needed(p: Parameter) -> bool:
    return p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)


def _respelled(word: str, names: Sequence[str]) -> str:
    """What to write for an argument that a function with the arguments `names` lacks."""
    ours, hint = ARGUMENTS.get(word, ("", ""))
    if ours in names:
        return f"write {hint}"
    return LACKING.get(word, f"it takes {', '.join(names)}" if names else "it takes none")


def _instead(name: str, argument: str, given: Mapping[str, Any]) -> str:
    """What to write where a shape was given as several arguments."""
    first = next(iter(given), None)
    if argument != "dtype" or first != "shape" or not isinstance(given["dtype"], int):
        return ""
    return f"; a shape is one argument, as in {name}({(given['shape'], given['dtype'])})"


def wrong_arguments(op: Any, count: int, words: Iterable[str]) -> DtypeError:
    """The error for a call of an op, which takes arrays by place, with others."""
    word = next(iter(words), None)
    if word is None:
        arrays = "1 array" if op.takes == 1 else f"{op.takes} arrays"
        return DtypeError(f"{op} takes {arrays}, not {count}; nothing is written to an `out`")
    hint = LACKING.get(word, "it takes arrays, by place")
    return DtypeError(f"{op} has no argument '{word}': {hint}")


# --- PyTorch's spellings -------------------------------------------------------------------------

_NOWHERE = "leave it out: everything is on the CPU"
# fmt: off
METHODS: dict[str, str] = {
    "view": "x.reshape(shape)", "view_as": "x.reshape(y.shape)", "reshape_as": "x.reshape(y.shape)",
    "permute": "x.permute_dims(axes)", "t": "x.T", "swapdims": "x.swapaxes(axis1, axis2)",
    "movedim": "cr.moveaxis(x, source, destination)", "unsqueeze": "cr.expand_dims(x, axis)",
    "expand": "cr.broadcast_to(x, shape)", "expand_as": "cr.broadcast_to(x, y.shape)",
    "repeat": "cr.tile(x, counts)", "repeat_interleave": "cr.repeat(x, counts)",
    "unbind": "cr.unstack(x, axis=axis)", "clone": "x.copy()", "clamp": "x.clip(min, max)",
    "clamp_min": "x.clip(min)", "clamp_max": "x.clip(max=max)", "unique": "cr.unique_values(x)",
    "mm": "x @ w", "mv": "x @ w", "bmm": "x @ w", "amax": "x.max(axis)", "amin": "x.min(axis)",
    "eq": "x == y", "ne": "x != y", "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y",
    "true_divide": "x / y", "absolute": "cr.abs(x)", "inverse": "cr.linalg.inv(x)",
    "pinverse": "cr.linalg.pinv(x)", "vdot": "cr.vecdot(x, y)",
    "to": "x.astype(dtype)", "type": "x.astype(dtype)", "type_as": "x.astype(y.dtype)",
    "half": "x.astype(cr.float16)", "float": "x.astype(cr.float32)",
    "double": "x.astype(cr.float64)", "int": "x.astype(cr.int32)", "long": "x.astype(cr.int64)",
    "bool": "x.astype(cr.bool)", "bfloat16": "x.astype(cr.bfloat16)",
    "numel": "x.size", "nelement": "x.size", "dim": "x.ndim", "ndimension": "x.ndim",
    "element_size": "x.dtype.itemsize", "is_floating_point": "x.dtype.kind == 'f'",
    "is_complex": "x.dtype.kind == 'c'", "grad_fn": "x.node",
    "new_zeros": "cr.zeros(shape, x.dtype)", "new_ones": "cr.ones(shape, x.dtype)",
    "new_full": "cr.full(shape, value, x.dtype)", "new_tensor": "cr.tensor(data, x.dtype)",
    "zero_": "x = cr.zeros_like(x)", "fill_": "x = cr.full_like(x, value)", "copy_": "x = y.copy()",
}
"""What to write for a method of PyTorch's tensors; a test runs each."""
FUNCTIONS: dict[str, str] = {
    "cat": "cr.concat(xs, axis=axis)", "concatenate": "cr.concat(xs, axis=axis)",
    "array": "cr.tensor(data)", "as_tensor": "cr.asarray(data)", "from_numpy": "cr.asarray(data)",
    "transpose": "cr.swapaxes(x, axis1, axis2)",
    "rand": "cr.Generator(seed).uniform(shape)", "randn": "cr.Generator(seed).normal(shape)",
    "randint": "cr.Generator(seed).integers(low, high, shape)",
    "randperm": "cr.Generator(seed).permutation(n)",
    "float": "cr.float32", "double": "cr.float64", "half": "cr.float16", "int": "cr.int32",
    "long": "cr.int64", "arcsin": "cr.asin(x)", "arccos": "cr.acos(x)", "arctan": "cr.atan(x)",
    "arctan2": "cr.atan2(y, x)", "power": "cr.pow(x, y)",
}
"""What to write for a function of PyTorch's or NumPy's, besides those above; a test runs each."""
LEFT_OUT: dict[str, str] = {
    "cuda": _NOWHERE, "cpu": _NOWHERE, "mps": _NOWHERE, "xpu": _NOWHERE, "pin_memory": _NOWHERE,
    "is_cuda": "x.device is always 'cpu'", "get_device": "x.device is always 'cpu'",
    "contiguous": "leave it out: no result depends on how an array lies in memory",
    "is_contiguous": "leave it out: no result depends on how an array lies in memory",
}
"""What to do about those for which nothing is to be written."""
ARGUMENTS: dict[str, tuple[str, str]] = {
    "dim": ("axis", "axis="), "dims": ("axis", "axis="), "keepdim": ("keepdims", "keepdims="),
    "unbiased": ("correction", "correction=1 for unbiased=True, correction=0 for False"),
    "ddof": ("correction", "correction="),
    "input": ("x", "x="), "kernel_size": ("kernel", "kernel="), "num_groups": ("groups", "groups="),
    "negative_slope": ("slope", "slope="), "min_val": ("low", "low="), "max_val": ("high", "high="),
    "is_causal": (
        "causal", "causal=, which looks back from the last key; PyTorch's looks back from the first "
        "one, which differs where there are not as many queries as keys"
    ),
    "attn_mask": ("mask", "mask="), "p": ("ord", "ord="), "lambd": ("threshold", "threshold="),
    "end": ("stop", "stop="), "steps": ("num", "num="), "index": ("indices", "indices="),
    "src": ("source", "source="), "size": ("shape", "shape="), "other": ("b", "b="),
    "num_classes": ("classes", "classes="), "chunks": ("count", "count="),
    "maxnorm": ("limit", "limit="), "diagonal": ("k", "k="), "in_dims": ("in_axes", "in_axes="),
    "out_dims": ("out_axes", "out_axes="), "var": ("variance", "variance="),
    "normalized_shape": ("weight", "nothing: it is the last axis, and weight= has its shape"),
}
"""For an argument of PyTorch's (or NumPy's) functions: which it is here, and what to write."""
LACKING: dict[str, str] = {
    "inplace": "nothing is changed in place; use the result",
    "out": "nothing is changed in place; use the result",
    "requires_grad": "call requires_grad_() on the result",
    "rounding_mode": "write cr.floor_divide(a, b), or cr.trunc(a / b)",
    "alpha": "multiply first, as in a + alpha * b", "beta": "write cr.softplus(beta * x) / beta",
    "start_dim": "write cr.reshape(x, shape)", "end_dim": "write cr.reshape(x, shape)",
    "ceil_mode": "sizes are rounded down; pad first", "decimals": "write cr.round(x * 10**d) / 10**d",
    "dtype": "use astype(dtype)", "padding_idx": "multiply by a mask",
    "size_average": "write reduction=", "reduce": "write reduction=",
    "foreach": "leave it out", "fused": "leave it out: compile the step with cr.jit",
    "device_type": _NOWHERE, "device": _NOWHERE,
}
"""What to do about an argument of PyTorch's that has no counterpart."""
_PARTS = ("nn.functional", "linalg", "fft", "special", "nn", "optim", "explain")
"""Parts of the package in which a name may stand that was looked for in the package itself."""
# fmt: on


def no_attribute(x: Any, name: str) -> AttributeError:
    """The error for a method or attribute that a tensor lacks, with what to write if it is known.

    Known are PyTorch's spellings, and functions of ours that are no methods.
    """
    said = f"'{type(x).__name__}' object has no attribute '{name}'"
    hint = None if name.startswith("_") else _method(name)
    if hint is None:
        return AttributeError(said, name=name, obj=x)  # Python adds names that are similar
    return AttributeError(f"{said}: {hint}")


class Elsewhere:
    """What a class holds under a name that it lacks: asking for it raises, with what to write.

    A `__getattr__` would do the same for every name, and make each look at any attribute slower,
    those that are there included.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, x: Any, cls: type) -> Any:
        raise no_attribute(cls if x is None else x, self.name)


def put_elsewhere(cls: type, names: Iterable[str]) -> None:
    """Let `cls` say what to write for those of `names`, and for `name_`, that it does not have."""
    for name in [*METHODS, *LEFT_OUT, *names]:
        if name[0] == "_" or not name.isidentifier() or not name.islower():
            continue  # a module or a class
        for spelling in (name, f"{name}_"):
            if not hasattr(cls, spelling):
                setattr(cls, spelling, Elsewhere(spelling))


def no_function(name: str) -> AttributeError:
    """The error for a function that `chainrule` lacks, with what to write if it is known.

    Known are PyTorch's and NumPy's spellings, and what stands in a part of the package.
    """
    said = f"module 'chainrule' has no attribute '{name}'"
    hint = None if name.startswith("_") else _function(name)
    return AttributeError(f"{said}: {hint}" if hint else said)


def _function(name: str) -> str | None:
    if name in LEFT_OUT:
        return LEFT_OUT[name]
    for table in (FUNCTIONS, METHODS):
        if name in table:
            return f"write {table[name]}"
    for part in _PARTS:
        found = vars(import_module(f"chainrule.{part}")).get(name)
        if getattr(found, "__module__", "").startswith("chainrule"):
            return f"write cr.{part}.{name}"
    return None


def _method(name: str) -> str | None:
    if name in LEFT_OUT:
        return LEFT_OUT[name]
    if name in METHODS:
        return f"write {METHODS[name]}"
    for home, shown in (("chainrule", "cr"), ("chainrule.linalg", "cr.linalg")):
        if name in import_module(home).__all__:
            return f"it is a function: write {shown}.{name}(x, ...)"
    if name.endswith("_") and (there := _method(name[:-1])) is not None:
        return f"nothing is changed in place; {there}, and use the result"
    return None
