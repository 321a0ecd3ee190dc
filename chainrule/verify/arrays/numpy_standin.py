"""NumPy for a forward that is followed: arrays that it makes to write into are tensors.

NumPy hands its functions on to tensors among their arguments, but `np.zeros(3)` has none, and what
is written into that array later is lost to the graph. So while a forward is followed, the module
that its code calls `np` is a stand-in, whose arrays record what is written into them. Whether it
computed the same is checked afterwards: views of one array, say, do not write into each other here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from chainrule.engine.graph import variable
from chainrule.engine.tensors import Tensor, holds_tensors
from chainrule.interop.numpy_rows import array
from chainrule.verify.own.derivation import Derivation, derivation
from chainrule.verify.subject import Array
from chainrule.verify.user_code import function_of

_MAKERS = ("zeros", "ones", "empty", "full", "eye")
_LISTS = ("array", "asarray", "asanyarray")
_TENSORS = ("tensor", "asarray")


class _Standin:
    """NumPy, but for the functions that make arrays."""

    def __getattr__(self, name: str) -> Any:
        if name in _MAKERS:
            return partial(_make_tensor, getattr(np, name))
        if name in _LISTS:
            return partial(_array_of_list, getattr(np, name))
        return getattr(np, name)


class _OwnStandin:
    """chainrule, but for the functions that make tensors: what is a tensor already stays in its
    graph, where a forward of a `Function` gives back what it has computed with NumPy."""

    def __getattr__(self, name: str) -> Any:
        made = getattr(_chainrule(), name)
        return partial(_keep_tensor, made) if name in _TENSORS else made


_STANDIN, _OWN = _Standin(), _OwnStandin()


def _chainrule() -> Any:
    return sys.modules["chainrule"]


def _keep_tensor(make: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    return x if isinstance(x, Tensor) else make(x, *args, **kwargs)


def _make_tensor(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A tensor of what NumPy makes, if it is of floats."""
    made = make(*args, **kwargs)
    return variable(made) if made.dtype.kind in "fc" else made


def _array_of_list(make: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """An array of a list, in the graphs of the tensors in it."""
    if isinstance(x, Tensor) or holds_tensors(x):
        return array(x)
    return make(x, *args, **kwargs)


@contextmanager
def _with_standins(scope: dict[str, Any]) -> Generator[None]:
    """Within it, the names in `scope` that stand for NumPy, or chainrule, stand for their
    stand-ins."""
    instead = {id(np): _STANDIN, id(_chainrule()): _OWN}
    instead |= {id(getattr(np, name)): getattr(_STANDIN, name) for name in (*_MAKERS, *_LISTS)}
    instead |= {id(getattr(_chainrule(), name)): getattr(_OWN, name) for name in _TENSORS}
    kept = {name: x for name, x in scope.items() if id(x) in instead}
    for name, x in kept.items():
        scope[name] = instead[id(x)]
    try:
        yield
    finally:
        scope.update(kept)


def follow(
    f: Callable[..., Sequence[Any]],
    xs: Sequence[Any],
    wanted: Sequence[bool],
    code: Iterable[Any],
    expected: Sequence[Array],
) -> Derivation | None:
    """The derivation of `f`, which runs the functions `code`; None if it cannot be followed.

    Or if, followed, it does not give what is `expected`.
    """
    functions = [function_of(c) for c in code]
    scopes = {id(c.__globals__): c.__globals__ for c in functions if c is not None}
    with ExitStack() as stack:
        for scope in scopes.values():
            stack.enter_context(_with_standins(scope))
        found = derivation(f, xs, wanted)
    return found if found is not None and _agrees(found, expected) else None


def _agrees(followed: Derivation, expected: Sequence[Array]) -> bool:
    """Whether the values that were followed are those of the forward, up to rounding."""
    if [y.shape for y in followed.values] != [y.shape for y in expected]:
        return False
    return all(
        bool(np.allclose(a, b, rtol=1e-3 if b.dtype.itemsize < 8 else 1e-9, equal_nan=True))
        for a, b in zip(followed.values, expected, strict=True)
    )
