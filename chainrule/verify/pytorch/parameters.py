"""What the arguments of a function are called."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any


def argument_names(f: Callable[..., Any], count: int, skip: int = 0) -> tuple[str, ...]:
    """Names for `count` positional arguments of f after the first `skip`; "arg 0" if unknown.

    >>> argument_names(lambda ctx, x, *ws: x, 3, skip=1)
    ('x', 'ws[0]', 'ws[1]')
    """
    try:
        parameters = list(inspect.signature(f).parameters.values())[skip:]
    except (TypeError, ValueError):  # compiled: its documentation begins with a call of it
        said = re.match(r"\s*\w+\(([^()]*)\)", f.__doc__ or "")
        names = re.findall(r"(\w+)(?:=[^,]*)?(?:,|$)", said[1]) if said else []
        return _filled(names, count)
    names: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}[{i}]" for i in range(count - len(names))]
        elif p.kind is not p.VAR_KEYWORD:
            names.append(p.name)
    return _filled(names, count)


def _filled(names: list[str], count: int) -> tuple[str, ...]:
    return tuple([*names, *[f"arg {i}" for i in range(len(names), count)]][:count])
