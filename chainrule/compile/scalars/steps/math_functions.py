"""Functions of `math`, `min` and `max`, as they are while a step is recorded."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import reduce
from threading import get_ident
from typing import Any

from chainrule.compile.scalars.formulas import LIBM
from chainrule.compile.scalars.ints.symbolic import SymbolicInt
from chainrule.compile.scalars.steps.numbers import Arithmetic, TracedNumber

_TO_INTS = ("ceil", "floor", "trunc")
_FUNCTIONS = {
    name: label for label, name in LIBM.items() if hasattr(math, name) and label not in _TO_INTS
}


def _chosen(nodes: Arithmetic, label: str, function: Any) -> Any:
    """`min` or `max` that computes which of several numbers it is, where that depends on data."""

    mine = get_ident()

    def choose(*xs: Any, **how: Any) -> Any:
        if how or get_ident() != mine:  # other threads find what they know
            return function(*xs, **how)
        given: list[Any] = list(xs) if len(xs) > 1 else list(*xs)
        if not any(type(x) is TracedNumber and x.source is None for x in given):
            return function(given)
        return reduce(one_of, given)

    def one_of(a: Any, b: Any) -> Any:
        return nodes.apply(label, function, a, b)

    return choose


@contextmanager
def functions_of_math(nodes: Arithmetic) -> Generator[None]:
    """Within it functions of `math`, `min` and `max` take such floats, too."""
    least, most = builtins.min, builtins.max
    before = {name: getattr(math, name) for name in _FUNCTIONS}

    def traced(name: str) -> Callable[..., Any]:
        compute = before[name]

        def function(*xs: Any) -> Any:
            if any(type(x) in (TracedNumber, SymbolicInt) for x in xs):
                return nodes.apply(_FUNCTIONS[name], compute, *xs)
            return compute(*xs)

        return function

    for name in before:
        setattr(math, name, traced(name))
    builtins.min, builtins.max = _chosen(nodes, "least", least), _chosen(nodes, "most", most)
    try:
        yield
    finally:
        builtins.min, builtins.max = least, most
        for name, function in before.items():
            setattr(math, name, function)
