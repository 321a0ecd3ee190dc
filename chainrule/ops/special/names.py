"""Other names of SciPy's and PyTorch's for special functions that are here."""

from __future__ import annotations

from typing import Any

from chainrule.ops import elementwise as ew
from chainrule.ops.special import bessel
from chainrule.ops.special import table as special


def expit(x: Any) -> Any:
    """SciPy's name for `sigmoid`.

    Shapes: (...) -> (...).

    >>> cr.special.expit(cr.tensor([0.0, 1.0]))
    tensor([0.5      , 0.7310586], dtype=float32)
    """
    return ew.sigmoid(x)


def psi(x: Any) -> Any:
    """SciPy's and PyTorch's name for `digamma`.

    Shapes: (...) -> (...).

    >>> cr.special.psi(cr.tensor([1.0, 2.0]))
    tensor([-0.5772157 ,  0.42278433], dtype=float32)
    """
    return special.digamma(x)


def gammaln(x: Any) -> Any:
    """SciPy's and PyTorch's name for `lgamma`.

    Shapes: (...) -> (...).

    >>> cr.special.gammaln(cr.tensor([1.0, 5.0]))
    tensor([0.       , 3.1780539], dtype=float32)
    """
    return special.lgamma(x)


def modified_bessel_i0(x: Any) -> Any:
    """PyTorch's name for `i0`.

    Shapes: (...) -> (...).

    >>> cr.special.modified_bessel_i0(cr.tensor([0.0, 1.0]))
    tensor([1.       , 1.2660658], dtype=float32)
    """
    return bessel.i0(x)


def modified_bessel_i1(x: Any) -> Any:
    """PyTorch's name for `i1`.

    Shapes: (...) -> (...).

    >>> cr.special.modified_bessel_i1(cr.tensor([0.0, 1.0]))
    tensor([0.       , 0.5651591], dtype=float32)
    """
    return bessel.i1(x)


def spherical_bessel_j0(x: Any) -> Any:
    """sin(x) / x, 1 at 0. DLMF 10.49.3.

    Shapes: (...) -> (...).

    >>> cr.special.spherical_bessel_j0(cr.tensor([0.0, 1.0]))
    tensor([1.        , 0.84147096], dtype=float32)
    """
    return bessel.spherical_jn(0, x)


def bessel_j0(x: Any) -> Any:
    """PyTorch's name for `j0`.

    Shapes: (...) -> (...).

    >>> cr.special.bessel_j0(cr.tensor([0.0, 1.0]))
    tensor([1.       , 0.7651977], dtype=float32)
    """
    return bessel.j0(x)


def bessel_j1(x: Any) -> Any:
    """PyTorch's name for `j1`.

    Shapes: (...) -> (...).

    >>> cr.special.bessel_j1(cr.tensor([0.0, 1.0]))
    tensor([0.        , 0.44005057], dtype=float32)
    """
    return bessel.j1(x)


def bessel_y0(x: Any) -> Any:
    """PyTorch's name for `y0`.

    Shapes: (...) -> (...).

    >>> cr.special.bessel_y0(cr.tensor([1.0, 2.0]))
    tensor([0.08825696, 0.5103757 ], dtype=float32)
    """
    return bessel.y0(x)


def bessel_y1(x: Any) -> Any:
    """PyTorch's name for `y1`.

    Shapes: (...) -> (...).

    >>> cr.special.bessel_y1(cr.tensor([1.0, 2.0]))
    tensor([-0.7812128 , -0.10703243], dtype=float32)
    """
    return bessel.y1(x)


def modified_bessel_k0(x: Any) -> Any:
    """PyTorch's name for `k0`.

    Shapes: (...) -> (...).

    >>> cr.special.modified_bessel_k0(cr.tensor([1.0, 2.0]))
    tensor([0.42102444, 0.11389387], dtype=float32)
    """
    return bessel.k0(x)


def modified_bessel_k1(x: Any) -> Any:
    """PyTorch's name for `k1`.

    Shapes: (...) -> (...).

    >>> cr.special.modified_bessel_k1(cr.tensor([1.0, 2.0]))
    tensor([0.60190725, 0.13986588], dtype=float32)
    """
    return bessel.k1(x)


def scaled_modified_bessel_k0(x: Any) -> Any:
    """PyTorch's name for `k0e`.

    Shapes: (...) -> (...).

    >>> cr.special.scaled_modified_bessel_k0(cr.tensor([1.0, 2.0]))
    tensor([1.1444631 , 0.84156823], dtype=float32)
    """
    return bessel.k0e(x)


def scaled_modified_bessel_k1(x: Any) -> Any:
    """PyTorch's name for `k1e`.

    Shapes: (...) -> (...).

    >>> cr.special.scaled_modified_bessel_k1(cr.tensor([1.0, 2.0]))
    tensor([1.6361535, 1.0334768], dtype=float32)
    """
    return bessel.k1e(x)
