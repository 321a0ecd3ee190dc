"""Modules that have the name of another package's function: a call of one says what to write."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, NoReturn

from chainrule.errors import DtypeError

MODULE_CALLS: dict[str, str] = {"compile": "write cr.jit(f)"}
"""By the name of a module of `chainrule`, what to write for the function of that name."""


class _Module(ModuleType):
    """A module that is called by mistake."""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        hint = MODULE_CALLS[self.__name__.removeprefix("chainrule.")]
        raise DtypeError(f"{self.__name__} is a module and no function: {hint}")


def answer_calls(module: str) -> None:
    """Let a call of the module raise a `DtypeError` that says what to write."""
    sys.modules[module].__class__ = _Module
