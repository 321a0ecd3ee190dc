"""SciPy's BLAS and LAPACK for machine code: where their routines are.

SciPy's wheels bring an OpenBLAS whose symbols begin with `scipy_`; what is linked to it finds them.
Elsewhere SciPy itself knows: `scipy.linalg.cython_blas` and `cython_lapack`, whose import takes
0.1 s.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from chainrule.compile.cpu.symbols import LAPACK, LETTERS, lapack
from chainrule.compile.runtime import linking
from chainrule.compile.runtime.threads import single
from chainrule.optional import require

_GEMM = {"chainrule_sgemm": "sgemm", "chainrule_dgemm": "dgemm"}
_LAPACK = {lapack(name, size): letter + name for name in LAPACK for size, letter in LETTERS.items()}
_ROUTINES = _GEMM | _LAPACK
_WANTED = "compiled code that multiplies large matrices"


def is_called(code: bytes) -> bool:
    """Whether an object file wants a routine of BLAS."""
    return any(symbol.encode() in code for symbol in _ROUTINES)


@cache
def link() -> None:
    """Let machine code find the routines."""
    linking.known.update(_of_wheel() or _of_scipy())


def _of_wheel() -> dict[str, int] | None:
    """The addresses of a wheel's routines; None if this is no wheel."""
    folder = Path(str(require("scipy", _WANTED).__file__)).parent / "linalg"
    paths = [folder / f"cython_blas{suffix}" for suffix in EXTENSION_SUFFIXES]
    path = next((str(p) for p in paths if p.exists()), None)
    if path is None:
        return None
    library = ctypes.CDLL(path)  # finds the symbols of what it is linked to, too
    found = {s: getattr(library, f"scipy_{name}_", None) for s, name in _ROUTINES.items()}
    if None in found.values():
        return None
    single(path)
    return {s: ctypes.cast(f, ctypes.c_void_p).value or 0 for s, f in found.items() if f}


def _of_scipy() -> dict[str, int]:
    """The addresses that SciPy gives to Cython."""
    blas, factors = (require(f"scipy.linalg.cython_{x}", _WANTED) for x in ("blas", "lapack"))
    single(str(blas.__file__))
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsules: dict[str, Any] = {s: blas.__pyx_capi__[name] for s, name in _GEMM.items()}
    capsules |= {s: factors.__pyx_capi__[name] for s, name in _LAPACK.items()}
    return {s: pointer(c, name_of(c)) for s, c in capsules.items()}
