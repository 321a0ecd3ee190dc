"""autocast: within it, ops that gain from small floats get float16, ops that need room float32.

Which those are is one table. All other ops take what comes, and NumPy's promotion decides: float16
with float32 is float32. Micikevicius et al. 2018, arXiv:1710.03740; the choice of ops is PyTorch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, Self, final

import numpy as np

from chainrule.errors import DtypeError
from chainrule.graph import Variable, apply, around
from chainrule.op import Op
from chainrule.ops.shaping import astype

HALF = np.dtype(np.float16)
SINGLE = np.dtype(np.float32)

PRECISION: dict[str, np.dtype[Any]] = {
    # products: their terms are many and small, and are summed in float32
    **dict.fromkeys(("matmul", "einsum", "conv"), HALF),
    # what leaves float16's range, 6e-8 to 65,504, for ordinary numbers
    **dict.fromkeys(
        ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "pow", "square",
         "reciprocal", "sinh", "cosh", "tan", "asin", "acos", "softplus"),
        SINGLE,
    ),
    # sums of many terms, and what is made of them: means, softmax, losses, normalisations
    **dict.fromkeys(
        ("sum", "logsumexp", "exp_diff", "norm", "cumulative_sum", "cumulative_prod"),
        SINGLE,
    ),
}  # fmt: skip
"""By the name of an op, the dtype that autocast gives its floating-point inputs."""


@final
class autocast(ContextDecorator):  # noqa: N801 (PyTorch's name, and it is used like a function)
    """Within `with autocast():` (or on a function, `@autocast()`) ops compute as `PRECISION` says.

    Tensors of float16 and float32 are cast on the way into the ops that the table names, recorded
    like any `astype`, so that gradients of float32 parameters are float32; float64, complex and
    integer tensors, and NumPy arrays by themselves, are left alone. With `enabled=False` it has no
    effect, and switches an outer one off. The backward pass belongs outside: its dtypes follow from
    those of the forward pass. Only float16 is offered: NumPy has no bfloat16 of its own.

    >>> import chainrule as cr
    >>> x = cr.ones((2, 2))
    >>> with autocast():
    ...     y = x @ x
    >>> y.dtype
    dtype('float16')
    """

    def __init__(self, dtype: Any = np.float16, *, enabled: bool = True) -> None:
        if str(dtype) == "bfloat16" or np.dtype(dtype) != HALF:
            raise DtypeError(f"autocast casts to float16 only, not to {dtype}: see its docstring")
        self.enabled = enabled
        self._tokens: list[Any] = []

    def __enter__(self) -> Self:
        below = _without(around.get())
        self._tokens.append(around.set((_cast, below) if self.enabled else below))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        around.reset(self._tokens.pop())


def _without(outer: Any) -> Any:
    """Those who are handed ops, but for autocast."""
    if outer is None:
        return None
    f, below = outer
    return _without(below) if f is _cast else (f, _without(below))


def _cast(op: Op, xs: Sequence[Any]) -> Any:
    """The op, on inputs of the dtype that the table has for it."""
    dtype = PRECISION.get(op.name)
    if dtype is None or not _fits(xs):
        return apply(op, *xs)
    return apply(op, *[astype(x, dtype) if _castable(x, dtype) else x for x in xs])


def _fits(xs: Sequence[Any]) -> bool:
    """Whether there is a tensor among the inputs, and no number of another kind of precision."""
    dtypes = [x.dtype for x in xs if hasattr(x, "dtype") and x.dtype.kind in "fc"]
    return any(isinstance(x, Variable) for x in xs) and all(d in (HALF, SINGLE) for d in dtypes)


def _castable(x: Any, dtype: np.dtype[Any]) -> bool:
    return hasattr(x, "dtype") and x.dtype.kind == "f" and x.dtype != dtype
