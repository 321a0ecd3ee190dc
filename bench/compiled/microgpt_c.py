"""microgpt by hand in C: compiled when it is asked for, called by ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.compiled.documents import BETAS, EPS, Run

SOURCE = Path(__file__).with_name("microgpt.c")
STRICT = ("-O3", "-march=native", "-std=gnu11", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
FAST = ("-O3", "-march=native", "-std=gnu11", "-fPIC", "-ffast-math")


def build(flags: tuple[str, ...]) -> Any:
    """The library, or None where there is no gcc or no AVX-512.

    Linked without the flags: linked with -ffast-math it would switch denormal numbers off for the
    whole process.
    """
    cpu = Path("/proc/cpuinfo")
    if (
        shutil.which("gcc") is None
        or not cpu.exists()
        or "avx512dq" not in cpu.read_text(encoding="utf-8")
    ):
        return None
    folder = Path(tempfile.mkdtemp())
    made, library = folder / "microgpt.o", folder / "microgpt.so"
    subprocess.run(["gcc", *flags, "-c", str(SOURCE), "-o", str(made)], check=True)
    subprocess.run(["gcc", "-shared", str(made), "-o", str(library), "-lm"], check=True)
    lib = ctypes.CDLL(str(library))
    lib.microgpt_step.restype = ctypes.c_float
    lib.microgpt_step.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_float]
    lib.microgpt_reset.argtypes = [ctypes.c_void_p] + [ctypes.c_float] * 3
    return lib


def reset(lib: Any, run: Run) -> None:
    weights = np.concatenate([x.ravel() for x in run.weights.values()])
    lib.microgpt_reset(weights.ctypes.data, *BETAS, EPS)


def by_step(lib: Any, run: Run) -> Callable[[], Any]:
    """The whole run, one call a step."""
    documents = [d.astype(np.int32) for d in run.documents]
    calls = [(d.ctypes.data, len(d) - 1, r) for d, r in zip(documents, run.rates, strict=True)]

    def go(keep: Any = documents) -> list[float]:
        return [lib.microgpt_step(*c) for c in calls]

    return go


def at_once(lib: Any, run: Run) -> Callable[[], Any]:
    """The whole run in one call."""
    lengths = np.array([len(d) for d in run.documents], np.int32)
    tokens = np.concatenate(run.documents).astype(np.int32)
    start = (np.cumsum(lengths) - lengths).astype(np.int32)
    read, rates = (lengths - 1).astype(np.int32), np.array(run.rates, np.float32)
    losses = np.zeros(len(lengths), np.float32)
    arrays = [ctypes.c_void_p(x.ctypes.data) for x in (tokens, start, read, rates)]

    def go(keep: Any = (tokens, start, read, rates)) -> Any:
        lib.microgpt_train(*arrays, len(lengths), ctypes.c_void_p(losses.ctypes.data))
        return losses.copy()

    return go
