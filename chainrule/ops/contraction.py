"""Products that sum over shared axes: matmul, einsum, and what is made of them. All multilinear."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.dtypes import NARROW, result_type, rounded_once
from chainrule.engine.graph import apply
from chainrule.engine.op import Need, Spec
from chainrule.errors import ShapeError, describe_all
from chainrule.ops.families import Multilinear, conj, sum_to
from chainrule.ops.indexing.index_arrays import getitem
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import (
    Shape,
    broadcast_to,
    matrix_transpose,
    normalize_axis,
    permute_dims,
    reshape,
)


def _t(x: Any, turned: bool) -> Any:
    return x.swapaxes(-1, -2) if turned else x


class MatMul(Multilinear):
    """(..., m, k) @ (..., k, n) -> (..., m, n); the leading axes broadcast.

    An argument that is turned comes with its last two axes exchanged. BLAS reads it as it lies,
    and so no rule ever needs a transposition of its own.
    """

    transpose_a: bool = False
    transpose_b: bool = False
    count = 2

    @property
    def name(self) -> str:
        """`matmul`."""
        return "matmul"

    def eval(self, *xs: Any) -> Any:
        """BLAS, through NumPy; all rows at once where b has no leading axes."""
        a, b = xs
        if (narrow := a.dtype.char) in NARROW and b.dtype.char == narrow:  # BLAS has none of these
            return self.eval(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
        if b.ndim == 2 and a.ndim > 2 and not self.transpose_a:
            rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
            y = np.matmul(rows, _t(b, self.transpose_b))
            return y.reshape(*a.shape[:-1], y.shape[-1])
        return np.matmul(_t(a, self.transpose_a), _t(b, self.transpose_b))

    def spec(self, *xs: Any) -> Spec:
        """(..., m, n)."""
        a, b = xs
        m, k = a.shape[-2:][:: -1 if self.transpose_a else 1]
        l, n = b.shape[-2:][:: -1 if self.transpose_b else 1]
        if k != l:
            raise ShapeError(f"matmul: the inner sizes of {a.shape} and {b.shape} differ: {k}, {l}")
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return Spec((*lead, m, n), result_type(a.dtype, b.dtype))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """g bT and aT g, or, for a turned argument, the transposes of these."""
        a, b = xs
        return (
            sum_to(self._left(g, b), a.shape) if need[0] else None,
            sum_to(self._right(g, a, b.shape), b.shape) if need[1] else None,
        )

    def _left(self, g: Any, b: Any) -> Any:
        if self.transpose_a:
            return apply(MatMul(self.transpose_b, True), b, g)
        return apply(MatMul(False, not self.transpose_b), g, b)

    def _right(self, g: Any, a: Any, shape: Shape) -> Any:
        if len(shape) == 2 and a.ndim > 2 and not self.transpose_a and a.shape[:-1] == g.shape[:-1]:
            # all rows at once, instead of a product for each leading index, summed afterwards
            rows = math.prod(a.shape[:-1])  # not -1: an array without elements has no answer to it
            a, g = reshape(a, (rows, a.shape[-1])), reshape(g, (rows, g.shape[-1]))
        if self.transpose_b:
            return apply(MatMul(True, self.transpose_a), g, a)
        return apply(MatMul(not self.transpose_a, False), a, g)


def matmul(a: Any, b: Any) -> Any:
    """The matrix product of the last two axes; leading axes broadcast.

    Shapes: (k), (k) -> ();
        (k), (..., k, n) -> (..., n);
        (..., m, k), (k) -> (..., m);
        (..., m, k), (..., k, n) -> (..., m, n).
    A vector on the left counts as (1, k), on the right as (k, 1); that axis is then dropped.
    Raises `ShapeError` if the inner sizes differ or an argument has no axis.

    >>> cr.matmul(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), cr.tensor([1.0, 1.0]))
    tensor([3., 7.], dtype=float32)
    """
    if a.ndim > 1 and b.ndim > 1:
        return apply(MatMul(), a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul: {a.shape} @ {b.shape}: a number has no axis to sum over; use *")
    left, right = a.ndim == 1, b.ndim == 1
    _check_inner(a, b, a.shape[-1], b.shape[-1 if right else -2])
    y = apply(MatMul(), reshape(a, (1, -1)) if left else a, reshape(b, (-1, 1)) if right else b)
    shape = list(y.shape)
    if right:
        del shape[-1]
    if left:
        del shape[-1 if right else -2]
    return reshape(y, shape)


def _check_inner(a: Any, b: Any, k: int, l: int) -> None:
    """Raise an error of the shapes that were given, before a vector becomes a matrix."""
    if k != l:
        raise ShapeError(
            f"matmul: cannot be applied to {describe_all((a, b))}: the inner sizes differ: {k}, {l}"
        )


def matmul_t(a: Any, b: Any) -> Any:
    """a @ b.mT without a transposition of its own: (..., m, k), (..., n, k) -> (..., m, n)."""
    if a.ndim == 1 and b.ndim > 1:
        _check_inner(a, b, a.shape[-1], b.shape[-1])
    if a.ndim < 2 or b.ndim < 2:
        return matmul(a, b if b.ndim < 2 else matrix_transpose(b))
    return apply(MatMul(False, True), a, b)


# --- Einsum --------------------------------------------------------------------------------------


class Einsum(Multilinear):
    """Einstein's sum, each input's and the output's axes named by letters: 'ij,jk->ik'.

    The letters of one input are all different and there is no ellipsis: `einsum` sees to that.
    """

    terms: tuple[str, ...]
    out: str

    @property
    def name(self) -> str:
        """`einsum`."""
        return "einsum"

    @property
    def count(self) -> int:  # type: ignore[override]
        """Number of inputs."""
        return len(self.terms)

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """NumPy's einsum; with several inputs in an order that keeps intermediate arrays small."""
        spec = f"{','.join(self.terms)}->{self.out}"
        return np.einsum(spec, *xs, optimize="greedy" if len(xs) > 1 else False)

    def spec(self, *xs: Any) -> Spec:
        """The size of each letter of the output."""
        size = sizes(self.terms, xs)
        return Spec(tuple([size[c] for c in self.out]), result_type(*[x.dtype for x in xs]))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The same sum with that input and the output exchanged."""
        return [self._bar(i, g, xs) if n else None for i, n in enumerate(need)]

    def _bar(self, i: int, g: Any, xs: Sequence[Any]) -> Any:
        others = [(t, x) for j, (t, x) in enumerate(zip(self.terms, xs, strict=True)) if j != i]
        terms = (self.out, *[t for t, _ in others])
        term = self.terms[i]
        found = "".join([c for c in term if any(c in t for t in terms)])
        bar = apply(Einsum(terms, found), g, *[x for _, x in others])
        if found == term:
            return bar
        # letters that only this input has were summed away: repeat along them
        shape = xs[i].shape
        apart = [n if c in found else 1 for c, n in zip(term, shape, strict=True)]
        return broadcast_to(reshape(bar, apart), shape)


def sizes(terms: Sequence[str], xs: Sequence[Any]) -> dict[str, int]:
    """The size of each letter; raises `ShapeError` where a letter would have two."""
    size: dict[str, int] = {}
    for term, x in zip(terms, xs, strict=True):
        if len(term) != x.ndim:
            raise ShapeError(f"einsum: '{term}' names {len(term)} axes, the array has {x.shape}")
        for c, n in zip(term, x.shape, strict=True):
            if size.setdefault(c, n) != n:
                raise ShapeError(f"einsum: '{c}' is {size[c]} in one input and {n} in another")
    return size


def einsum(spec: str, *xs: Any) -> Any:
    """Einstein's sum in NumPy's notation: 'ij,jk->ik', '...i,i', 'ii->i', 'ii'.

    Shapes: xs [(*s_i)] -> (*t).
    Letters that the output does not name are summed; without '->' it names, in alphabetical order,
    those that occur once. Sizes of one letter must agree; a size of 1 is repeated.

    >>> cr.einsum("ij,j->i", cr.tensor([[1.0, 2.0], [3.0, 4.0]]), cr.tensor([1.0, 1.0]))
    tensor([3., 7.], dtype=float32)
    """
    terms, out = _parse(spec, xs)
    arrays: list[Any] = []
    for k, term in enumerate(terms):
        x = xs[k]
        if len(term) != x.ndim:
            raise ShapeError(f"einsum '{spec}': '{term}' names {len(term)} axes of {x.shape}")
        terms[k], x = _diagonals(term, x)
        arrays.append(x)
    _drop_ones(terms, arrays)
    unknown = [c for c in out if not any(c in t for t in terms)]
    if unknown or len(set(out)) < len(out):
        raise ShapeError(f"einsum '{spec}': the output '{out}' must name letters of inputs, once")
    return apply(Einsum(tuple(terms), out), *arrays)


def _parse(spec: str, xs: Sequence[Any]) -> tuple[list[str], str]:
    """The letters of each input and of the output, ellipses replaced by capital letters."""
    spec = spec.replace(" ", "")
    left, arrow, out = spec.partition("->")
    terms = left.split(",")
    if len(terms) != len(xs):
        raise ShapeError(f"einsum '{spec}' is for {len(terms)} arrays, not {len(xs)}")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in spec]
    extra = [
        x.ndim - len(t.replace("...", "")) if "..." in t else 0
        for t, x in zip(terms, xs, strict=True)
    ]
    most = max(extra)
    if min(extra) < 0 or most > len(free):
        raise ShapeError(f"einsum '{spec}' names more axes than {[x.shape for x in xs]} have")
    dots = free[:most]
    terms = [t.replace("...", "".join(dots[most - n :])) for t, n in zip(terms, extra, strict=True)]
    if not arrow:
        letters = "".join(terms)
        once = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots)
        return terms, "".join(dots + once)
    return terms, out.replace("...", "".join(dots))


def _diagonals(term: str, x: Any) -> tuple[str, Any]:
    """An input whose letter repeats (as in 'ii') replaced by its diagonal along that letter."""
    for c in term:
        if term.count(c) < 2:
            continue
        i, j = term.index(c), term.rindex(c)
        n = x.shape[i]
        if x.shape[j] != n:
            raise ShapeError(f"einsum: '{c}' is {n} and {x.shape[j]} in {x.shape}")
        axes = [k for k in range(x.ndim) if k not in (i, j)]
        x = permute_dims(x, (*axes, i, j))
        flat = reshape(x, (*[x.shape[k] for k in range(x.ndim - 2)], n * n))
        x = getitem(flat, (Ellipsis, slice(None, None, n + 1)))
        return _diagonals("".join([term[k] for k in axes]) + c, x)
    return term, x


def _drop_ones(terms: list[str], arrays: list[Any]) -> None:
    """Take away axes of size 1 whose letter is longer elsewhere: repeating along them is no sum."""
    longest: dict[str, int] = {}
    for term, x in zip(terms, arrays, strict=True):
        for c, n in zip(term, x.shape, strict=True):
            longest[c] = max(n, longest.get(c, n))
    for k, (term, x) in enumerate(zip(terms, arrays, strict=True)):
        ones = [i for i, c in enumerate(term) if x.shape[i] == 1 and longest[c] != 1]
        if ones:
            terms[k] = "".join([c for i, c in enumerate(term) if i not in ones])
            arrays[k] = reshape(x, [n for i, n in enumerate(x.shape) if i not in ones])


def tensordot(a: Any, b: Any, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Any:
    """The sum of products over `axes` of a and b: that many last and first ones, or two lists.

    Shapes: (*s), (*t) -> (*(s[:len(s) - axes] + t[axes:])) if type(axes) is int;
        (*s), (*t) -> (*u) with prod(u) * prod(s[i] for i in axes[0]) ** 2 == prod(s) * prod(t).

    >>> cr.tensordot(cr.ones((2, 3, 4)), cr.ones((3, 4, 5)), axes=2).shape
    (2, 5)
    """
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot: {a.shape} and {b.shape} do not both have {axes} axes")
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        left = [normalize_axis(i, a.ndim) for i in axes[0]]
        right = [normalize_axis(i, b.ndim) for i in axes[1]]
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ShapeError(f"tensordot: axes {left} of {a.shape} do not fit {right} of {b.shape}")
    rows = [i for i in range(a.ndim) if i not in left]
    cols = [i for i in range(b.ndim) if i not in right]
    k = math.prod([a.shape[i] for i in left])
    m, n = math.prod([a.shape[i] for i in rows]), math.prod([b.shape[i] for i in cols])
    y = matmul(
        reshape(permute_dims(a, (*rows, *left)), (m, k)),
        reshape(permute_dims(b, (*right, *cols)), (k, n)),
    )
    return reshape(y, (*[a.shape[i] for i in rows], *[b.shape[i] for i in cols]))


def outer(a: Any, b: Any) -> Any:
    """All products of an element of `a` with one of `b`.

    Shapes: (m), (n) -> (m, n).

    >>> cr.outer(cr.tensor([1.0, 2.0]), cr.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]], dtype=float32)
    """
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer needs two vectors, not {a.shape} and {b.shape}")
    return reshape(a, (-1, 1)) * reshape(b, (1, -1))


def vecdot(a: Any, b: Any, axis: int = -1) -> Any:
    """The sum of products along `axis`, a conjugated; the other axes broadcast.

    Shapes: (..., axis: n), (..., axis: n) -> (...).

    >>> cr.vecdot(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), cr.tensor([1.0, 1.0]))
    tensor([3., 7.], dtype=float32)
    """
    n = normalize_axis(axis, min(a.ndim, b.ndim))
    if a.shape[axis] != b.shape[axis]:
        raise ShapeError(f"vecdot: {a.shape} and {b.shape} differ along axis {n}")
    dtype = result_type(a.dtype, b.dtype)
    return red.sum(conj(a) * b, axis=axis, dtype=dtype)
