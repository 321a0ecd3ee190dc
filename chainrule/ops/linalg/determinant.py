"""Determinants and their logarithms, with derivatives that hold at singular matrices too.

The gradient of det is the matrix of cofactors. Where det(a) a^-T is inaccurate or does not exist,
it is computed from a = U S W (singular values; U, W unitary): cofactors multiply, so cof(a) =
cof(U) cof(S) cof(W), and those of the diagonal S are products of the other values (Stewart 1998,
"On the adjugate matrix", Linear Algebra and its Applications 283).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.ops.complex import complex, real_dtype
from chainrule.ops.complex import imag as imaginary
from chainrule.ops.contraction import matmul
from chainrule.ops.families import conj, strong_mul
from chainrule.ops.indexing.selection import where
from chainrule.ops.linalg.base import diagonal, diagonally, lapack, matrices, mh, outputs
from chainrule.ops.linalg.singular import svd
from chainrule.ops.linalg.solving import inv
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import expand_dims, matrix_transpose


class SlogdetResult(NamedTuple):
    """Sign (or phase) of the determinant, and the logarithm of its absolute value."""

    sign: Any
    logabsdet: Any


class Det(Op):
    """The determinant."""

    @property
    def name(self) -> str:
        """`det`."""
        return "det"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's, by LU."""
        return np.linalg.det(xs[0])

    def spec(self, *xs: Any) -> Spec:
        """(..., n, n) -> (...)."""
        return Spec(xs[0].shape[:-2], xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """The input."""
        return (1,)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` times the cofactors."""
        return (expand_dims(g, (-2, -1)) * apply(Cofactors(), xs[0]),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The sum of the cofactors times t."""
        return red.sum(apply(Cofactors(), xs[0]) * ts[0], axis=(-2, -1))


class Cofactors(Op):
    """The matrix of cofactors, the gradient of det: det(x) x^-T where x has an inverse.

    Its derivative, the second of det, is a symmetric map: vjp and jvp are the same.
    """

    @property
    def name(self) -> str:
        """`cofactors`."""
        return "cofactors"

    def eval(self, *xs: Any) -> Any:
        """By the inverse if all matrices are far from singular, otherwise by singular values."""
        (x,) = xs
        fast = _by_inverse(x)
        if fast is not None:
            return fast
        u, s, w = np.linalg.svd(x)
        others = np.where(np.eye(s.shape[-1], dtype=bool), 1, s[..., None, :]).prod(-1)
        phase = np.linalg.det(u) * np.linalg.det(w)
        return ((phase[..., None, None] * np.conj(u)) * others[..., None, :]) @ np.conj(w)

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """The input."""
        return (1,)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The derivative of the cofactors along `g`."""
        return (_cofactors_along(xs[0], g),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The derivative of the cofactors along t."""
        return _cofactors_along(xs[0], ts[0])


def _by_inverse(x: Array) -> Array | None:
    """det(x) x^-T, several times faster than singular values; None where it would lose digits."""
    try:
        inverse: Any = lapack.inv(x)
    except np.linalg.LinAlgError:
        return None
    condition = lapack.norm(x, axis=(-2, -1)) * lapack.norm(inverse, axis=(-2, -1))
    if (condition > float(np.finfo(x.dtype).eps) ** -0.25).any():
        return None
    return lapack.det(x)[..., None, None] * np.swapaxes(inverse, -1, -2)


def _cofactors_along(x: Any, t: Any) -> Any:
    """The derivative of the cofactors of `x` along `t`.

    With P = UH t WH and q_ij the product of all singular values but i and j, cof(S + P) changes by
    sum_j q_ij P_jj in place ii and by -q_ij P_ji in place ij.
    """
    u, s, w = svd(x, full_matrices=False)
    n = x.shape[-1]
    eye = np.eye(n, dtype=bool)
    out = eye[:, None, :] | eye[None, :, :]  # (i, j, k): whether value k is left out of q_ij
    q = red.prod(where(out, 1, expand_dims(s, (-3, -2))), axis=-1)
    q = where(eye, 0, q)
    p = matmul(matmul(mh(u), t), mh(w))
    inside = diagonally(red.sum(q * expand_dims(diagonal(p), -2), axis=-1))
    inside = inside - q * matrix_transpose(p)
    phase = expand_dims(det(u) * det(w), (-2, -1))
    return phase * matmul(matmul(conj(u), inside), conj(w))


class SlogDet(Op):
    """Sign (or phase) of the determinant and the logarithm of its absolute value."""

    many = True
    states_jvp = False

    @property
    def name(self) -> str:
        """`slogdet`."""
        return "slogdet"

    def eval(self, *xs: Any) -> Any:
        """LAPACK's, by LU; (0, -inf) for a singular matrix."""
        sign, log = np.linalg.slogdet(xs[0])
        return np.asarray(sign), np.asarray(log)

    def spec(self, *xs: Any) -> tuple[Spec, Spec]:
        """(..., n, n) -> (...), (...); the logarithm is real."""
        (x,) = xs
        return Spec(x.shape[:-2], x.dtype), Spec(x.shape[:-2], real_dtype(x.dtype))

    def reads(self, i: int) -> tuple[int, ...]:
        """Outputs and input."""
        return (0, 1)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """x^-T times the logarithm's g, plus i Im(g sign) for a phase. NaN at a singular matrix
        (where the logarithm is -inf), but 0 where g is 0."""
        (x,) = xs
        sign, _ = outputs(self, y, x)
        g_sign, g_log = g
        total = 0 if g_log is None else g_log
        if g_sign is not None and x.dtype.kind == "c":
            turn = imaginary(g_sign * sign)
            total = complex(turn * 0 + total, turn)
        elif g_log is None:
            return (np.zeros(x.shape, x.dtype),)
        none = sign == 0
        lost = where(none, np.nan, 1).astype(real_dtype(x.dtype))
        safe = where(expand_dims(none, (-2, -1)), np.eye(x.shape[-1], dtype=x.dtype), x)
        factor = strong_mul(total, lost)
        return (expand_dims(factor, (-2, -1)) * matrix_transpose(inv(safe)),)


def det(x: Any, /) -> Any:
    """The determinant of square matrices.

    Shapes: (..., n, n) -> (...).
    Its first and second derivatives are right at singular matrices too. Giles 2008, "Collected
    matrix derivative results", section 2.2.4; cofactors by singular values (Stewart 1998).

    >>> cr.linalg.det(cr.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2., dtype=float32)
    """
    return apply(Det(), matrices("det", x, square=True))


def slogdet(x: Any, /) -> SlogdetResult:
    """(sign, log|det|) of square matrices; sign is a phase if `x` is complex.

    Shapes: (..., n, n) -> (...), (...).
    A singular matrix gives (0, -inf), and a gradient of NaN unless what arrives there is 0. The
    gradient of the logarithm is x^-T (Giles 2008, section 2.2.4).

    >>> cr.linalg.slogdet(cr.tensor([[0.0, 1.0], [1.0, 0.0]]))
    SlogdetResult(sign=tensor(-1., dtype=float32), logabsdet=tensor(0., dtype=float32))
    """
    return SlogdetResult(*apply(SlogDet(), matrices("slogdet", x, square=True)))
