"""How many threads NumPy's matrix products use. For the sizes that are trained here, one.

Waiting threads of OpenBLAS spin. With small matrices a second one gains nothing on an idle machine,
and where other programs want the cores it costs a multiple: `chainrule train` on two busy cores
took 22 s with one thread and 170 s with two. One thread also adds up in the same order everywhere.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from typing import Any

from chainrule.cli.settings import Settings

SMALL = 1 << 26
"""Multiplications of the largest product below which more than one thread does not pay."""

_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


def limit(settings: Settings) -> bool:
    """Use one thread if the model is small and the user has not chosen; whether it now does."""
    largest = settings.batch * settings.block_size * settings.n_embd * 4 * settings.n_embd
    if largest >= SMALL or any(name in os.environ for name in _VARIABLES):
        return False
    return set_threads(1)


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
