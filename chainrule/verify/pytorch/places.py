"""Where a function is defined, and its text."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any

from chainrule.engine.source_text import definition
from chainrule.verify.place import Place


def plainest(f: Any) -> Any:
    """The function under decorators and bindings: what the user wrote with `def`."""
    f = inspect.unwrap(f)
    while hasattr(f, "__func__"):
        f = inspect.unwrap(f.__func__)
    return f


def defined(f: Callable[..., Any]) -> Place | None:
    """The line of the `def` of f, None if f is not written in Python."""
    f = plainest(f)
    code = getattr(f, "__code__", None)
    return None if code is None else Place(code.co_filename, _head(code), f.__qualname__)


@functools.lru_cache(maxsize=1024)
def _head(code: CodeType) -> int:
    """The line of the `def`, under decorators."""
    found = definition(code)
    if found is None:
        return code.co_firstlineno
    lines, first = found
    heads = [i for i, text in enumerate(lines) if text.lstrip().startswith(("def ", "async def "))]
    return first + (heads[0] if heads else 0)


def source(f: Callable[..., Any]) -> tuple[str, int] | None:
    """The text of f as it stands in its file, decorators included, and its first line."""
    found = definition(plainest(f))
    if found is None:
        return None
    text = "".join(found[0])
    return (text, found[1]) if textwrap.dedent(text).lstrip("@").strip() else None
