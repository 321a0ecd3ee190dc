"""The border of the public functions: what a wrong call is told, PyTorch's spellings included.

Inside, functions call each other without it: it costs a user's call a tenth of a microsecond.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from inspect import isfunction, signature
from typing import Any, ParamSpec, TypeVar

from chainrule.arrays import admit, named, passing
from chainrule.errors import ChainruleError, DtypeError, describe, explain
from chainrule.provenance import is_inside

_P = ParamSpec("_P")
_R = TypeVar("_R")
_OURS = ("chainrule.ops.", "chainrule.creation", "chainrule.interop.standard")
"""Where functions of arrays are written."""


def border(f: Callable[_P, _R]) -> Callable[_P, _R]:
    """`f` as a public function, whose errors are ours: a list or a number where an array belongs is
    named as such, an unknown argument is answered with those that there are, or with what PyTorch's
    is called here. What code of the user's raises is left as it is."""

    @wraps(f)
    def bordered(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for x in args:
            if x.__class__ not in passing:
                args, kwargs = _admitted(f.__name__, args, kwargs)
                break
        else:
            for x in kwargs.values():
                if x.__class__ not in passing:
                    args, kwargs = _admitted(f.__name__, args, kwargs)
                    break
        try:
            return f(*args, **kwargs)
        except ChainruleError:
            raise
        except (AttributeError, TypeError, ValueError, OverflowError) as cause:
            error = _misuse(f, [*args, *kwargs.values()], cause)
            if error is None:
                raise
            raise error from cause

    return bordered


def _admitted(name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a call, arrays as chainrule computes with them."""
    try:
        return [admit(x) for x in args], {key: admit(x) for key, x in kwargs.items()}
    except ChainruleError as error:
        raise named(error, name) from None


def with_border(namespace: dict[str, Any]) -> None:
    """Put the border around the functions of ops that a module shows.

    They say that they are the module's: `pickle` looks for a function where it says it is.
    """
    for name, f in namespace.items():
        namespace[name] = public(f, namespace["__name__"])


def public(f: Any, module: str) -> Any:
    """A function of ops with the border, as one of `module`'s; anything else as it is."""
    if not (isfunction(f) and f.__module__.startswith(_OURS)):
        return f
    shown = border(f)
    shown.__module__ = module
    return shown


def _misuse(f: Callable[..., Any], given: Sequence[Any], cause: Exception) -> Exception | None:
    """The error for a call with an argument of the wrong kind; None if `cause` is another thing."""
    error = _respelled(f, str(cause)) or _by_place(f, str(cause))
    if error is not None or not _raised_inside(cause):
        return error
    if not isinstance(cause, AttributeError):
        return explain(f.__name__, given, cause)
    inside: list[Any] = [x for xs in given if type(xs) in (list, tuple) for x in xs]
    for x in [*given, *inside]:
        if f"'{type(x).__name__}' object" in str(cause) and not hasattr(x, "dtype"):
            return DtypeError(
                f"{f.__name__} takes tensors and arrays, not {describe(x)}: use tensor(...)"
            )
    return explain(f.__name__, given, TypeError(str(cause)))


def _raised_inside(cause: Exception) -> bool:
    """Whether no code but ours and NumPy's ran, from the border's call on."""
    at = cause.__traceback__
    while at is not None and is_inside(at.tb_frame.f_code):
        at = at.tb_next
    return at is None


def _respelled(f: Callable[..., Any], said: str) -> DtypeError | None:
    """The error for a call of `f` with an argument in another spelling, None if it is not that."""
    found = re.search(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'", said)
    if found is None or found[1] != f.__name__:
        return None
    names = [name for name in signature(f).parameters if name != "self"]
    ours, hint = ARGUMENTS.get(found[2], ("", ""))
    advice = f"write {hint}" if ours in names else f"it takes {', '.join(names)}"
    return DtypeError(f"{found[1]} has no argument '{found[2]}': {advice}")


def _by_place(f: Callable[..., Any], said: str) -> DtypeError | None:
    """The error for a call of `f` with more arguments than it takes by their place, None if it is
    not that."""
    found = re.search(r"(\w+)\(\) takes .*positional arguments? but \d+ (was|were) given", said)
    if found is None or found[1] != f.__name__:
        return None
    named = [p for p in signature(f).parameters.values() if p.name != "self"]
    settings = [f"{p.name}=" for p in named if p.kind is p.KEYWORD_ONLY]
    places = [p.name for p in named if p.kind is not p.KEYWORD_ONLY]
    advice = f"give the others by name: {', '.join(settings)}" if settings else "leave out the rest"
    return DtypeError(f"{f.__name__} takes only {', '.join(places)} by place; {advice}")


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
    "is_causal": ("causal", "causal="), "attn_mask": ("mask", "mask="),
    "normalized_shape": ("weight", "nothing: it is the last axis, and weight= has its shape"),
}
"""For an argument of PyTorch's (or NumPy's) functions: which it is here, and what to write."""
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
