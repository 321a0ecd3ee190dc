"""Recording rests where nothing is trained: while a model is evaluated or sampled from.

A call without a graph may be a cut in a step, so the first ones are recorded; but not those of a
model in eval mode, and not the thousands that a loop over a test set makes.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any, final

import torch
from torch.nn.modules import module

from chainrule.verify import modes
from chainrule.verify.patches import Patches

MOST = 500
"""Calls in a row without a graph after which the rest of them is not recorded."""
_SWITCHES: tuple[tuple[type, str], ...] = (
    (torch.no_grad, "__exit__"),
    (torch.inference_mode, "__exit__"),
    (torch.set_grad_enabled, "__init__"),
    (torch.set_grad_enabled, "__exit__"),
)
"""What may switch autograd on again."""


@final
class Rest:
    """Keeps a mode on the stack from `start` to `stop`, but where it rests."""

    def __init__(self, mode: Any) -> None:
        self._mode = mode
        self._off = 0
        self._rests = False
        self._paused = False
        self._evaluated: Any = None
        self._patches = Patches()
        self._hooks: list[Any] = []

    def start(self) -> None:
        """Put the mode on the stack, which every thread has one of."""
        self._thread = get_ident()
        modes.push(self._mode)
        for owner, name in _SWITCHES:
            self._patches.put(owner, name, self._switching)
        self._hooks = [
            module.register_module_forward_pre_hook(self._enters),
            module.register_module_forward_hook(self._leaves, always_call=True),
        ]

    def stop(self) -> None:
        """Take it away."""
        self._patches.undo()
        for hook in self._hooks:
            hook.remove()
        self._paused = False
        modes.pull(self._mode)

    def pause(self) -> None:
        """Take it away while a backward pass or an optimizer runs."""
        if not (self._rests or self._paused) and self._is_here():
            self._paused = modes.pull(self._mode)

    def resume(self) -> None:
        """Put it back."""
        if self._paused and self._is_here():
            self._paused = False
            modes.push(self._mode)

    def counted(self) -> bool:
        """Whether this call is still to be recorded."""
        self._off = 0 if torch.is_grad_enabled() else self._off + 1
        if self._off > MOST:
            self._rest()
        return not self._rests

    def _rest(self) -> None:
        self._rests = True
        modes.pull(self._mode)

    def _is_here(self) -> bool:
        return get_ident() == self._thread

    def _wake(self) -> None:
        if self._rests and torch.is_grad_enabled() and self._is_here():
            self._rests, self._off, self._evaluated = False, 0, None
            modes.push(self._mode)

    def _switching(self, switch: Callable[..., Any]) -> Callable[..., Any]:
        def switched(*args: Any, **kwargs: Any) -> Any:
            result = switch(*args, **kwargs)
            self._wake()
            return result

        return switched

    def _enters(self, called: Any, inputs: Any) -> None:
        if self._rests and not torch.is_grad_enabled():
            return
        self.resume()  # what was to end the pause may have failed
        self._wake()
        if self._is_here() and not (called.training or torch.is_grad_enabled()):
            self._evaluated = called
            self._rest()

    def _leaves(self, called: Any, inputs: Any, output: Any) -> None:
        if self._evaluated is called and self._is_here():
            self._evaluated, self._rests = None, False
            modes.push(self._mode)
