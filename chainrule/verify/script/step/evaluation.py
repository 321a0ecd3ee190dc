"""Recording rests where nothing is trained: while a model is evaluated or sampled from.

A call without a graph may be a cut in a step, so the first ones are recorded; but not those of a
model in eval mode, and not the thousands that a loop over a test set makes.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any, final

import torch

from chainrule.verify.patches import Patches
from chainrule.verify.pytorch.door import Onlooker, look, look_away
from chainrule.verify.pytorch.modules import NOTHING, Listener, listen, unlisten

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
class EvaluationPause(Listener):
    """Lets an onlooker look from `start` to `stop`, but where it rests."""

    def __init__(self, onlooker: Onlooker) -> None:
        self._onlooker = onlooker
        self._off = 0
        self._rests = False
        self._evaluated: Any = None
        self._patches = Patches()

    def start(self) -> None:
        """Let it look at the calls of this thread."""
        self._thread = get_ident()
        look(self._onlooker)
        for owner, name in _SWITCHES:
            self._patches.put(owner, name, self._switching)
        listen(self)

    def stop(self) -> None:
        """Let it look no more."""
        self._patches.undo()
        unlisten(self)
        look_away(self._onlooker)

    def count(self) -> bool:
        """Whether this call is still to be recorded."""
        self._off = 0 if torch.is_grad_enabled() else self._off + 1
        if self._off > MOST:
            self._rest()
        return not self._rests

    def _rest(self) -> None:
        self._rests = True
        look_away(self._onlooker)

    def _is_here(self) -> bool:
        return get_ident() == self._thread

    def _wake(self) -> None:
        if self._rests and torch.is_grad_enabled() and self._is_here():
            self._rests, self._off, self._evaluated = False, 0, None
            look(self._onlooker)

    def _switching(self, switch: Callable[..., Any]) -> Callable[..., Any]:
        def switched(*args: Any, **kwargs: Any) -> Any:
            result = switch(*args, **kwargs)
            self._wake()
            return result

        return switched

    def enters(self, module: Any, inputs: tuple[Any, ...]) -> Any:
        """A module is called: one in eval mode and without a graph is not looked into."""
        if self._rests and not torch.is_grad_enabled():
            return NOTHING
        self._wake()
        if self._is_here() and not (module.training or torch.is_grad_enabled()):
            self._evaluated = module
            self._rest()
            return NOTHING
        return None

    def leaves(self, module: Any, token: Any, output: Any) -> None:
        """Its call is over."""
        if self._evaluated is module and self._is_here():
            self._evaluated, self._rests = None, False
            look(self._onlooker)
