"""Layers of one, two and three axes, written once: each class says how many it is for."""

from __future__ import annotations

from types import FunctionType
from typing import Any, ClassVar, cast

from chainrule.nn.base.module import Module
from chainrule.ops.windows.dimensions import spelled


class SizedModule(Module):
    """A layer of x (N, C, *size) with `ndim` sizes: `class Conv2d(_Conv, ndim=2)`.

    Such a class has its own `forward`, of which the docstring is for so many axes.
    """

    ndim: ClassVar[int]

    def __init_subclass__(cls, *, ndim: int | None = None) -> None:
        super().__init_subclass__()
        if ndim is not None:
            cls.ndim = ndim
            forward: Any = _copy(cast(FunctionType, cls.forward))
            forward.__qualname__ = f"{cls.__name__}.forward"
            forward.__doc__ = spelled(forward.__doc__ or "", ndim)
            cls.forward = forward


def _copy(f: FunctionType) -> FunctionType:
    copy = FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    copy.__kwdefaults__, copy.__annotations__ = f.__kwdefaults__, f.__annotations__
    copy.__doc__, copy.__module__ = f.__doc__, f.__module__
    return copy
