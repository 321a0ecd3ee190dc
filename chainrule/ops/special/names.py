"""Other names of SciPy's and PyTorch's for special functions that are here."""

from __future__ import annotations

from typing import Any

from chainrule.ops import elementwise as ew
from chainrule.ops.special import bessel
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
    return bessel.i0(x)


def modified_bessel_i1(x: Any) -> Any:
    """PyTorch's name for `i1`.

    Shapes: (...) -> (...).
    """
    return bessel.i1(x)


def spherical_bessel_j0(x: Any) -> Any:
    """sin(x) / x, 1 at 0. DLMF 10.49.3.

    Shapes: (...) -> (...).
    """
    return bessel.spherical_jn(0, x)


def bessel_j0(x: Any) -> Any:
    """PyTorch's name for `j0`.

    Shapes: (...) -> (...).
    """
    return bessel.j0(x)


def bessel_j1(x: Any) -> Any:
    """PyTorch's name for `j1`.

    Shapes: (...) -> (...).
    """
    return bessel.j1(x)


def bessel_y0(x: Any) -> Any:
    """PyTorch's name for `y0`.

    Shapes: (...) -> (...).
    """
    return bessel.y0(x)


def bessel_y1(x: Any) -> Any:
    """PyTorch's name for `y1`.

    Shapes: (...) -> (...).
    """
    return bessel.y1(x)


def modified_bessel_k0(x: Any) -> Any:
    """PyTorch's name for `k0`.

    Shapes: (...) -> (...).
    """
    return bessel.k0(x)


def modified_bessel_k1(x: Any) -> Any:
    """PyTorch's name for `k1`.

    Shapes: (...) -> (...).
    """
    return bessel.k1(x)


def scaled_modified_bessel_k0(x: Any) -> Any:
    """PyTorch's name for `k0e`.

    Shapes: (...) -> (...).
    """
    return bessel.k0e(x)


def scaled_modified_bessel_k1(x: Any) -> Any:
    """PyTorch's name for `k1e`.

    Shapes: (...) -> (...).
    """
    return bessel.k1e(x)
