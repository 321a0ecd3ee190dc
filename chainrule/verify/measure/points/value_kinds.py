"""What values are by their nature, and stay where they are changed: probabilities, covariances."""

from __future__ import annotations

import numpy as np

from chainrule.verify.subject import Array
from chainrule.verify.tolerances import SAME

_LARGEST = 256
"""Rows of matrices whose eigenvalues are asked for."""
_DEFINITE = 0.1
"""The least eigenvalue of what is made positive definite, in mean sizes of its diagonal."""


def even_axis(x: Array) -> int | None:
    """The last axis along which rows of x sum to the same (probabilities, one-hot), if there is;
    a single row, to 1."""
    if not x.size or x.dtype.kind == "c" or bool((x < 0).any()):
        return None
    for axis in reversed(range(x.ndim)):
        sums = x.sum(axis=axis, dtype=np.float64)
        total = 1.0 if sums.size == 1 else float(sums.reshape(-1)[0])
        if x.shape[axis] > 1 and total > 0 and np.allclose(sums, total, rtol=1e-3, atol=0):
            return axis
    return None


def is_symmetric(x: Array) -> bool:
    """Whether x is symmetric matrices, other than by being constant or diagonal."""
    if x.dtype.kind != "f" or x.ndim < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] < 2:
        return False
    size = float(np.max(np.abs(x), initial=0.0))
    same = np.isfinite(size) and np.allclose(x, _turned(x), rtol=SAME, atol=SAME * size)
    beside = x[..., ~np.eye(x.shape[-1], dtype=bool)]
    return bool(same and np.any(beside) and np.ptp(x) > 0)


def in_the_nature_of(x: Array, new: Array) -> Array:
    """New values made what x is: rows that sum to the same, symmetric, positive definite."""
    if (axis := even_axis(x)) is not None:
        return _as_rows(x, new, axis)
    if is_symmetric(x) and new.shape[-1] == new.shape[-2]:
        return _as_symmetric(x, new)
    return new


def _turned(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def _as_rows(x: Array, new: Array, axis: int) -> Array:
    total = float(x.sum(dtype=np.float64)) * x.shape[axis] / x.size
    if np.isin(x, (0, 1)).all():
        return _as_marks(x, np.moveaxis(new, axis, -1), axis, round(total))
    sums = new.sum(axis=axis, keepdims=True)
    first = np.zeros_like(new)
    np.put_along_axis(first, np.zeros_like(sums, np.int64), total, axis)
    with np.errstate(all="ignore"):
        return np.where(sums > 0, new / sums * total, first).astype(x.dtype)


def _as_marks(x: Array, new: Array, axis: int, count: int) -> Array:
    """So many ones in each row of the last axis, where its largest values are; of equal ones not
    always the first. The axis goes back to where it was."""
    n = new.shape[-1]
    places = np.arange(new.size).reshape(new.shape)
    order = np.argsort((places + places // n) % n * np.finfo(np.float32).eps - new, axis=-1)
    marks = np.zeros(new.shape, x.dtype)
    np.put_along_axis(marks, order[..., :count], 1, -1)
    return np.moveaxis(marks, -1, axis)


def _as_symmetric(x: Array, new: Array) -> Array:
    even = (new + _turned(new)) / 2
    n = new.shape[-1]
    if max(n, x.shape[-1]) <= _LARGEST and _least(x) > 0:
        wanted = _DEFINITE * float(np.mean(np.abs(np.diagonal(even, axis1=-2, axis2=-1))))
        even = even + max(wanted - _least(even), 0.0) * np.eye(n)
    return even.astype(x.dtype)


def _least(x: Array) -> float:
    """The smallest eigenvalue."""
    return float(np.min(np.linalg.eigvalsh(x.astype(np.float64))))
