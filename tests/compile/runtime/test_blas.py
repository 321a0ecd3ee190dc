"""BLAS is found in SciPy's wheel without an import, and by SciPy itself elsewhere."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.compile.runtime import libraries

FOUND: dict[str, Callable[[], Any]] = {"wheel": libraries._of_wheel, "scipy": libraries._of_scipy}


def multiplied(address: int, a: Any, b: Any) -> Any:
    """a @ b, float64, by the routine at `address`, which counts columns first."""
    n = len(a)
    gemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address)
    y, letter, size = np.full((n, n), np.nan), np.array([b"N"]), np.array([n], np.int32)
    one, zero = np.ones(1), np.zeros(1)
    given = (letter, letter, size, size, size, one, b, size, a, size, zero, y, size)
    gemm(*[x.ctypes.data for x in given])
    return y


@pytest.mark.parametrize("where", FOUND)
def test_a_routine_is_what_its_name_says(where: str):
    found = FOUND[where]()
    if found is None:
        pytest.skip("SciPy is not from a wheel here")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 37, 37))
    got = multiplied(found["chainrule_dgemm"], a, b)
    np.testing.assert_allclose(got, a @ b, rtol=0, atol=1e-12)


def test_scipy_that_is_no_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    import scipy

    monkeypatch.setattr(scipy, "__file__", str(tmp_path / "__init__.py"))
    assert libraries._of_wheel() is None


def test_a_wheel_is_not_imported():
    if libraries._of_wheel() is None:
        pytest.skip("SciPy is not from a wheel here")
    code = (
        "import sys; from chainrule.compile.runtime import libraries; libraries.link();"
        "print('scipy.linalg' in sys.modules);"
        "import scipy.linalg; print(scipy.linalg.cython_blas.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "scipy.linalg.cython_blas"]


def test_who_calls_it():
    assert libraries.is_called(b"..chainrule_dgemm..")
    assert not libraries.is_called(b"..chainrule_host..")
