"""NumPy's products and linear algebra, where they differ from ours in shape and argument.

As in `numpy_rows`: NumPy's parameter names, and a row of `numpy_table` for each.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from chainrule import linalg
from chainrule.errors import DtypeError, ShapeError
from chainrule.interop.numpy_rows import A
from chainrule.ops import complex as cx
from chainrule.ops import contraction as con
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing import scattering
from chainrule.ops.linalg.singular import eigh_of
from chainrule.ops.shapes import shaping
from chainrule.ops.signal import convolve as signal

# --- Products ------------------------------------------------------------------------------------


def dot(a: Any, b: Any) -> Any:
    """The sum over the last axis of a and the last but one of b, for every pair of the others."""
    a, b = A(a), A(b)
    if a.ndim == 0 or b.ndim == 0:
        return ew.mul(a, b)
    return con.tensordot(a, b, axes=([a.ndim - 1], [max(b.ndim - 2, 0)]))


def inner(a: Any, b: Any) -> Any:
    """The sum over the last axes of both, for every pair of the others."""
    a, b = A(a), A(b)
    if a.ndim == 0 or b.ndim == 0:
        return ew.mul(a, b)
    return con.tensordot(a, b, axes=([a.ndim - 1], [b.ndim - 1]))


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The cross product of vectors along one axis of each array."""
    if axis is not None:
        axisa = axisb = axisc = axis
    last = [shaping.moveaxis(A(x), at, -1) for x, at in ((a, axisa), (b, axisb))]
    return shaping.moveaxis(linalg.cross(*last), -1, axisc)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """A number of axes, or for each array one or a list of them."""
    if isinstance(axes, int):
        return con.tensordot(A(a), A(b), axes=axes)
    left, right = [[x] if isinstance(x, int) else list(x) for x in axes]
    return con.tensordot(A(a), A(b), axes=(left, right))


def einsum(*operands: Any, optimize: Any = False) -> Any:
    """'ij,jk->ik' and arrays, or arrays each followed by its list of axis numbers."""
    del optimize  # the order of products is always chosen
    if isinstance(operands[0], str):
        return con.einsum(operands[0], *[A(x) for x in operands[1:]])
    arrays, lists = operands[: len(operands) // 2 * 2 : 2], operands[1::2]
    spec = ",".join([_letters(axes) for axes in lists])
    if len(operands) % 2:
        spec += "->" + _letters(operands[-1])
    return con.einsum(spec, *[A(x) for x in arrays])


def _letters(axes: Sequence[Any]) -> str:
    return "".join(["..." if a is Ellipsis else chr(ord("a") + a) for a in axes])


def multi_dot(arrays: Sequence[Any]) -> Any:
    """The product of matrices from left to right."""
    return reduce(dot, [A(x) for x in arrays])


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Of two vectors: every product a[i] v[j] is added at i + j."""
    a, v = A(a), A(v)
    if mode not in ("full", "same", "valid"):
        raise DtypeError(f"np.convolve: mode is one of full, same, valid, not {mode!r}")
    longer, other = (v, a) if a.shape[0] < v.shape[0] else (a, v)
    return signal.convolve(longer, other, mode=mode)


# --- Linear algebra ------------------------------------------------------------------------------


def symmetric(a: Any, uplo: str) -> Any:
    """The Hermitian matrix of which one triangle is given, the lower ("L") or the upper ("U")."""
    if uplo.upper() not in ("L", "U"):
        raise DtypeError(f"UPLO is 'L' or 'U', not {uplo!r}")
    lower = uplo.upper() == "L"
    strict = scattering.tril(a, k=-1) if lower else scattering.triu(a, k=1)
    diagonal = scattering.tril(scattering.triu(a))
    return strict + cx.conj(shaping.matrix_transpose(strict)) + diagonal


def eigh(a: Any, UPLO: str = "L") -> Any:
    """Of the given triangle, with the vectors that LAPACK finds from it."""
    return eigh_of(symmetric(a, UPLO), upper=UPLO.upper() == "U")


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Factors, or the singular values alone."""
    return linalg.svd(a, full_matrices=full_matrices) if compute_uv else linalg.svdvals(a)


def on_front_matrices(fn: Any, a: Any, offset: int) -> Any:
    """`fn` of the matrices in the first two axes, where NumPy's older functions look for them."""
    return fn(shaping.moveaxis(a, (0, 1), (-2, -1)), offset=offset)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Of vectors along one axis, of matrices over two; by default over all elements."""
    x = A(x)
    if axis is None and (ord is None or x.ndim == 1):
        return linalg.vector_norm(x, keepdims=keepdims, ord=2 if ord is None else ord)
    if axis is None and x.ndim != 2:
        raise ShapeError(f"np.linalg.norm: order {ord} needs a vector or a matrix, not {x.shape}")
    places = (0, 1) if axis is None else axis
    if isinstance(places, int) or len(places) == 1:
        return linalg.vector_norm(x, axis=places, keepdims=keepdims, ord=2 if ord is None else ord)
    front = shaping.moveaxis(x, tuple(places), (-2, -1))
    y = linalg.matrix_norm(front, keepdims=keepdims, ord="fro" if ord is None else ord)
    return shaping.moveaxis(y, (-2, -1), tuple(places)) if keepdims else y
