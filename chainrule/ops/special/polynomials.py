"""Orthogonal polynomials of a whole degree n, in ops: PyTorch's names and order of arguments.

Each family is a recurrence, p_(k+1) = (a_k x + b_k) p_k - c_k p_(k-1), from p_0 = 1 and a p_1 of
its own (DLMF 18.9.1 and tables 18.9.1, 18.9.2). Derivatives of all orders, and compiled code, are
those of its ops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from chainrule.engine.dtypes import check_real
from chainrule.errors import ConfigError

_MOST = 10_000
"""Steps of a recurrence that is written out."""


@final
@dataclass(frozen=True)
class Family:
    """p_1 = first x + shift; the factors of step k >= 1."""

    first: float
    shift: float
    step: Callable[[int], tuple[float, float, float]]

    def of(self, name: str, x: Any, n: Any) -> Any:
        """p_n(x)."""
        if isinstance(n, bool) or not isinstance(n, int) or n > _MOST:
            raise ConfigError(
                f"{name}: the degree is a whole number up to {_MOST}, not {n!r}; for several "
                "degrees call it for each"
            )
        check_real(name, x)
        below, p = 0 * x + 1, self.first * x + self.shift
        if n < 1:
            return below if n == 0 else 0 * x
        for k in range(1, n):
            a, b, c = self.step(k)
            below, p = p, (a * x + b) * p - c * below
        return p


def _chebyshev(first: float, shift: float) -> tuple[Family, Family]:
    """A kind, and the same of 2 x - 1."""
    return (
        Family(first, shift, lambda k: (2, 0, 1)),
        Family(2 * first, shift - first, lambda k: (4, -2, 1)),
    )


_T, _SHIFTED_T = _chebyshev(1, 0)
_U, _SHIFTED_U = _chebyshev(2, 0)
_V, _SHIFTED_V = _chebyshev(2, -1)
_W, _SHIFTED_W = _chebyshev(2, 1)
_H = Family(2, 0, lambda k: (2, 0, 2 * k))
_HE = Family(1, 0, lambda k: (1, 0, k))
_L = Family(-1, 1, lambda k: (-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1)))
_P = Family(1, 0, lambda k: ((2 * k + 1) / (k + 1), 0, k / (k + 1)))


def chebyshev_polynomial_t(x: Any, n: int) -> Any:
    """T_n(x): cos(n acos x).

    Shapes: (*s) -> (*s).

    >>> cr.special.chebyshev_polynomial_t(cr.tensor([0.5, 2.0]), 2)
    tensor([-0.5,  7. ], dtype=float32)
    """
    return _T.of("chebyshev_polynomial_t", x, n)


def chebyshev_polynomial_u(x: Any, n: int) -> Any:
    """U_n(x), of the second kind.

    Shapes: (*s) -> (*s).

    >>> cr.special.chebyshev_polynomial_u(cr.tensor([0.5, 2.0]), 2)
    tensor([ 0., 15.], dtype=float32)
    """
    return _U.of("chebyshev_polynomial_u", x, n)


def chebyshev_polynomial_v(x: Any, n: int) -> Any:
    """V_n(x), of the third kind.

    Shapes: (*s) -> (*s).

    >>> cr.special.chebyshev_polynomial_v(cr.tensor([0.5, 2.0]), 2)
    tensor([-1., 11.], dtype=float32)
    """
    return _V.of("chebyshev_polynomial_v", x, n)


def chebyshev_polynomial_w(x: Any, n: int) -> Any:
    """W_n(x), of the fourth kind.

    Shapes: (*s) -> (*s).

    >>> cr.special.chebyshev_polynomial_w(cr.tensor([0.5, 2.0]), 2)
    tensor([ 1., 19.], dtype=float32)
    """
    return _W.of("chebyshev_polynomial_w", x, n)


def shifted_chebyshev_polynomial_t(x: Any, n: int) -> Any:
    """T_n(2 x - 1).

    Shapes: (*s) -> (*s).

    >>> cr.special.shifted_chebyshev_polynomial_t(cr.tensor([0.5, 1.0]), 2)
    tensor([-1.,  1.], dtype=float32)
    """
    return _SHIFTED_T.of("shifted_chebyshev_polynomial_t", x, n)


def shifted_chebyshev_polynomial_u(x: Any, n: int) -> Any:
    """U_n(2 x - 1).

    Shapes: (*s) -> (*s).

    >>> cr.special.shifted_chebyshev_polynomial_u(cr.tensor([0.5, 1.0]), 2)
    tensor([-1.,  3.], dtype=float32)
    """
    return _SHIFTED_U.of("shifted_chebyshev_polynomial_u", x, n)


def shifted_chebyshev_polynomial_v(x: Any, n: int) -> Any:
    """V_n(2 x - 1).

    Shapes: (*s) -> (*s).

    >>> cr.special.shifted_chebyshev_polynomial_v(cr.tensor([0.5, 1.0]), 2)
    tensor([-1.,  1.], dtype=float32)
    """
    return _SHIFTED_V.of("shifted_chebyshev_polynomial_v", x, n)


def shifted_chebyshev_polynomial_w(x: Any, n: int) -> Any:
    """W_n(2 x - 1).

    Shapes: (*s) -> (*s).

    >>> cr.special.shifted_chebyshev_polynomial_w(cr.tensor([0.5, 1.0]), 2)
    tensor([-1.,  5.], dtype=float32)
    """
    return _SHIFTED_W.of("shifted_chebyshev_polynomial_w", x, n)


def hermite_polynomial_h(x: Any, n: int) -> Any:
    """H_n(x), orthogonal by e^(-x^2).

    Shapes: (*s) -> (*s).

    >>> cr.special.hermite_polynomial_h(cr.tensor([0.5, 2.0]), 2)
    tensor([-1., 14.], dtype=float32)
    """
    return _H.of("hermite_polynomial_h", x, n)


def hermite_polynomial_he(x: Any, n: int) -> Any:
    """He_n(x), orthogonal by e^(-x^2 / 2).

    Shapes: (*s) -> (*s).

    >>> cr.special.hermite_polynomial_he(cr.tensor([0.5, 2.0]), 2)
    tensor([-0.75,  3.  ], dtype=float32)
    """
    return _HE.of("hermite_polynomial_he", x, n)


def laguerre_polynomial_l(x: Any, n: int) -> Any:
    """L_n(x), orthogonal by e^-x from 0 on.

    Shapes: (*s) -> (*s).

    >>> cr.special.laguerre_polynomial_l(cr.tensor([0.5, 2.0]), 2)
    tensor([ 0.125, -1.   ], dtype=float32)
    """
    return _L.of("laguerre_polynomial_l", x, n)


def legendre_polynomial_p(x: Any, n: int) -> Any:
    """P_n(x), orthogonal between -1 and 1.

    Shapes: (*s) -> (*s).

    >>> cr.special.legendre_polynomial_p(cr.tensor([0.5, 2.0]), 2)
    tensor([-0.125,  5.5  ], dtype=float32)
    """
    return _P.of("legendre_polynomial_p", x, n)
