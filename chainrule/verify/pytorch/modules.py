"""Calls of PyTorch's modules, told to whoever listens.

Not by PyTorch's global hooks: with one of them in place every call of a module takes the long way
through all kinds of hooks.
"""

from __future__ import annotations

import threading
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
        """A module is being called; what is returned is given to `leaves`. `NOTHING` says that it
        need not hear of calls without a graph that are made within this one."""

    @abstractmethod
    def leaves(self, module: Any, token: Any, output: Any) -> None:
        """The call is over; `output` is None if it has failed."""


NOTHING: Any = object()
"""Nothing within a call is of interest, as long as no graph is recorded."""
_listeners: tuple[Listener, ...] = ()
_patches = Patches()


class _Thread(threading.local):
    """What holds for one thread."""

    dull = False
    """Whether a call is running within which nothing is of interest."""


_here = _Thread()


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
    """`Module.__call__` that tells listeners, outermost calls with a graph first."""

    @wraps(call)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        listeners = _listeners
        if not listeners or (_here.dull and not torch.is_grad_enabled()):
            return call(self, *args, **kwargs)
        before, dull, rows, output = _here.dull, True, list[tuple[Listener, Any]](), None
        for each in listeners:
            token = each.enters(self, args)
            dull = dull and token is NOTHING
            rows.append((each, token))
        _here.dull = dull
        try:
            output = call(self, *args, **kwargs)
            return output
        finally:
            _here.dull = before
            for each, token in rows:
                each.leaves(self, token, output)

    return told
