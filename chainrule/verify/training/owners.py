"""Modules that have a parameter or a part, though the program did not call them."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any


def owners(values: Sequence[Any], part: str) -> list[Any]:
    """Modules that have some of the values among their `_parameters` or `_modules`.

    Args:
        values: Parameters or modules.
        part: `_parameters` or `_modules`.
    """
    tables: list[Any] = [r for r in gc.get_referrers(*values) if type(r) is dict]
    if not tables:
        return []
    some: list[Any] = gc.get_referrers(*tables)
    spaces: list[Any] = [r for r in some if type(r) is dict and _has(r, part, tables)]
    some += gc.get_referrers(*spaces) if spaces else []  # a `__dict__`, and whose it is
    found = [r for r in some if type(r) is not dict and _has(_space(r), part, tables)]
    return list({id(m): m for m in found}.values())


def _space(x: Any) -> Any:
    return getattr(x, "__dict__", {})


def _has(space: Any, part: str, tables: list[Any]) -> bool:
    return any(space.get(part) is table for table in tables)
