"""Functions of the user's that a backward calls: the mistake may be in one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from chainrule.verify.repair.draft import UnreadableError, plain_function
from chainrule.verify.subject import Source, Subject

_MOST = 4


def helpers(source: Source) -> list[Source]:
    """Functions of the same file that the backward calls by their names, as sources: changed, they
    are changed for the backward only."""
    try:
        function = plain_function(source.function)
    except UnreadableError:
        return []
    return list(_called(source, function))[:_MOST]


def _called(source: Source, function: FunctionType) -> Iterator[Source]:
    for name in function.__code__.co_names:
        inner = function.__globals__.get(name)
        if not isinstance(inner, FunctionType) or inner is function:
            continue
        if inner.__code__.co_filename != function.__code__.co_filename:
            continue
        try:
            lines, first = inspect.getsourcelines(inner)
        except (OSError, TypeError):
            continue
        yield Source(source.file, first, "".join(lines), inner, _with(source, function, name))


def _with(
    source: Source, function: FunctionType, name: str
) -> Callable[[Callable[..., Any]], Subject]:
    """What puts another helper in place: the backward with globals of its own."""

    def replaced(helper: Callable[..., Any]) -> Subject:
        names = {**function.__globals__, name: helper}
        made = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, function.__closure__
        )
        made.__kwdefaults__ = function.__kwdefaults__
        made.__qualname__ = function.__qualname__
        return source.replaced(made)

    return replaced
