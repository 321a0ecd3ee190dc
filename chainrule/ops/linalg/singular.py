"""Eigenvalues of Hermitian matrices, singular values, and what is made of them.

Formulas: Giles 2008, "Collected matrix derivative results", sections 3.1 (eigenvalues) and 3.2
(singular values); Townsend 2016, "Differentiating the singular value decomposition"; Seeger et al.
2017, arXiv:1710.08717, section 3.3 (symmetric eigen-decomposition). They are regrouped so that only
the gap and the sum of two values are divided by, never the difference of squares. What happens
where values are equal is said in `equal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Need, Op, Spec
from chainrule.errors import GradientError
from chainrule.ops.complex import real_dtype
from chainrule.ops.contraction import matmul
from chainrule.ops.families import conj
from chainrule.ops.linalg.base import MatrixError, diagonally, lapack, matrices, mh, outputs
from chainrule.ops.linalg.equal import (
    check_distinct,
    inverse_gaps,
    inverse_sums,
    inverse_values,
    total,
)
from chainrule.ops.shapes.shaping import Shape


class EighResult(NamedTuple):
    """Eigenvalues (..., n) in ascending order, and eigenvectors (..., n, n) in columns."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """Left vectors in columns, singular values in descending order, right vectors in rows."""

    U: Any
    S: Any
    Vh: Any


def _skew(x: Any) -> Any:
    return (x - mh(x)) * 0.5


class Eigh(Op):
    """Eigenvalues w and eigenvectors V of Hermitian matrices: x = V diag(w) VH. LAPACK reads the
    lower or the `upper` triangle, and the signs of V depend on which."""

    upper: bool = False
    many = True
    states_jvp = False

    @property
    def name(self) -> str:
        """`eigh`."""
        return "eigh"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's, from one triangle."""
        try:
            return tuple(lapack.eigh(xs[0], "U" if self.upper else "L"))
        except np.linalg.LinAlgError as cause:
            raise _no_convergence(self.name, xs[0]) from cause

    def spec(self, *xs: Any) -> tuple[Spec, Spec]:
        """(..., n) real, (..., n, n)."""
        (x,) = xs
        return Spec(x.shape[:-1], real_dtype(x.dtype)), Spec(x.shape, x.dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """Outputs and input."""
        return (0, 1)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """V (diag(g_w) + F * skew(VH G_V)) VH with F_ij = 1 / (w_j - w_i): a Hermitian matrix."""
        w, v = outputs(self, y, xs[0])
        g_w, g_v = g
        turn = None
        if g_v is not None:
            k = check_distinct("eigh", matmul(mh(v), conj(g_v)), w, g_w)
            turn = inverse_gaps(w) * _skew(k)
        inside = total(None if g_w is None else diagonally(g_w), turn, like=xs[0])
        return (conj(matmul(matmul(v, inside), mh(v))),)


class Svd(Op):
    """x = U diag(s) W. With `full` U and W are square, otherwise they have min(m, n) vectors."""

    full: bool
    many = True
    states_jvp = False

    @property
    def name(self) -> str:
        """`svd`."""
        return "svd"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's, by divide and conquer."""
        try:
            return tuple(lapack.svd(xs[0], full_matrices=self.full))
        except np.linalg.LinAlgError as cause:
            raise _no_convergence(self.name, xs[0]) from cause

    def spec(self, *xs: Any) -> tuple[Spec, Spec, Spec]:
        """(..., m, k), (..., k) real, (..., k, n)."""
        (x,) = xs
        *lead, m, n = x.shape
        k = min(m, n)
        left, right = (m, n) if self.full else (k, k)
        values = Spec((*lead, k), real_dtype(x.dtype))
        return Spec((*lead, m, left), x.dtype), values, Spec((*lead, right, n), x.dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """Outputs and input."""
        return (0, 1)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The rule of `_svd_bar`; the extra vectors of `full` have no gradient to give."""
        (x,) = xs
        m, n = x.shape[-2:]
        if not self.full or m == n:
            return (_svd_bar(outputs(self, y, x), g, (m, n), x),)
        if g[0] is not None or g[2] is not None:
            raise GradientError(
                f"svd: with full_matrices=True the vectors of a {m} x {n} matrix beyond the "
                f"first {min(m, n)} are any basis of what is left, so they have no derivative; "
                "use full_matrices=False"
            )
        return (_svd_bar(apply(Svd(False), x), g, (m, n), x),)


def _svd_bar(y: Any, g: Sequence[Any], shape: Shape, x: Any) -> Any:
    """The cotangent of x = U diag(s) W from those of U, s and W.

    With A and B the skew parts of UH G_U and VH G_V, V = WH, it is
    U (diag(g_s) + F * (A + B) + H * (A - B)) W, F_ij = 1 / (s_j - s_i), H_ij = 1 / (s_i + s_j),
    and what of G_U and G_W lies outside the spans of U and W, each column divided by its value.
    """
    u, s, w = y
    g_u, g_s, g_w = [None if bar is None else conj(bar) for bar in g]
    m, n = shape
    left = None if g_u is None else matmul(mh(u), g_u)
    right = None if g_w is None else matmul(w, mh(g_w))
    inside = None if g_s is None else diagonally(g_s)
    if left is not None or right is not None:
        both = check_distinct("svd", total(left, right, like=x), s, g_s, square=m == n)
        plus = _skew(both)
        minus = _skew(total(left, None if right is None else -right, like=x))
        inside = total(inside, inverse_gaps(s) * plus, inverse_sums(s) * minus, like=x)
    bar = matmul(matmul(u, inside), w)
    if g_u is not None and m > n:
        bar = bar + matmul((g_u - matmul(u, left)) * inverse_values(s), w)
    if g_w is not None and n > m:
        bar = bar + matmul(u * inverse_values(s), g_w - matmul(mh(right), w))
    return conj(bar)


def _no_convergence(what: str, x: Any) -> MatrixError:
    bad = not np.isfinite(x).all()
    reason = "it holds NaN or infinity" if bad else "try it in float64, or scaled"
    return MatrixError(f"{what}: the iteration on {x.dtype} {x.shape} did not converge: {reason}")


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices.

    Shapes: (..., n, n) -> (..., n), (..., n, n).
    Only the lower triangle is read; the gradient is Hermitian. Equal eigenvalues: functions of the
    values alone, or of the vectors of whole subspaces, have their right gradient; a backward pass
    through anything else, or through the phases of complex vectors, raises `GradientError`
    (forward mode cannot tell, and takes the derivative of vectors within a subspace of equal values
    as 0). Seeger et al. 2017, arXiv:1710.08717.

    >>> cr.linalg.eigh(cr.tensor([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
    tensor([1., 3.], dtype=float32)
    """
    return eigh_of(x, upper=False)


def eigh_of(x: Any, *, upper: bool) -> EighResult:
    """`eigh`, with the triangle that LAPACK reads."""
    return EighResult(*apply(Eigh(upper), matrices("eigh", x, square=True)))


def eigvalsh(x: Any, /) -> Any:
    """The eigenvalues, ascending, of Hermitian matrices; as `eigh` does it.

    Shapes: (..., n, n) -> (..., n).

    >>> cr.linalg.eigvalsh(cr.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.], dtype=float32)
    """
    return eigh(x).eigenvalues


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """U, S, Vh with x = U diag(S) Vh.

    Shapes: (..., m, n) -> (..., m, m), (..., min(m, n)), (..., n, n) if full_matrices;
        (..., m, n) -> (..., m, min(m, n)), (..., min(m, n)), (..., min(m, n), n).
    With `full_matrices` and unless m = n only S has a gradient, in reverse mode alone. Equal
    singular values as equal eigenvalues in `eigh`. Townsend 2016,
    "Differentiating the singular value decomposition".

    >>> [x.shape for x in cr.linalg.svd(cr.ones((5, 3)), full_matrices=False)]
    [(5, 3), (3,), (3, 3)]
    """
    return SVDResult(*apply(Svd(bool(full_matrices)), matrices("svd", x)))


def svdvals(x: Any, /) -> Any:
    """The singular values, descending.

    Shapes: (..., m, n) -> (..., min(m, n)).

    >>> cr.linalg.svdvals(cr.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.], dtype=float32)
    """
    return svd(x, full_matrices=False).S


# --- Pseudo-inverse ------------------------------------------------------------------------------


class Pinv(Op):
    """The Moore-Penrose inverse of x; its second input is `rtol`."""

    states_jvp = False

    @property
    def name(self) -> str:
        """`pinv`."""
        return "pinv"

    def eval(self, *xs: Any) -> Any:
        """By singular values."""
        try:
            return lapack.pinv(xs[0], rtol=xs[1])
        except np.linalg.LinAlgError as cause:
            raise _no_convergence("svd", xs[0]) from cause  # of which compiled code makes it

    def spec(self, *xs: Any) -> Spec:
        """(..., m, n) -> (..., n, m)."""
        *lead, m, n = xs[0].shape
        return Spec((*lead, n, m), xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...] | None:
        """Output and input; the tolerance has no gradient."""
        return None if i else (0, 1)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """-yH G yH + (1 - x y) GH y yH + yH y GH (1 - y x)."""
        x = xs[0]
        yh, gh = mh(y), mh(conj(g))
        rows, columns = matmul(gh, matmul(y, yh)), matmul(matmul(yh, y), gh)
        bar = rows - matmul(x, matmul(y, rows)) + columns - matmul(matmul(columns, y), x)
        return conj(bar - matmul(matmul(yh, conj(g)), yh)), None


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The Moore-Penrose inverse of matrices.

    Shapes: (..., m, n) -> (..., n, m).
    Singular values up to `rtol` times the largest count as 0; it is a number or an array (...), by
    default max(m, n) times the dtype's epsilon. The gradient holds where the rank does not change
    nearby. Golub & Pereyra 1973, "The differentiation of pseudo-inverses and nonlinear least
    squares problems", equation 4.12.

    >>> cr.linalg.pinv(cr.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]], dtype=float32)
    """
    x = matrices("pinv", x)
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    return apply(Pinv(), x, rtol)
