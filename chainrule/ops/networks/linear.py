"""A linear layer, and products of moderate size as kernels.

A kernel's product is computed where its matrices lie, which is fast as long as they stay in a
cache near the processor. NumPy's BLAS does larger ones.

Notation: (n, k) @ (m, k)^T -> (n, m).
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from chainrule.engine.dtypes import Dtype
from chainrule.engine.op import Array
from chainrule.ops import eager_kernels
from chainrule.ops.contraction import matmul, matmul_t
from chainrule.ops.eager_kernels import Kernel, maker
from chainrule.ops.fusing import fused
from chainrule.ops.shapes.shaping import bias_like, matrix_transpose

MOST = 1 << 21
"""Bytes of each of the three matrices up to which a product is moderate: measured with a second
cache of 1 MiB, where twice as much is still faster than BLAS, and four times as much is not."""


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """x times the transpose of weight, plus bias.

    Shapes: (..., n), (m, n), (m) -> (..., m).

    >>> cr.linear(cr.tensor([1.0, 2.0]), cr.tensor([[3.0, 4.0]]), cr.tensor([0.5]))
    tensor([11.5], dtype=float32)
    """
    if x.ndim and weight.ndim == 2:
        rows, (m, k) = prod(x.shape[:-1]), weight.shape
        if max(rows * k, rows * m, m * k) * weight.dtype.itemsize <= MOST:
            return _linear(x, weight, bias)
    return _op_by_op(x, weight, bias)


def _op_by_op(x: Any, weight: Any, bias: Any) -> Any:
    y = matmul_t(x, weight)
    return y if bias is None else y + bias_like(bias, y)


@fused("linear", x="NK", weight="MK", bias="M", to="NM")
def _linear(x: Any, weight: Any, bias: Any) -> Any:
    return _op_by_op(x, weight, bias)


def product_of_rows(a: Array, b: Array) -> Array:
    """The sum of the products of the rows of a and b: (n, m)^T @ (n, k) -> (m, k)."""
    (n, m), k = a.shape, b.shape[1]
    most = max(n * m, n * k, m * k) * a.itemsize
    if not eager_kernels.is_large(a) or a.dtype != b.dtype or most > MOST:
        return a.T @ b
    run = _rows_kernel(a.dtype).at([a.shape, b.shape], [(m, k)])
    made = run((np.ascontiguousarray(a), np.ascontiguousarray(b)))
    assert made is not None, f"matrices of other shapes than {a.shape} and {b.shape}"
    return made[0]


@cache
def _rows_kernel(dtype: Dtype) -> Kernel:
    return maker()(
        "product of rows",
        lambda xs: matmul(matrix_transpose(xs[0]), xs[1]),
        ["NM", "NK"],
        (dtype, dtype),
    )
