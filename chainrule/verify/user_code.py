"""Where the user's code stands, and its text: what a finding points to and a correction changes."""

from __future__ import annotations

import functools
import inspect
import re
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
    """The line of the `def` of a function or method, the first one of a class; None if `f` has no
    Python code."""
    if isinstance(f, type):
        return _place_of_class(f)
    found = function_of(f)
    if found is None:
        return None
    code = found.__code__
    return Place(code.co_filename, _head(code), found.__qualname__)


@functools.lru_cache(maxsize=1024)
def _head(code: CodeType) -> int:
    """The line of the `def`, under decorators."""
    found = definition(code)
    lines, first = found or ([], code.co_firstlineno)
    heads = [i for i, text in enumerate(lines) if text.lstrip().startswith(("def ", "async def "))]
    return first + (heads[0] if heads else 0)


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


def text_of(f: Any) -> tuple[str, int] | None:
    """The text of the function `f` as it stands in its file, decorators included, and its first
    line; None if it has none."""
    found = definition(function_of(f)) if function_of(f) is not None else None
    return None if found is None else ("".join(found[0]), found[1])


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


MODEL_NAMES = ("model", "net", "network", "module", "m")
"""What people call the first parameter of a loss that runs the model itself."""


def required_names(f: Any) -> list[str] | None:
    """Names of the positional parameters of `f` without a default; None if Python cannot tell."""
    known = parameters_of(f)
    return None if known is None else [p.name for p in known if p.default is p.empty and p.kind < 2]


def argument_names(f: Any, count: int, skip: int = 0) -> tuple[str, ...]:
    """A name for each of `count` positional arguments of `f` after the first `skip`, as its
    signature has them, or the call with which its documentation begins.

    >>> argument_names(lambda ctx, x, *ws: x, 3, skip=1)
    ('x', 'ws[0]', 'ws[1]')
    """
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known, rest = parameters_of(f), "args"
    if known is None:
        said = re.match(r"\s*\w+\(([^()]*)\)", f.__doc__ or "")
        names = re.findall(r"(\w+)(?:=[^,]*)?(?:,|$)", said[1]) if said else []
    else:
        names = [p.name for p in known if p.kind in kinds][skip:]
        rest = next((p.name for p in known if p.kind is inspect.Parameter.VAR_POSITIONAL), rest)
    if not names and count == 1 and known is None:
        return ("x",)
    more = [f"{rest}[{i}]" for i in range(count - len(names))]
    return tuple([*names, *more][:count])
