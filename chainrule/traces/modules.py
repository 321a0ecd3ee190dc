"""Which module runs now: noted at each of its calls, in the thread that records."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import final

from chainrule.nn.base.module import Module


@final
class RunningModules:
    """The modules whose calls are running, the innermost last.

    A module is called as in `named_modules` of the outermost one, which itself goes by its class.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._names: dict[int, str] = {}
        self._stack: list[str] = []

    @property
    def innermost(self) -> str:
        """Its name; empty where none runs."""
        return self._stack[-1] if self._stack else ""

    @contextmanager
    def during(self, module: Module) -> Generator[None]:
        """A call of `module`."""
        if threading.get_ident() != self._thread:
            yield
            return
        if not self._stack:
            kind = type(module).__name__
            self._names = {id(m): name or kind for name, m in module.named_modules()}
        self._stack.append(self._names.get(id(module), type(module).__name__))
        try:
            yield
        finally:
            self._stack.pop()
