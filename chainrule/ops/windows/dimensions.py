"""Functions and classes for one, two and three axes, written once: their number is a parameter.

In a docstring `{n}` stands for the number, `{size}`, `{out}` and `{kernel}` for a letter per axis,
`{name}` for the function and `{6s}` for a 6 per axis (two for `ANY`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from inspect import cleandoc
from types import FunctionType
from typing import Any, TypeVar, cast

from chainrule.errors import ShapeError

_F = TypeVar("_F", bound=Callable[..., Any])
ANY = 0
"""In place of a number of axes: there may be as many as x has."""


def by_dimension(
    name: str, make: Callable[[int], _F], dimensions: Iterable[int] = (1, 2, 3)
) -> list[_F]:
    """The functions that `make(n)` defines, for each n: called `name1d`, or `name` for `ANY`."""
    return [_called(f"{name}{n}d" if n else name, make(n), n) for n in dimensions]


def _called(name: str, f: _F, n: int) -> _F:
    function = cast(FunctionType, f)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = spelled(function.__doc__ or "", n).replace("{name}", name)
    # each has its code to itself: profilers tell functions apart by it
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    return f


def spelled(doc: str, n: int) -> str:
    """A docstring for n axes."""
    doc = cleandoc(doc)
    for word, letters in {"size": "DHW"[3 - n :], "out": "PQR"[:n], "kernel": "IJK"[:n]}.items():
        doc = doc.replace(f"{{{word}}}", ", ".join(letters) if n else f"*{word[0]}")
    doc = re.sub(r"\{(\d+)s\}", lambda digits: ", ".join([digits[1]] * (n or 2)), doc)
    return doc.replace("{n}", str(n) if n else "any number of")


def check_axes(what: str, x: Any, ndim: int) -> None:
    """Raise unless x is (N, C, *size) with `ndim` sizes, or at least one for `ANY`."""
    if x.ndim != ndim + 2 if ndim else x.ndim < 3:
        size = ", ".join("DHW"[3 - ndim :]) if ndim else "*size"
        raise ShapeError(f"{what}: x is (N, C, {size}), not {tuple(x.shape)}")
