"""Engine: what parts ask of a framework's tensors, optimizers and modules."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

from chainrule.engine.op import Array


class Engine(abc.ABC):
    """What parts ask of a framework's tensors. None of it changes anything."""

    @abc.abstractmethod
    def token(self, tensor: Any) -> tuple[int, ...]:
        """Something that changes when the tensor is replaced or written to."""

    @abc.abstractmethod
    def serial(self) -> int:
        """No node that is there has one above it, none that is to come one below."""

    @abc.abstractmethod
    def norms(self, tensors: Sequence[Any]) -> list[float]:
        """Euclidean norms, NaN or inf if an element is."""

    @abc.abstractmethod
    def listen(self, tensor: Any, hear: Callable[[Sequence[Any]], None]) -> bool:
        """Let `hear` be given the gradients that arrive at a result; False if none can."""

    @abc.abstractmethod
    def copies(self, tensors: Sequence[Any]) -> list[Any]:
        """Their values, as they are now."""

    @abc.abstractmethod
    def moved(self, tensors: Sequence[Any], copies: Sequence[Any]) -> list[float]:
        """Euclidean norms of the differences to what `copies` gave."""

    @abc.abstractmethod
    def array(self, values: Any) -> Array:
        """What a tensor holds, in NumPy, in float32 or wider."""

    @abc.abstractmethod
    def params(self, optimizer: Any) -> list[Any]:
        """Parameters of an optimizer, each once, in its order."""

    @abc.abstractmethod
    def modules(self, root: Any) -> list[tuple[str, Any]]:
        """A module and all below it, by name; its own is ''."""

    @abc.abstractmethod
    def own(self, module: Any) -> list[tuple[str, Any]]:
        """Parameters of a module that are not those of a module below it, by name."""
