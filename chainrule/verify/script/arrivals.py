"""Being told when a script imports a module, without importing it first.

A script that never imports torch must not pay for it, and one that does may set environment
variables before it does. So we wait at the door: a finder that is asked for the module steps
aside, lets the others find it, and calls back when its code has run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Arrival:
    """Calls `arrived` once, after the module `name` was imported; at once if it is there already.

    `arrived` must not raise. `leave` ends the waiting.
    """

    def __init__(self, name: str, arrived: Callable[[], None]) -> None:
        self._name = name
        self._arrived = arrived

    def wait(self) -> None:
        """Begin to wait."""
        if self._name in sys.modules:
            self._arrived()
        else:
            sys.meta_path.insert(0, self)

    def leave(self) -> None:
        """Wait no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the import system asks of a finder: where `fullname` is."""
        if fullname != self._name:
            return None
        self.leave()
        for finder in sys.meta_path:
            find: Any = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                self._listen(spec.loader)
                return spec
        return None

    def _listen(self, loader: Any) -> None:
        """Hear of the end of the module's code, from this one loader object."""
        if isinstance(loader, type) or not hasattr(loader, "exec_module"):
            return
        execute: Callable[[ModuleType], None] = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            self._arrived()

        loader.exec_module = exec_module
