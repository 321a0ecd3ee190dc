"""Which code is followed: the user's, and layers of this package; no engine, no library."""

from __future__ import annotations

import os
import sysconfig
from types import CodeType, ModuleType
from typing import Any

from chainrule.engine.provenance import HERE

_LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep
_LAYERS = ("nn", "models")
"""Modules of this package that are followed as the user's code is: layers with attributes."""
_CALLS = tuple([f"nn.base.{n}" for n in ("module", "hooks", "containers", "summaries")])
"""Those of them that are not: what calls layers, which counts calls as it does so."""
_ENGINES = ("numpy", "scipy", "llvmlite", "torch", "jax")
_followed: dict[str, bool] = {}


def is_followed(code: CodeType, names: dict[str, Any]) -> bool:
    """Whether code, whose global names are these, is followed: the user's, and layers of ours."""
    file = code.co_filename
    if file.startswith("<frozen "):  # Python itself
        return False
    if file[:1] == "<":  # made from text: by a dataclass, or typed by the user
        return not _is_engine(names.get("__name__") or "")
    known = _followed.get(file)
    if known is None:
        known = _followed[file] = _is_followed(file, names.get("__name__") or "")
    return known


def _is_engine(module: str) -> bool:
    """Whether a module is one of an engine: ours, or another one."""
    package, _, rest = module.partition(".")
    if package == "chainrule":
        return not rest.startswith(_LAYERS) or rest.startswith(_CALLS)
    return package in _ENGINES or package == "importlib"


def _is_followed(file: str, module: str) -> bool:
    if file.startswith(HERE) or "site-packages" in file or "dist-packages" in file:
        return not _is_engine(module)
    return not file.startswith(_LIBRARY)


def is_followed_file(module: ModuleType) -> bool:
    """Whether the code of a module is followed."""
    file = getattr(module, "__file__", None)
    return file is not None and _is_followed(file, module.__name__)
