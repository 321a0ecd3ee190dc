"""Seen: the calls of PyTorch's that a program makes, handed to whoever looks on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

from torch.overrides import TorchFunctionMode


class Seen(TorchFunctionMode, ABC):
    """A mode that states what it makes of a call, and nothing of PyTorch's protocol."""

    @abstractmethod
    def called(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What the program gets; `func(*args, **kwargs)` is what it asked for."""

    @final
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.called(func, args, kwargs or {})
