"""Functions and methods of one, two and three axes, written once: their number is a parameter.

In a docstring `{n}` stands for the number, `{size}`, `{out}` and `{kernel}` for a letter per axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])


def by_dimension(make: Callable[[int], _F], dimensions: Iterable[int] = (1, 2, 3)) -> list[_F]:
    """`make(n)`, which defines a function `f` of n axes, for each n: called `f1d`, `f2d`, `f3d`."""
    return [_function_of(make(n), n) for n in dimensions]


def _function_of(f: _F, n: int) -> _F:
    made, name = cast(FunctionType, f), f"{f.__name__}{n}d"
    made.__name__ = made.__qualname__ = name
    made.__code__ = made.__code__.replace(co_name=name, co_qualname=name)  # a profiler tells them
    made.__doc__ = spelled(made.__doc__ or "", n)
    return f


def spelled(doc: str, n: int) -> str:
    """A docstring for n axes."""
    letters = {"size": "DHW"[3 - n :], "out": "PQR"[:n], "kernel": "IJK"[:n]}
    for word, each in letters.items():
        doc = doc.replace(f"{{{word}}}", ", ".join(each))
    return doc.replace("{n}", str(n))
