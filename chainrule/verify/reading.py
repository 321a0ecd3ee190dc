"""Where the user's code stands, and its text: what a finding points to and a correction changes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any, cast

from chainrule.engine.source_text import class_file, definition
from chainrule.verify.place import Place
from chainrule.verify.subject import Source, Subject


def function_of(f: Any) -> FunctionType | None:
    """The Python function behind `f`: what decorators, partials, methods and objects call."""
    for _ in range(20):  # wrappers in wrappers; nobody has more
        if isinstance(f, FunctionType):
            return cast(FunctionType, inspect.unwrap(f))
        inner = _inside(f)
        if inner is None:
            return None
        f = inner
    return None


def _inside(f: Any) -> Any:
    """What the callable `f` calls in its turn; None if that is not Python code."""
    if isinstance(f, functools.partial):
        return cast("functools.partial[Any]", f).func
    if isinstance(f, staticmethod | classmethod) or inspect.ismethod(f):
        return cast(Any, f).__func__
    if hasattr(f, "__wrapped__"):
        return f.__wrapped__
    kind = type(cast(object, f))
    return None if isinstance(f, type) else getattr(kind, "__call__", None)  # noqa: B004


def place_of(f: Any) -> Place | None:
    """The first line of the function, method or class `f`; None if it has no Python code."""
    if isinstance(f, type):
        return _place_of_class(f)
    found = function_of(f)
    if found is None:
        return None
    code = found.__code__
    return Place(code.co_filename, code.co_firstlineno, found.__qualname__)


def _place_of_class(cls: type) -> Place | None:
    file, found = class_file(cls), definition(cls)
    return None if file is None or found is None else Place(file, found[1], cls.__qualname__)


def place_at(code: CodeType, line: int) -> Place:
    """A line within `code`."""
    return Place(code.co_filename, line, code.co_qualname)


def name_of(f: Any) -> str:
    """What the user calls `f`: its name, or that of its class."""
    if isinstance(f, functools.partial):
        return name_of(cast("functools.partial[Any]", f).func)
    owner = getattr(f, "__self__", None)
    if isinstance(owner, type):  # `Fn.apply` is Fn
        return owner.__name__
    name = getattr(f, "label", None) or getattr(f, "__name__", None)
    return str(name or type(f).__name__)


def source_of(f: Any, replaced: Callable[[Callable[..., Any]], Subject]) -> Source | None:
    """The text of the function `f` and what puts another one in its place; None if it has none."""
    found = function_of(f)
    if found is None or found.__name__ == "<lambda>":
        return None
    text = definition(found)
    if text is None:
        return None
    return Source(found.__code__.co_filename, text[1], "".join(text[0]), found, replaced)


def with_forward(
    backward: Source | None, f: Any, replaced: Callable[[Callable[..., Any]], Subject]
) -> Source | None:
    """The backward's source, the text of its forward `f` in it. Where both are one function, it is
    changed as a backward: the forward says what is right."""
    if backward is None:
        return None
    forward = source_of(f, replaced)
    if forward is not None and forward.function is backward.function:
        forward = replace(forward, replaced=backward.replaced, computed=replaced)
    return replace(backward, forward=forward)


def parameters_of(f: Any) -> tuple[inspect.Parameter, ...] | None:
    """The parameters of `f` as it is called; None if Python cannot tell."""
    try:
        return tuple(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return None


def argument_names(f: Any, count: int) -> tuple[str, ...]:
    """A name for each of `count` positional arguments of `f`, as its signature has them."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = parameters_of(f)
    if known is None:  # C code without a signature
        return ("x",) if count == 1 else tuple([f"x{i + 1}" for i in range(count)])
    names: list[str] = []
    rest = "args"
    for p in known:
        if p.kind in kinds:
            names.append(p.name)
        elif p.kind is inspect.Parameter.VAR_POSITIONAL:
            rest = p.name
    more = [f"{rest}[{i}]" for i in range(count - len(names))]
    return tuple([*names, *more][:count])
