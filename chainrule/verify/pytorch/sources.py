"""The code of a user's `Function`, and the same function with other code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from torch.autograd import Function

from chainrule.verify.reading import source_of
from chainrule.verify.subject import Source, Subject

_BASE = Function.__mro__[1]


def states(function: type[Function], method: str) -> bool:
    """Whether the user stated this method."""
    return getattr(function, method) is not getattr(_BASE, method)


def backward_of(function: type[Function]) -> str:
    """The name of the method that gives gradients; it may have either."""
    return "vjp" if states(function, "vjp") else "backward"


def saves_of(function: type[Function]) -> str:
    """The name of the method that keeps values for the backward."""
    return "setup_context" if states(function, "setup_context") else "forward"


def having(function: type[Function], method: str, f: Callable[..., Any]) -> type[Function]:
    """The same function with `f` as one of its methods."""
    return cast("Any", type(function.__name__, (function,), {method: staticmethod(f)}))


def source_of_function(
    function: type[Function], subject_of: Callable[[type[Function]], Subject]
) -> Source | None:
    """The code of its backward, and in it that of the method which saves; None if it has none.

    `subject_of` gives the subject of a function with other code.
    """
    backward = _source(function, backward_of(function), subject_of)
    if backward is None:
        return None
    saves = saves_of(function)
    computing = _source(function, "forward", subject_of) if saves != "forward" else None
    return replace(backward, forward=_source(function, saves, subject_of), computing=computing)


def _source(
    function: type[Function], method: str, subject_of: Callable[[type[Function]], Subject]
) -> Source | None:
    changed: Callable[[Callable[..., Any]], Subject] = lambda g: subject_of(
        having(function, method, g)
    )
    return source_of(getattr(function, method), changed)
