"""Calls of PyTorch's modules, told to whoever listens.

Not by PyTorch's global hooks: with one of them in place every call of a module takes the long way
through all kinds of hooks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from chainrule.verify.patches import Patches


class Listener(ABC):
    """Is told when a module is called and when the call is over; neither method may raise."""

    @abstractmethod
    def enters(self, module: Any, inputs: tuple[Any, ...]) -> Any:
        """A module is being called; what is returned is given to `leaves`."""

    @abstractmethod
    def leaves(self, module: Any, token: Any, output: Any) -> None:
        """The call is over; `output` is None if it has failed."""


_listeners: tuple[Listener, ...] = ()
_patches = Patches()


def listen(listener: Listener) -> None:
    """Tell a listener of all calls from now on, in every thread."""
    global _listeners
    _listeners = (*_listeners, listener)
    if not _patches.on:
        _patches.put(torch.nn.Module, "__call__", _told)


def unlisten(listener: Listener) -> None:
    """Tell it no more."""
    global _listeners
    _listeners = tuple([each for each in _listeners if each is not listener])
    if not _listeners:
        _patches.undo()


def _told(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        listeners = _listeners
        if not listeners:
            return call(self, *args, **kwargs)
        rows = [(each, each.enters(self, args)) for each in listeners]
        output = None
        try:
            output = call(self, *args, **kwargs)
            return output
        finally:
            for each, token in rows:
                each.leaves(self, token, output)

    return told
