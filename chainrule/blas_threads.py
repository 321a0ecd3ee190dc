"""How many threads NumPy's matrix products use."""

from __future__ import annotations

import ctypes
import importlib
import os
from typing import Any

_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


def is_set_by_user() -> bool:
    """Whether the user has said in the environment how many."""
    return any(name in os.environ for name in _VARIABLES)


def set_threads(n: int) -> bool:
    """Let NumPy's OpenBLAS use `n` threads; False where NumPy has another library, or hides it."""
    try:
        module: Any = importlib.import_module("numpy._core._multiarray_umath")
        library = ctypes.CDLL(module.__file__)  # finds the symbols of what it is linked to, too
    except (ImportError, OSError):
        return False
    for name in _SETTERS:
        setter: Any = getattr(library, name, None)
        if setter is not None:
            setter(ctypes.c_int(n))
            return True
    return False
