"""New tensors from sizes and numbers, by the Array API standard's names.

dtype None is float32 (arange: int64 for integers); `device` is "cpu" or None.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, cast

import numpy as np

from chainrule.engine.arrays import admit_dtype
from chainrule.engine.dtypes import Dtype, check_device
from chainrule.engine.graph import Variable, variable
from chainrule.engine.tensors import FLOAT, Tensor, asarray, to_array
from chainrule.errors import ShapeError
from chainrule.ops.families import broadcast_to

Sizes = int | Sequence[int]


def _shape(shape: Sizes) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int | np.integer) else shape
    try:
        sizes = tuple([index(n) for n in sizes])
    except TypeError as cause:
        raise ShapeError(f"a shape is an integer or several, not {shape!r}") from cause
    if any(n < 0 for n in sizes):
        raise ShapeError(f"sizes must not be negative: {tuple(sizes)}")
    return tuple([int(n) for n in sizes])


def _dtype(dtype: Any) -> Dtype:
    return FLOAT if dtype is None else admit_dtype(dtype)


def _new(array: Any, device: Any, requires_grad: bool = False) -> Tensor:
    check_device(device)
    made = variable(np.asarray(array))
    return made.requires_grad_() if requires_grad else made


def zeros(
    shape: Sizes, dtype: Any = None, *, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of zeros.

    >>> cr.zeros((2, 3), dtype=cr.float64)
    tensor([[0., 0., 0.],
            [0., 0., 0.]], dtype=float64)
    """
    return _new(np.zeros(_shape(shape), _dtype(dtype)), device, requires_grad)


def ones(
    shape: Sizes, dtype: Any = None, *, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of ones.

    >>> cr.ones((2, 3))
    tensor([[1., 1., 1.],
            [1., 1., 1.]], dtype=float32)
    """
    return _new(np.ones(_shape(shape), _dtype(dtype)), device, requires_grad)


def empty(shape: Sizes, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor whose elements nobody should rely on (zeros).

    >>> cr.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype, device=device)


def full(shape: Sizes, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor with every element `fill_value`, whose kind gives the dtype if that is None.

    `fill_value` is one number, or a tensor without axes, to which gradients flow.

    >>> cr.full((2, 2), 5.0)
    tensor([[5., 5.],
            [5., 5.]], dtype=float32)
    """
    if isinstance(fill_value, Variable):
        check_device(device)
        return broadcast_to(asarray(fill_value, dtype), _shape(shape))
    value = to_array(fill_value, dtype, copy=False)
    return _new(np.full(_shape(shape), value, value.dtype), device)


def zeros_like(x: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Zeros of the shape and dtype of `x`.

    >>> cr.zeros_like(cr.tensor([5.0, 6.0]))
    tensor([0., 0.], dtype=float32)
    """
    return zeros(x.shape, dtype or x.dtype, device=device)


def ones_like(x: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Ones of the shape and dtype of `x`.

    >>> cr.ones_like(cr.tensor([5.0, 6.0]))
    tensor([1., 1.], dtype=float32)
    """
    return ones(x.shape, dtype or x.dtype, device=device)


def empty_like(x: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of the shape and dtype of `x` whose elements nobody should rely on.

    >>> cr.empty_like(cr.ones((2, 3))).shape
    (2, 3)
    """
    return zeros_like(x, dtype, device=device)


def full_like(x: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of the shape and dtype of `x` with every element `fill_value`.

    >>> cr.full_like(cr.ones(2), 5.0)
    tensor([5., 5.], dtype=float32)
    """
    return full(x.shape, fill_value, dtype or x.dtype, device=device)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    """start, start + step, ... below stop (0 to `start` if stop is None): int64, or float32.

    >>> cr.arange(0.0, 1.0, 0.25)
    tensor([0.  , 0.25, 0.5 , 0.75], dtype=float32)
    """
    first, last = (0, start) if stop is None else (start, stop)
    if dtype is None and any(isinstance(v, float) for v in (start, stop, step)):
        dtype = FLOAT
    if step == 0:
        raise ShapeError("arange: step must not be 0")
    known = None if dtype is None else admit_dtype(dtype)
    return _new(np.arange(first, last, step, dtype=known), device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    dtype: Any = None,
    *,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` numbers at equal distances from start to stop, stop included if `endpoint`.

    float32, or complex64 if an end is complex.

    >>> cr.linspace(0.0, 1.0, 3)
    tensor([0. , 0.5, 1. ], dtype=float32)
    """
    if num < 0:
        raise ShapeError(f"linspace: num must not be negative: {num}")
    made = cast(Any, np.linspace)(start, stop, num, endpoint=endpoint)
    kind = np.result_type(FLOAT, *[_kind(v) for v in (start, stop)])
    return _new(made.astype(_dtype(dtype or kind)), device)


def logspace(
    start: float,
    stop: float,
    num: int,
    base: float = 10.0,
    dtype: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    """`num` numbers from base**start to base**stop, each the same multiple of the one before it.

    >>> cr.logspace(0.0, 2.0, 3)
    tensor([  1.,  10., 100.], dtype=float32)
    """
    if num < 0:
        raise ShapeError(f"logspace: num must not be negative: {num}")
    made = base ** cast(Any, np.linspace)(start, stop, num)
    return _new(made.astype(_dtype(dtype)), device)


def _kind(number: complex) -> Any:
    """A number that promotes a dtype to complex if this one is."""
    return 0j if isinstance(number, complex) else 0.0


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Ones on the k-th diagonal of a (n_rows, n_cols) matrix of zeros.

    >>> cr.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]], dtype=float32)
    """
    return _new(np.eye(n_rows, n_cols, k, dtype=_dtype(dtype)), device)
