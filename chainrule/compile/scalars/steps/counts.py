"""Ints that a step changes: attributes, entries of dictionaries, variables of functions around it.

They are ints of a call beside its arguments: read before it, computed by the recorded conditions,
and written when the step is done.
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, cast, final

from chainrule.compile.scalars.reroll.containers import entry_of
from chainrule.engine.provenance import location


@final
@dataclass(frozen=True, eq=False, slots=True)
class Count:
    """The int that `holder` has by a name."""

    holder: Any
    name: Any

    @property
    def value(self) -> Any:
        """What is there now."""
        f = self.holder
        if not isinstance(f, FunctionType):
            return _names(f)[self.name]
        cell = _cells(f).get(self.name)
        if cell is not None:
            return cell.cell_contents
        names, key = entry_of(f, self.name)
        return names[key]

    def write(self, x: Any) -> None:
        """Let this be there."""
        f = self.holder
        if not isinstance(f, FunctionType):
            _names(f)[self.name] = x
        elif (cell := _cells(f).get(self.name)) is not None:
            cell.cell_contents = x
        else:
            names, key = entry_of(f, self.name)
            names[key] = x

    @property
    def entry(self) -> tuple[dict[Any, Any] | None, Any]:
        """The dictionary that has it, and the key there; None of a variable of an enclosing
        function."""
        f = self.holder
        if not isinstance(f, FunctionType):
            return _names(f), self.name
        return (None, self.name) if self.name in _cells(f) else entry_of(f, self.name)

    @property
    def cell(self) -> Any:
        """The cell that has it, if one does."""
        return _cells(self.holder).get(self.name) if isinstance(self.holder, FunctionType) else None


def can_count(holder: Any) -> bool:
    """Whether what a holder has by names can be written there."""
    return isinstance(holder, FunctionType) or type(_names(holder)) is dict


def _names(holder: Any) -> Any:
    return cast("Any", holder) if isinstance(holder, dict) else getattr(holder, "__dict__", None)


def _cells(f: FunctionType) -> dict[str, Any]:
    return dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))


_STORES = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "STORE_NAME")


def writing_line(functions: Sequence[FunctionType], name: Any) -> str:
    """`at file:line`, where one of the functions writes to that name or key; empty if none does."""
    for f in functions:
        at = _store(f.__code__, name)
        if at is not None:
            return f" at {location(f.__code__, at)}"
    return ""


def _store(code: CodeType, name: Any) -> int | None:
    keys: dict[int, bool] = {}
    short = name.rpartition(".")[2] if isinstance(name, str) else name
    line = 0
    for x in dis.get_instructions(code):
        line = x.starts_line or line if type(x.starts_line) is int else line
        if x.opname in _STORES and x.argval in (name, short):
            return x.offset
        if x.opname == "LOAD_CONST" and type(x.argval) is str and x.argval == name:
            keys[line] = True
        if x.opname == "STORE_SUBSCR" and line in keys:
            return x.offset
    return None
