"""Code of the corpus as modules that were imported from files, so that its source can be found."""

from __future__ import annotations

import atexit
import importlib.util
import sys
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from .case import Call, Case, Right

_COUNT = count()


@cache
def folder() -> Path:
    """Where this process writes modules; removed when it ends."""
    made = tempfile.TemporaryDirectory(prefix="planted-")
    atexit.register(made.cleanup)
    return Path(made.name)


def module(name: str, source: str) -> ModuleType:
    """A module made from `source`, in a file of its own."""
    unique = f"{name.replace('/', '_').replace('-', '_')}_{next(_COUNT)}"
    path = folder() / f"{unique}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(unique, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[unique] = made
    spec.loader.exec_module(made)
    return made


def forget(made: ModuleType) -> None:
    """Take a module out of the interpreter's table."""
    sys.modules.pop(made.__name__, None)


def of_right(right: Right) -> ModuleType:
    """Right code, imported."""
    return module(right.name, right.source)


def of_case(case: Case) -> ModuleType:
    """Spoiled code, imported."""
    return module(case.id, case.source)


def layer(made: ModuleType, call: Call, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """A layer with its parameters, and what its forward is called with."""
    n = len(args) - len(call.params)
    return getattr(made, call.forward)(*args[n:]), args[:n]
