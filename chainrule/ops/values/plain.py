"""Values of rows that are a call or two of NumPy's functions."""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np

from chainrule.engine.dtypes import check_real, rounded_once
from chainrule.ops.values.special_functions import special


@rounded_once
def exp_diff(a: Any, b: Any) -> Any:
    """exp(a - b), and 0 where a is -inf, whatever b is: what a sum of exponentials shares out."""
    y = np.exp(np.subtract(a, b))
    if np.isnan(y).any():
        return np.where(np.equal(a, -np.inf), np.zeros((), y.dtype), y)
    return y


def softplus(x: Any) -> Any:
    """log(1 + e^x)."""
    return np.logaddexp(x, np.zeros((), np.result_type(x)))


erf = special("erf")


def real_only(fn: Any) -> Any:
    """`fn`, which picks by size, for real numbers: NumPy orders complex numbers, too."""

    @wraps(fn, updated=())
    def wrapper(*xs: Any) -> Any:
        y = fn(*xs)
        if y.dtype.char in "FD":
            check_real(fn.__name__, y)
        return y

    return wrapper


sign, maximum, minimum = real_only(np.sign), real_only(np.maximum), real_only(np.minimum)


def one_more(x: Any) -> Any:
    """1 + x; an imaginary part of -0.0 keeps its sign, which says on which side of a cut x lies."""
    if not np.iscomplexobj(x):
        return 1 + x
    y: Any = np.array(x)
    y.real += 1
    return y


@rounded_once
def one_minus_square(x: Any) -> Any:
    """1 - x^2."""
    return one_more(-x) * one_more(x)


@rounded_once
def cos_atan(x: Any) -> Any:
    """1 / sqrt(1 + x^2)."""
    if np.iscomplexobj(x):
        return 1 / np.sqrt(one_more(x * x))
    return 1 / np.hypot(x, np.ones((), np.result_type(x)))


@rounded_once
def cos_angle(a: Any, b: Any) -> Any:
    """a / sqrt(a^2 + b^2), 0 where both are 0."""
    size = np.hypot(a, b)
    return a / (size + (size == 0))


@rounded_once
def per_square(a: Any, b: Any) -> Any:
    """a / (a^2 + b^2), 0 where both are 0."""
    size = np.hypot(a, b)
    size = size + (size == 0)
    return a / size / size


def relu(x: Any) -> Any:
    """x where it is positive, else 0."""
    return maximum(x, 0)


def at_least(a: Any, b: Any) -> Any:
    """The larger one."""
    return maximum(a, b)


def at_most(a: Any, b: Any) -> Any:
    """The smaller one."""
    return minimum(a, b)
