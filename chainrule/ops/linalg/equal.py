"""Equal eigenvalues and singular values: what their derivatives can and cannot know.

The vectors of equal values are any basis of their subspace, so the derivative of one vector does
not exist: its formula divides by the gap between the values, 0. A function that does not depend on
the choice of basis may still have a derivative. With that 1/0 taken as 0 the rule is right

* for functions of the values alone that treat equal ones alike (their sum, a norm, log det ...);
* for functions of the vectors alone, of whole subspaces (V V^H over all vectors of equal values).

It is not for functions in which the vectors and the values meet, such as V diag(w) V^H. That one's
gradient needs to know how w would change with V. No rule that is linear in the cotangents of V and
w can tell: V h(w) V^H sends the same ones for h(w) = 1, where the answer is 0, plus a part for the
diagonal only. So `Determined` refuses those cotangents instead of returning a wrong number.

Values count as equal when they differ by less than rounding makes of equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.errors import GradientError
from chainrule.ops import elementwise as ew
from chainrule.ops.families import zeros_like
from chainrule.ops.indexing.selection import where
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import expand_dims


def rounding(values: Any) -> float:
    """By how much, relative to the largest, computed values that are equal may differ."""
    return 10 * max(values.shape[-1], 1) * float(np.finfo(values.dtype).eps)


def _inverse(d: Any, values: Any) -> Any:
    """1/d, but 0 where `d` (..., n, n) is 0 up to rounding of `values` (..., n)."""
    if values.shape[-1] == 0:
        return d
    largest = red.max(ew.abs(values), axis=-1, keepdims=True)
    none = ew.abs(d) <= rounding(values) * expand_dims(largest, -1)
    return where(none, 0, 1 / where(none, 1, d))


def inverse_gaps(values: Any) -> Any:
    """1 / (v_j - v_i) in place ij, 0 where the values are equal: (..., n) -> (..., n, n)."""
    return _inverse(expand_dims(values, -2) - expand_dims(values, -1), values)


def inverse_sums(values: Any) -> Any:
    """1 / (v_i + v_j) in place ij, 0 where both are 0: (..., n) -> (..., n, n)."""
    return _inverse(expand_dims(values, -2) + expand_dims(values, -1), values)


def inverse_values(values: Any) -> Any:
    """1 / v, 0 where v is 0: (..., n) -> (..., 1, n), to scale columns."""
    return _inverse(expand_dims(values, -2), values)


class Determined(Op):
    """The cotangent `k` (..., n, n) of the vectors, in their own basis; refuses what equal values
    leave open.

    Inputs: k, the values (..., n) and, if there is one, the values' cotangent (..., n). The
    derivative is that of k: the others only decide whether there is an answer.
    """

    what: str
    square: bool

    @property
    def name(self) -> str:
        """`check_distinct`."""
        return "determined"

    def eval(self, *xs: Any) -> Any:
        """`k`; raises `GradientError` where the derivative does not exist."""
        k, values = xs[0], xs[1]
        close = _close(values)
        noise = np.sqrt(np.finfo(values.dtype).eps) * _most(k, 2)
        loud = close & (np.abs(k - _mh(k)) > noise)
        if loud.any():
            raise self._basis(loud)
        if len(xs) == 3:
            self._meet(k, values, xs[2], close)
        return k

    def _meet(self, k: Array, values: Array, g: Array, close: Array) -> None:
        """Refuse cotangents of values and vectors that meet in a subspace of equal values."""
        limit = np.sqrt(np.finfo(values.dtype).eps)
        own = np.diagonal(k, 0, -2, -1)
        apart = np.maximum(np.abs(k + _mh(k)), np.abs(own[..., None] - own[..., None, :]))
        some = np.abs(g) > limit * _most(g, 1)
        close = close & ~np.eye(values.shape[-1], dtype=bool)
        meet = close & (some[..., None] | some[..., None, :]) & (apart > limit * _most(k, 2))
        if self.what == "svd":  # vectors of value 0 take no part in U diag(s) VH: they send 0
            zero = np.abs(values) <= rounding(values) * _most(values, 1)
            many = zero.sum(-1, keepdims=True) > int(self.square)
            meet |= (zero & some & many)[..., None] & (_most(k, 2) > 0)
        if meet.any():
            batch, i, j = _first(meet)
            raise GradientError(
                f"{self.what}: values {i} and {j}{batch} are equal (or zero), and the loss "
                "depends on the values and on their vectors: from these cotangents alone its "
                "derivative cannot be told. Compute the matrix without decomposing it, or move "
                "the values apart, say by adding small distinct numbers to the diagonal"
            )

    def _basis(self, loud: Array) -> GradientError:
        batch, i, j = _first(loud)
        if i == j:
            return GradientError(
                f"{self.what}: the loss depends on the phase of vector {i}{batch}, which is "
                "arbitrary for complex vectors: it has no derivative. Use a function that is the "
                "same for every phase, such as absolute values or v vH"
            )
        return GradientError(
            f"{self.what}: values {i} and {j}{batch} are equal, and the loss depends on which "
            "of the bases of their subspace the vectors are: it has no derivative here. Use a "
            "function of the whole subspace, or only of the values"
        )

    def spec(self, *xs: Any) -> Spec:
        """That of k."""
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> tuple[int, ...] | None:
        """Nothing; only `k` has a gradient."""
        return None if i else ()

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g`."""
        return (g, *[None] * (len(xs) - 1))

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangent of k."""
        return ts[0]


def _close(values: Array) -> Array:
    """Which pairs of places hold equal values; every place with itself among them."""
    gap = np.abs(values[..., None] - values[..., None, :])
    return gap <= rounding(values) * _most(values, 1)[..., None]


def _mh(x: Array) -> Array:
    return np.conjugate(np.swapaxes(x, -1, -2))


def _most(x: Array, axes: int) -> Array:
    """The largest absolute value along the last axes, kept as axes of size 1."""
    return np.max(np.abs(x), axis=tuple(range(-axes, 0)), keepdims=True, initial=0)


def _first(found: Array) -> tuple[str, int, int]:
    """Words for the matrix of the first place that was found, and its row and column."""
    *batch, i, j = np.argwhere(found)[0].tolist()
    return f" of matrix {batch}" if batch else "", i, j


def check_distinct(what: str, k: Any, values: Any, g: Any | None, *, square: bool = True) -> Any:
    """`k`, checked against equal `values`; g is the values' cotangent, None if there is none."""
    given = () if g is None else (g,)
    return apply(Determined(what, square), k, values, *given)


def total(*parts: Any, like: Any) -> Any:
    """The sum of those parts that are not None; zeros like `like` if all are."""
    some = [p for p in parts if p is not None]
    return sum(some[1:], some[0]) if some else zeros_like(like)
