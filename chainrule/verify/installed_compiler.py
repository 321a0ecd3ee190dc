"""The compiler, as far as there is one: without its packages no function can be compiled."""

from __future__ import annotations

import sys
from importlib import import_module
from types import CodeType
from typing import Any

from chainrule.optional import is_installed


def compiled_classes() -> list[Any]:
    """The classes of compiled functions; none where the compiler cannot be loaded."""
    return [import_module("chainrule.compile.jit").Jitted] if is_installed("llvmlite") else []


def loop_code() -> CodeType | None:
    """The code of the function that makes many calls one; None where it is not loaded."""
    many = sys.modules.get("chainrule.compile.runtime.call.many_calls")
    return None if many is None else many.call_many.__code__
