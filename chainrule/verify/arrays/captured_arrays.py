"""Backwards that reach for the forward's arrays by themselves, past their parameters.

In a notebook `backward = lambda g: g * np.cos(x)` uses the `x` that stands in a cell above. At that
x it is right, but the verifier looks at other points, too: so such names are bound again, to what
the forward has been given there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any, cast

import numpy as np

from chainrule.verify.subject import Array
from chainrule.verify.user_code import function_of, name_of


@dataclass(frozen=True)
class Capture:
    """A name that a function uses, global or of its closure, which stands for value `index`."""

    name: str
    index: int


def captures(f: Any, values: Sequence[Any]) -> tuple[Capture, ...]:
    """The names by which the function `f` reaches arrays that are among `values`."""
    if not isinstance(f, FunctionType):
        return ()
    found: list[Capture] = []
    for name, x in _names_reached(f).items():
        if not isinstance(x, np.ndarray) or x.size < 2:
            continue
        for i, value in enumerate(values):
            if _is_same(x, value):
                found.append(Capture(name, i))
                break
    return tuple(found)


def _names_reached(f: FunctionType) -> dict[str, Any]:
    """What a function names of its globals, and its closure."""
    reached = {n: f.__globals__[n] for n in f.__code__.co_names if n in f.__globals__}
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            reached[name] = cell.cell_contents
        except ValueError:  # a name that has no value yet
            continue
    return reached


def sizes_in(f: Any) -> dict[str, int]:
    """Whole numbers that could be sizes: of what a function reaches by name, and what functions of
    its own file do that it calls."""
    inner = function_of(f)
    functions = [] if inner is None else [inner]
    found: dict[str, int] = {}
    for g in functions:
        for name, x in _names_reached(g).items():
            if type(x) is int and x > 1:
                found.setdefault(name, x)
            elif isinstance(x, FunctionType) and x.__globals__ is g.__globals__:
                functions += [] if x in functions else [x]
    return found


def sizes_outside(functions: Iterable[Callable[..., Any]]) -> Iterator[tuple[int, str]]:
    """Sizes that stand outside of functions which use them, and how these do: functions work for
    arrays of such sizes only."""
    for f in functions:
        for name, n in sizes_in(f).items():
            yield n, f"{name_of(f)} uses the size {name} = {n}, which stands outside of it"


def _is_same(x: Any, value: Any) -> bool:
    if x is value:
        return True
    if not isinstance(value, np.ndarray):
        return False
    array = cast("Array", value)
    return bool(x.dtype == array.dtype and np.array_equal(x, array))


def rebind(f: Callable[..., Any], known: Sequence[Capture], values: Sequence[Any]) -> Any:
    """`f` with the captured names standing for `values`; `f` itself if there are none."""
    inner = function_of(f)
    if not known or inner is None:
        return f
    new = {c.name: values[c.index] for c in known if c.index < len(values)}
    names = inner.__code__.co_freevars
    cells = zip(names, inner.__closure__ or (), strict=True)
    closure = tuple([CellType(new[n]) if n in new else cell for n, cell in cells])
    scope = {**inner.__globals__, **{n: x for n, x in new.items() if n not in names}}
    made = FunctionType(inner.__code__, scope, inner.__name__, inner.__defaults__, closure)
    made.__kwdefaults__ = inner.__kwdefaults__
    return made
