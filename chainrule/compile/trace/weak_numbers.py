"""Python numbers while they are traced: placeholders that take the dtype of what they meet.

`2.0 * x` has the dtype of x whatever that is. So has `s * x` if s is a Python float that a compiled
function is given. So its placeholder is marked weak, and cast where it meets another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import apply, placeholder, variable
from chainrule.engine.node import Variable
from chainrule.engine.op import Op, Spec
from chainrule.ops.shapes.shaping import Astype

_LIKE: dict[str, Any] = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}


def weak_placeholder(dtype: np.dtype[Any]) -> Any:
    """A placeholder for a Python number."""
    return as_python_number(placeholder((), dtype))


def as_python_number(x: Any) -> Any:
    """The placeholder `x`, which has no axes, as a Python number."""
    x.value = Spec((), x.value.dtype, True)
    return x


def is_weak(x: Any) -> bool:
    """Whether `x` is a placeholder for a Python number."""
    return isinstance(x, Variable) and x.value.__class__ is Spec and x.value.weak


def apply_weak(op: Op, xs: Sequence[Any]) -> Any:
    """`op` on `xs`, of which some are weak: they are cast, or, if all are, the result is weak."""
    if op.passes or op.many or isinstance(op, Astype):
        return apply(op, *xs)
    deciding = xs[1:] if op.name == "where" else xs
    strong = [x.dtype for x in deciding if hasattr(x, "dtype") and not is_weak(x)]
    if strong:
        met = np.result_type(*strong)
        return apply(op, *[_cast(x, met) if is_weak(x) else x for x in xs])
    y = apply(op, *xs)
    return as_python_number(y) if not any(hasattr(x, "dtype") and not is_weak(x) for x in xs) else y


def _cast(x: Any, met: np.dtype[Any]) -> Any:
    """The Python number `x` beside arrays of dtype `met`."""
    wide = x.dtype.kind == "c" or met.kind not in INEXACT
    return strong(x, np.result_type(met, _LIKE[x.dtype.kind]) if wide else met)


def strong(x: Any, dtype: np.dtype[Any]) -> Any:
    """The Python number `x` as a tensor of `dtype`."""
    if x.dtype == dtype:
        return variable(Spec((), dtype), x.node)
    return apply(Astype(dtype), x)
