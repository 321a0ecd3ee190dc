"""Packages that are loaded when they are first needed: the one place that loads them.

`import chainrule` needs NumPy, and `chainrule.scalar` not even that. `PACKAGES` names the others;
where one is missing, the error says what was asked, which package it needs, and what to install.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from chainrule.errors import MissingPackageError

PACKAGES: dict[str, tuple[str, str]] = {
    "numpy": ("NumPy", "numpy"),
    "scipy": ("SciPy", "scipy"),
    "llvmlite": ("llvmlite", "llvmlite"),
    "ml_dtypes": ("ml_dtypes", "ml_dtypes"),
    "rich": ("rich", "rich"),
    "safetensors": ("safetensors", "safetensors"),
    "sklearn": ("scikit-learn", "scikit-learn"),
    "torch": ("PyTorch", "torch"),
    "ray": ("Ray", "ray[train]"),
}
"""By the name that is imported: what a package is called, and what pip calls it."""


def require(module: str, wanted: str) -> Any:
    """The module; `wanted` is what needs it, in words that an error begins with.

    Raises `MissingPackageError` if it cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as cause:
        raise _missing(module, wanted, cause) from cause


@cache
def find(module: str) -> Any | None:
    """The module, None if it cannot be imported."""
    try:
        return import_module(module)
    except ImportError:
        return None


@cache
def is_installed(*packages: str) -> bool:
    """Whether all of these packages are there to be imported; it imports none."""
    try:
        return all(find_spec(name) is not None for name in packages)
    except ImportError:
        return False


def _missing(module: str, wanted: str, cause: ImportError) -> MissingPackageError:
    package = module.partition(".")[0]
    name, pip = PACKAGES.get(package, (package, package))
    absent = isinstance(cause, ModuleNotFoundError) and cause.name in (package, None)
    state = "which is not installed" if absent else f"which cannot be imported ({cause})"
    return MissingPackageError(f"{wanted} needs {name}, {state}: run `pip install {pip}`")
