"""autocast: within it, ops that gain from small floats get them, ops that need room float32.

Which those are is two lists. All other ops take what comes, and promotion decides: float16 or
bfloat16 with float32 is float32. Micikevicius et al. 2018, arXiv:1710.03740; the choice of ops is
PyTorch's (its lists for CUDA, which also say float32 for what float16 has no range for).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Self, final

import numpy as np

from chainrule.engine.dtypes import INEXACT, NARROW, Dtype, float16, float32
from chainrule.engine.graph import Node, Variable, apply, around
from chainrule.engine.op import Array, Need, Op, Spec, new_op
from chainrule.errors import DtypeError
from chainrule.ops.shapes.shaping import astype

LOWERED = frozenset(("matmul", "einsum", "conv", "conv_transpose"))
"""By name the ops that compute in autocast's dtype: products, whose terms are many and small, and
are summed in float32."""

WIDENED = frozenset(
    (
        # what leaves float16's range, 6e-8 to 65,504, for ordinary numbers
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "pow", "square"),
        *("reciprocal", "sinh", "cosh", "tan", "asin", "acos", "softplus"),
        # sums of many terms, and what is made of them: means, softmax, losses, normalisations
        *("sum", "logsumexp", "exp_diff", "norm", "cumulative_sum", "cumulative_prod"),
    )
)
"""By name the ops that compute in float32."""

Casts = dict[tuple[Node, Dtype], tuple[Array, Op]]
"""By a parameter's node and a dtype, the array that it held, and the op that casts it."""

_casts: ContextVar[Casts | None] = ContextVar("casts", default=None)
_casters: dict[Dtype, Callable[[Op, Sequence[Any]], Any]] = {}


@final
class autocast(ContextDecorator):  # noqa: N801 (PyTorch's name, and it is used like a function)
    """Within `with autocast():` (or on a function, `@autocast()`) ops compute in small floats.

    `dtype` is float16 or bfloat16. Tensors of float16, bfloat16 and float32 are cast on the way
    into ops: to `dtype` for those of `LOWERED`, to float32 for those of `WIDENED`. A cast is
    recorded like any `astype`, so gradients of float32 parameters are float32. Other dtypes, and
    NumPy arrays by themselves, stay as they are. A parameter is cast once, and again only if it has
    changed. A bias joins a product in the product's dtype; normalisations and losses end in
    float32. With `enabled=False` it has no effect, and switches an outer one off. The backward pass
    belongs outside: its dtypes follow from those of the forward pass.

    float16 needs a `GradScaler`, because gradients below 6e-8 vanish in it. bfloat16 has the range
    of float32 and needs none; it has 3 bits less of precision.

    >>> import chainrule as cr
    >>> x = cr.ones((2, 2))
    >>> with cr.autocast():
    ...     y = x @ x
    >>> y.dtype
    dtype('float16')
    """

    def __init__(self, dtype: Any = np.float16, *, enabled: bool = True) -> None:
        try:
            self.dtype = np.dtype(dtype)
        except TypeError as cause:
            raise DtypeError(
                f"autocast: {dtype!r} is no dtype; give cr.float16 or cr.bfloat16"
            ) from cause
        if self.dtype != float16 and self.dtype.name != "bfloat16":
            raise DtypeError(f"autocast casts to float16 or bfloat16, not to {self.dtype}")
        self.enabled = enabled
        self._tokens: list[tuple[Token[Any], Token[Casts | None]]] = []

    def __enter__(self) -> Self:
        below = _without(around.get())
        kept = _casts.get()
        self._tokens.append(
            (
                around.set((_caster(self.dtype), below) if self.enabled else below),
                _casts.set({} if kept is None else kept),
            )
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        outer, casts = self._tokens.pop()
        around.reset(outer)
        _casts.reset(casts)


def _without(outer: Any) -> Any:
    """Those who are handed ops, but for autocast."""
    if outer is None:
        return None
    f, below = outer
    return _without(below) if f in _casters.values() else (f, _without(below))


def _caster(low: Dtype) -> Callable[[Op, Sequence[Any]], Any]:
    """What ops are handed to within `autocast(low)`: always the same function."""
    if low not in _casters:

        def cast(op: Op, xs: Sequence[Any]) -> Any:
            name = op.name
            if name == "rounded":  # a composite has computed in float32: that is what is wanted
                return xs[0]
            dtype = low if name in LOWERED else float32 if name in WIDENED else None
            if dtype is None or not _fits(xs):
                return apply(op, *xs)
            return apply(op, *[_as(x, dtype) if _castable(x, dtype) else x for x in xs])

        _casters[low] = cast
    return _casters[low]


def _fits(xs: Sequence[Any]) -> bool:
    """Whether there is a tensor among the inputs, and no number of another kind of precision."""
    dtypes = [x.dtype for x in xs if hasattr(x, "dtype") and x.dtype.kind in INEXACT]
    small = all(d == float32 or d.char in NARROW for d in dtypes)
    return small and any(isinstance(x, Variable) for x in xs)


def _castable(x: Any, dtype: Dtype) -> bool:
    return hasattr(x, "dtype") and x.dtype.kind in INEXACT and x.dtype != dtype


def _as(x: Any, dtype: Dtype) -> Any:
    """`x` as `dtype`; the rounded array of a parameter is kept until the outermost autocast ends.

    It serves only as long as the parameter holds the same array, which no optimizer can have
    written to, since it is held here. The graph gets a node for each use: gradients of several uses
    are added up in the parameter's dtype, and no backward pass takes it away.
    """
    node, casts = getattr(x, "node", None), _casts.get()
    leaf = node is not None and node.op is None and node.needs
    if casts is None or node is None or not leaf or type(x.value) is Spec:
        return astype(x, dtype)
    known = casts.get((node, dtype))
    if known is not None and known[0] is x.value:
        return apply(known[1], x)
    made = astype(x, dtype)
    casts[node, dtype] = x.value, new_op(Cast, made.value)
    return made


@final
class Cast(Op):
    """`astype` of one array, which is `value` in that dtype: known, and not computed again."""

    value: Array

    @property
    def name(self) -> str:
        """`astype`."""
        return "astype"

    def eval(self, *xs: Any) -> Any:
        """The array."""
        return self.value

    def spec(self, *xs: Any) -> Spec:
        """Its shape and dtype."""
        return Spec(self.value.shape, self.value.dtype)

    def reads(self, i: int) -> tuple[int, ...]:
        """Nothing."""
        return ()

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` as the dtype that it was."""
        return (astype(g, xs[0].dtype),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangent in the small dtype."""
        return astype(ts[0], self.value.dtype)
