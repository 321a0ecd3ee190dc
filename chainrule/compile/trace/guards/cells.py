"""Cells: where the variables of enclosing functions lie, which a frame does not tell."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, final

from chainrule.compile.trace.guards.places import ABSENT

_DEPTH = 4
"""How many functions in functions are looked at."""


@final
class Cells:
    """The cells of functions, by their code."""

    def __init__(self) -> None:
        self._functions: dict[CodeType, list[Mapping[str, CellType]]] = {}
        self._searched: set[CodeType] = set()

    def learn(self, f: Any, depth: int = _DEPTH) -> None:
        """Remember the cells of a function that was there before the trace, and those of functions
        that it has in them."""
        if isinstance(f, MethodType):
            f = f.__func__
        elif isinstance(f, partial):
            f = f.func
        elif not isinstance(f, FunctionType | type):
            f = getattr(f, "__wrapped__", f)  # what `jit` and other decorators leave
        if not isinstance(f, FunctionType) or f.__closure__ is None:
            return
        cells = dict(zip(f.__code__.co_freevars, f.__closure__, strict=True))
        known = self._functions.setdefault(f.__code__, [])
        if any(all(cells[n] is m.get(n) for n in cells) for m in known):
            return
        known.append(cells)
        if depth:
            for cell in cells.values():
                self.learn(content(cell), depth - 1)

    def inherit(self, code: CodeType, cells: Mapping[str, CellType]) -> None:
        """A function of `code` is made where the enclosing function's cells are `cells`; others of
        its variables are the function's that is traced."""
        mine = {n: cells[n] for n in code.co_freevars if n in cells}
        self._functions.setdefault(code, []).append(mine)

    def of(self, code: CodeType, values: Mapping[str, Any] | None) -> Mapping[str, CellType]:
        """The cells of the function that runs `code`, in which the variables have these values.
        None stands for a class body, which runs once it is made."""
        if not code.co_freevars:
            return {}
        if values is None:
            return (self._functions.get(code) or [{}])[-1]
        found = self._fitting(code, values)
        if found is None and code not in self._searched:
            self._searched.add(code)
            for f in gc.get_referrers(code):
                self.learn(f, 0)
            found = self._fitting(code, values)
        return found or {}

    def _fitting(self, code: CodeType, values: Mapping[str, Any]) -> Mapping[str, CellType] | None:
        for cells in reversed(self._functions.get(code, [])):
            if all(content(c) is values.get(n, ABSENT) for n, c in cells.items()):
                return cells
        return None


def content(cell: CellType) -> Any:
    """What a cell holds, `ABSENT` if its name has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT
