"""The public names of the package, each of which is loaded when it is first asked for.

Where a name comes from is stated once, by the imports for type checkers in `__init__.py`. They are
read from that file's compiled form. What was asked for becomes an ordinary global of the package,
so that every further access is as fast as any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from opcode import EXTENDED_ARG, opmap
from types import CodeType
from typing import Any

from chainrule.optional import is_installed, require

LIGHT = (
    "chainrule.errors",
    "chainrule.ops.elementwise",
    "chainrule.scalar",
    "chainrule.version",
)
"""Modules that need no NumPy."""
_NEEDS = {"chainrule.compile.": "llvmlite", "chainrule.engine.dtypes.bfloat16": "ml_dtypes"}
"""Beginnings of the full names that another package must be installed for."""


@cache
def imports_of(module: str) -> dict[str, str]:
    """By name, the module of this package from which `module` imports it, for type checkers too."""
    loader: Any = getattr(find_spec(module), "loader", None)
    homes: dict[str, str] = {}
    home = name = ""
    for step, said in _steps(loader.get_code(module)):
        if step == "IMPORT_NAME":
            home, name = said, ""
        elif step == "IMPORT_FROM":
            name = said
        elif said == name and home.startswith("chainrule"):
            homes[name] = home
    return homes


def _steps(code: CodeType) -> Iterator[tuple[str, str]]:
    """The steps of imports, and the name in each; `dis` takes ten times as long."""
    known = {opmap[step]: step for step in ("IMPORT_NAME", "IMPORT_FROM", "STORE_NAME")}
    pairs = iter(code.co_code)
    place = 0
    for op, low in zip(pairs, pairs, strict=True):
        place = place << 8 | low
        if op == EXTENDED_ARG:
            continue
        if op in known:
            yield known[op], code.co_names[place]
        place = 0


def load(package: str, name: str) -> Any:
    """What the package shows under that name.

    Raises `KeyError` if it has none such, `MissingPackageError` if a package is to be installed.
    """
    home = imports_of(package)[name]
    if home in LIGHT:
        return getattr(import_module(home), name)
    require("numpy", f"{package}.{name}")
    import_module("chainrule.engine.tensors")  # what comes next is bound to its tensors
    if home == package:
        return import_module(f"{package}.{name}")
    found = getattr(import_module(home), name)
    return import_module("chainrule.engine.border").public(found, package)


def is_module(package: str, name: str) -> bool:
    """Whether a module of the package has that name."""
    if name.startswith("_"):
        return False
    return PathFinder.find_spec(f"{package}.{name}", sys.modules[package].__path__) is not None


def names(package: str) -> Sequence[str]:
    """All public names."""
    return sorted(imports_of(package))


def star(package: str) -> Sequence[str]:
    """What `from package import *` brings: what can be loaded with the packages installed here."""
    if not is_installed("numpy"):
        return [n for n in names(package) if imports_of(package)[n] in LIGHT]
    lacking = tuple([where for where, needed in _NEEDS.items() if not is_installed(needed)])
    return [n for n in names(package) if not f"{imports_of(package)[n]}.{n}".startswith(lacking)]
