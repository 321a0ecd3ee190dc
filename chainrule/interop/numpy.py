"""NumPy's protocols: `np.sin(t)`, `np.concatenate([t, u])`, `np.add.reduce(t)` run our ops.

So existing NumPy code is differentiable as it stands. What stands for what is said in
`numpy_table`; here is how a call gets there, and how one is refused that has no derivative.

The protocols: NEP 13 (`__array_ufunc__`) and NEP 18 (`__array_function__`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from chainrule.engine.arrays import admit, holds_numbers
from chainrule.engine.border import Public, misuse
from chainrule.engine.graph import Variable, variable
from chainrule.engine.op import Array, Spec
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import DtypeError, ForeignArrayError, GradientError, describe
from chainrule.interop.numpy_rows import A
from chainrule.interop.numpy_table import (
    ACCUMULATE,
    FUNCTIONS,
    REDUCE,
    SHAPES,
    SPECIAL,
    UFUNCS,
    VALUES,
)
from chainrule.ops.shapes.shaping import astype, reshape

Call = Callable[..., Any]

_NO_VALUE: Any = cast(Any, np)._NoValue
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "out": (None,),
    "where": (True,),
    "casting": ("same_kind",),
    "order": ("K", "C"),
    "subok": (True,),
    "dtype": (None,),
    "device": (None, "cpu"),
    "signature": (None,),
    "like": (None,),
}
"""Arguments that say nothing where they have one of these values."""
_INSTEAD = {
    "out": "a tensor is never written to, nor a gradient into an array: in place of a += b, which "
    "is np.add(a, b, out=a), use the result, as in a = np.add(a, b)",
    "where": "choose with np.where(condition, result, other) instead",
    "initial": "combine the result with the initial value afterwards",
}


_SEQUENCES = frozenset((list, tuple))


# --- Ufuncs --------------------------------------------------------------------------------------


def ufunc(fn: Any, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What `fn` (a ufunc), or one of its methods, gives on inputs of which one is a tensor.

    `reduce`, `accumulate` and `outer` work where they have a meaning with a derivative. Raises
    `DtypeError` for arguments that are not supported, `GradientError` for a ufunc without a
    derivative whose input needs one.
    """
    if not kwargs and method == "__call__" and _SEQUENCES.isdisjoint(map(type, inputs)):
        call = UFUNCS.get(fn)  # the way of nearly every call, kept short
        if call is not None:
            try:
                return call(*inputs)
            except ForeignArrayError as error:
                return _delegate(error, "__array_ufunc__", fn, method, *inputs)
    given = _without_defaults(kwargs)
    if "out" in given and _are_plain(given["out"], inputs):
        return _write_into(given["out"], fn, method, inputs, kwargs)
    dtype = given.pop("dtype", None)
    if method == "__call__":
        call = _rule(fn)
    elif method == "outer":
        call = _outer(fn)
    else:
        call = {"reduce": REDUCE, "accumulate": ACCUMULATE}.get(method, {}).get(fn)
    what = f"np.{fn.__name__}" + ("" if method == "__call__" else f".{method}")
    if call is None:
        return _without_rule(what, getattr(fn, method), inputs, kwargs)
    arrays: list[Any] = [A(x) if isinstance(x, list | tuple) else x for x in inputs]
    if dtype is not None:
        arrays = [astype(asarray(x), dtype) for x in arrays]
    return _call(what, call, arrays, given)


def _are_plain(outs: Any, inputs: Sequence[Any]) -> bool:
    """Whether values may be written into `outs`: NumPy's arrays, and no input has a gradient."""
    known = all(not x.requires_grad and type(x.value) is not Spec for x in _tensors(list(inputs)))
    return known and isinstance(outs, tuple) and set(map(type, cast(Any, outs))) == {np.ndarray}


def _write_into(
    outs: tuple[Array, ...], fn: Any, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """The values into NumPy's arrays `outs`, as in `a += t` of an array a; what `fn` returns."""
    rest = {name: x for name, x in kwargs.items() if name != "out"}
    found = ufunc(fn, method, inputs, rest)
    results: tuple[Any, ...] = cast(Any, found) if isinstance(found, tuple) else (found,)
    for out, y in zip(outs, results, strict=True):
        np.copyto(out, _plain(y), casting=kwargs.get("casting", "same_kind"))
    return outs if isinstance(found, tuple) else outs[0]


def _delegate(error: ForeignArrayError, protocol: str, *args: Any, **kwargs: Any) -> Any:
    """What the array of another library makes of a call by the same protocol; the error, if it has
    none or makes nothing of it."""
    method = getattr(error.array.__class__, protocol, None)
    found = NotImplemented if method is None else method(error.array, *args, **kwargs)
    if found is NotImplemented:
        raise error
    return found


def _rule(fn: Any) -> Call | None:
    return UFUNCS.get(fn) or SPECIAL.get(fn.__name__)


def _outer(fn: Any) -> Call | None:
    """`fn` on every pair of elements: axes of `b` after those of `a`."""
    rule = _rule(fn)
    if rule is None or fn.nin != 2 or fn.signature is not None:
        return None

    def outer(a: Any, b: Any) -> Any:
        a, b = asarray(a), asarray(b)
        return rule(reshape(a, (*a.shape, *[1] * b.ndim)), b)

    return outer


def takes_tensors(fn: Any) -> bool:
    """Whether `fn`, a function of NumPy's, works on tensors, also on those with a gradient."""
    if isinstance(fn, np.ufunc):
        return _rule(fn) is not None
    return fn in SHAPES or fn in VALUES or fn in FUNCTIONS


# --- Functions -----------------------------------------------------------------------------------


def function(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What `fn`, a function of NumPy's, gives on arguments among which there is a tensor.

    Raises `DtypeError` for arguments that are not supported, `GradientError` for a function without
    a derivative that is given a tensor which needs one.
    """
    what = f"{fn.__module__}.{fn.__name__}".replace("numpy", "np", 1)
    if fn in SHAPES:
        return fn(*_plain(list(args), _stand_in), **_plain(dict(kwargs), _stand_in))
    if fn in VALUES:
        return _on_values(fn, args, kwargs)
    call = FUNCTIONS.get(fn)
    if call is None:
        return _without_rule(what, fn, args, kwargs)
    try:
        return _call(what, call, args, _without_defaults(kwargs))
    except ForeignArrayError as error:
        types: Any = (Tensor, error.array.__class__)
        return _delegate(error, "__array_function__", fn, types, args, kwargs)


def _without_defaults(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that say something."""
    return {name: x for name, x in kwargs.items() if not _is_default(name, x)}


def _is_default(name: str, x: Any) -> bool:
    if name == "out" and isinstance(x, tuple):  # one for each output of a ufunc
        return all(out is None for out in cast(tuple[Any, ...], x))
    defaults = _DEFAULTS.get(name, ())
    return x is _NO_VALUE or any(x is d or (isinstance(x, str) and x == d) for d in defaults)


def _call(what: str, call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`call` on these arguments; an error that names the ones that it does not take."""
    try:
        return call(*args, **kwargs)
    except Exception as cause:
        try:
            inspect.signature(call).bind(*args, **kwargs)
        except TypeError:
            raise _unknown_arguments_error(what, call, args, kwargs) from cause
        error = misuse(Public(call, what), args, kwargs, cause)
        if error is None:
            raise
        raise error from cause


def _unknown_arguments_error(
    what: str, call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> DtypeError:
    takes = inspect.signature(call)
    extra = [name for name in kwargs if name not in takes.parameters]
    shown = ", ".join(describe(x) for x in args if isinstance(x, Variable | np.ndarray))
    reasons = [f"{name}=: {_INSTEAD[name]}" for name in extra if name in _INSTEAD]
    reason = "; ".join(reasons) or f"on tensors it takes {takes}"
    asked = f" with {', '.join(extra)}" if extra else ""
    return DtypeError(f"{what}({shown}){asked} is not supported: {reason}")


# --- Without a rule ------------------------------------------------------------------------------


def _without_rule(what: str, fn: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """NumPy's own result, as tensors, where no gradient is asked for; otherwise an error."""
    for x in _tensors([*args, *kwargs.values()]):
        if x.requires_grad or type(x.value) is Spec:
            raise GradientError(
                f"{what} has no derivative here, but is given {describe(x.value)} that requires a "
                "gradient: write it with functions that have one, or, if no gradient is to flow, "
                "call it on t.detach()"
            )
    if _without_defaults({"out": kwargs.get("out")}):
        raise DtypeError(f"{what}: out= is not supported: {_INSTEAD['out']}")
    return _on_values(fn, args, kwargs)


def _on_values(fn: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """NumPy's function on the values of the tensors; its arrays as tensors, outside any graph."""
    return _to_tensors(fn(*_plain(list(args)), **_plain(dict(kwargs))))


def _tensors(x: Any) -> list[Tensor]:
    """All tensors in nested lists, tuples and dicts."""
    if isinstance(x, Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(cast(dict[Any, Any], x).values())
    if isinstance(x, list | tuple):
        return [t for part in cast(Sequence[Any], x) for t in _tensors(part)]
    return []


def _plain(x: Any, array: Callable[[Tensor], Any] = lambda t: t.detach().numpy()) -> Any:
    """The same with arrays in place of tensors."""
    if isinstance(x, Tensor):
        return array(x)
    if isinstance(x, dict):
        return {k: _plain(v, array) for k, v in cast(dict[Any, Any], x).items()}
    if isinstance(x, list | tuple):
        parts = [_plain(part, array) for part in cast(Sequence[Any], x)]
        return parts if isinstance(x, list) else tuple(parts)
    return x


def _stand_in(x: Tensor) -> Any:
    """An array of the shape and dtype of a tensor whose numbers nobody reads: none is stored."""
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)


def _to_tensors(x: Any) -> Any:
    """The same with tensors in place of arrays of numbers."""
    if isinstance(x, np.ndarray | np.generic):
        array = np.asarray(cast(Any, x))
        return variable(admit(array)) if holds_numbers(array.dtype) else cast(Any, x)
    if isinstance(x, list | tuple):
        parts = [_to_tensors(part) for part in cast(Sequence[Any], x)]
        return parts if isinstance(x, list) else tuple(parts)
    return x
