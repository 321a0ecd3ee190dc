"""Code written for float32 or less, run in float64.

A forward is verified in float64 although its author casts to float32, makes constants in the
default dtype, or draws float32 noise. Inside `Widened` such code computes in float64 throughout, on
the very numbers that it would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from chainrule.verify.pytorch.call_observers import Seen

_WIDE: dict[torch.dtype, torch.dtype] = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
_CASTS: frozenset[Any] = frozenset([Tensor.float, Tensor.half, Tensor.bfloat16])
_DRAWN: frozenset[Any] = frozenset(
    [torch.rand, torch.randn, torch.rand_like, torch.randn_like, torch.normal]
)
_FILLED: frozenset[Any] = frozenset(
    [
        *(Tensor.uniform_, Tensor.normal_, Tensor.exponential_, Tensor.log_normal_),
        *(Tensor.cauchy_, Tensor.geometric_),
    ]
)
_MISMATCH = ("dtype", "scalar type", "ScalarType")


_mapped: Callable[..., Any] = pytree.tree_map_only


class Widened(Seen):
    """While active: casts to a narrower float dtype go to float64, random numbers are drawn in
    `drawn` (the dtype of the point) and widened, operands of different widths are both widened."""

    def __init__(self, drawn: torch.dtype) -> None:
        super().__init__()
        self._drawn = drawn

    def called(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The call, in float64."""
        if func in _CASTS:
            x = cast("Tensor", args[0])
            return x.to(torch.complex128 if x.is_complex() else torch.float64)
        if func in _DRAWN:
            drawn = func(*args, **{**kwargs, **self._dtype_for(func, kwargs)})
            return wide(drawn)
        if func in _FILLED:
            return self._filled(func, args, kwargs)
        args = tuple([_wide(x) if isinstance(x, torch.dtype) else x for x in args])
        if "dtype" in kwargs:
            kwargs = {**kwargs, "dtype": _wide(kwargs["dtype"])}
        try:
            return func(*args, **kwargs)
        except RuntimeError as cause:
            if not any(word in str(cause) for word in _MISMATCH):
                raise
            given = _mapped(Tensor, wide, (args, kwargs))
            return func(*given[0], **given[1])

    def _dtype_for(self, func: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        if func is torch.normal or "out" in kwargs:
            return {}
        return {"dtype": kwargs.get("dtype") or self._drawn}

    def _filled(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        x = cast("Tensor", args[0])
        drawn = func(torch.empty_like(x, dtype=self._drawn), *args[1:], **kwargs)
        with torch.no_grad():
            return x.copy_(drawn)


def _wide(dtype: Any) -> Any:
    return _WIDE.get(dtype, dtype)


def wide(x: Tensor) -> Tensor:
    """x in float64 or complex128 if its dtype is narrower, else x itself."""
    return x.to(_WIDE[x.dtype]) if x.dtype in _WIDE else x


class _DefaultDtype(AbstractContextManager[None]):
    """Constants are made in `dtype` inside."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._before = torch.get_default_dtype()

    def __enter__(self) -> None:
        self._before = torch.get_default_dtype()
        torch.set_default_dtype(self._dtype)

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(self._before)


def running_in(given: torch.dtype | None, point: torch.dtype | None) -> AbstractContextManager[Any]:
    """What to run a forward in whose floats are of dtype `given`, captured with dtype `point`."""
    if given is None or point is None or _WIDE.get(point) != given:
        return nullcontext()
    stack = ExitStack()
    real = torch.float32 if point.is_complex else point
    stack.enter_context(_DefaultDtype(torch.float64))
    stack.enter_context(Widened(real))
    return stack


def widest(xs: Any) -> torch.dtype | None:
    """The float dtype of the first float tensor in xs, None if there is none."""
    for x in pytree.tree_leaves(xs):
        if isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex()):
            return x.dtype
    return None
