"""Other names of SciPy's and PyTorch's for special functions that are here."""

from __future__ import annotations

from typing import Any

from chainrule.ops import elementwise as ew
from chainrule.ops.special import table as special


def expit(x: Any) -> Any:
    """SciPy's name for `sigmoid`.

    Shapes: (...) -> (...).
    """
    return ew.sigmoid(x)


def psi(x: Any) -> Any:
    """SciPy's and PyTorch's name for `digamma`.

    Shapes: (...) -> (...).
    """
    return special.digamma(x)


def gammaln(x: Any) -> Any:
    """SciPy's and PyTorch's name for `lgamma`.

    Shapes: (...) -> (...).
    """
    return special.lgamma(x)


def modified_bessel_i0(x: Any) -> Any:
    """PyTorch's name for `i0`.

    Shapes: (...) -> (...).
    """
    return special.i0(x)


def modified_bessel_i1(x: Any) -> Any:
    """PyTorch's name for `i1`.

    Shapes: (...) -> (...).
    """
    return special.i1(x)


def spherical_bessel_j0(x: Any) -> Any:
    """sin(x) / x, 1 at 0. DLMF 10.49.3.

    Shapes: (...) -> (...).
    """
    return special.spherical_jn(0, x)
