"""PyTorch's ops as events, while their results can still be looked at.

Every op that a program calls by name or operator is seen, with the user's line on the stack; but
not where a backward pass or an optimizer runs, nor where a model without gradients is evaluated:
PyTorch chooses other kernels there when somebody looks on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import get_ident
from typing import Any, final

import torch

from chainrule.verify.pytorch.door import Call, Onlooker, look, look_away
from chainrule.verify.training import events
from chainrule.verify.training.bus import Bus, Tap
from chainrule.verify.training.ordinary import TAME, VIEWS
from chainrule.verify.training.torchengine import TorchEngine, is_abstract
from chainrule.verify.training.torchtap import TorchTap
from chainrule.verify.training.units import ACTIVATIONS

_next: Callable[[], int] = torch.autograd._get_sequence_nr  # pyright: ignore
_WIDE = (torch.float32, torch.float64)
_ORDINARY = TAME - ACTIVATIONS


@final
class _Ops(Onlooker):
    """Makes events of calls."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._engine = TorchEngine()

    def before(self, call: Call) -> int:
        """The serial number of the first node that it makes, if it makes any."""
        return _next()

    def after(self, call: Call, token: int) -> None:
        """Tell of the op, if it is not an ordinary one."""
        bus = self._bus
        bus.ops += 1
        try:
            if is_abstract(torch) or (not bus.attentive and _is_ordinary(call)):
                return
            if bus.hears(events.OpRan):
                name, made = call.kind.name, call.made
                bus.tell(
                    events.OpRan(
                        self._engine, name, call.args, call.kwargs, call.y, made, call.total, token
                    )
                )
        except Exception as error:
            note = "ops", f"an error of the verifier: {type(error).__name__}: {error}"
            if note not in bus.notes:
                bus.notes.append(note)


def _is_ordinary(call: Call) -> bool:
    """Whether a call's results have a graph and are finite in a wide dtype, and its rule makes
    finite gradients of finite ones."""
    name = call.kind.name
    view = name in VIEWS
    if not (view or name in _ORDINARY):
        return False
    for i, y in enumerate(call.made):
        if y.dtype not in _WIDE or not y.requires_grad:
            return False
        if not view:
            total = call.total(i)
            if total is None or not math.isfinite(total):
                return False
    return bool(call.made)


@final
class OpTap(Tap):
    """Puts events of ops on the bus."""

    def __init__(self, main: TorchTap) -> None:
        self._main = main
        self._paused = False
        self._quiet: list[Any] = []  # modules whose call has switched us off

    def put(self, bus: Bus) -> None:
        """Begin to look."""
        self._ops, self._thread = _Ops(bus), get_ident()
        look(self._ops)
        self._main.pauses = self

    def take(self) -> None:
        """Look no more."""
        self.leave()

    def pause(self) -> None:
        """See nothing for now: a backward pass, an optimizer or a part of ours is at work."""
        if not self._paused and self._is_here():
            self._paused = look_away(self._ops)

    def leave(self) -> None:
        """See no more."""
        look_away(self._ops)
        self._main.pauses = None
        self._paused = False
        self._quiet.clear()

    def resume(self) -> None:
        """See again."""
        if self._paused and self._is_here():
            self._paused = False
            look(self._ops)

    def _is_here(self) -> bool:
        """Whether this is the thread in which we look; others have a door of their own."""
        return get_ident() == self._thread

    def enters(self, module: Any) -> None:
        """See nothing of a call that trains nothing."""
        if self._quiet:
            return
        if self._paused:
            self.resume()  # what was to end the pause may have failed
        trains = torch.is_grad_enabled() and module.training  # as nearly all calls do
        if not is_abstract(torch) and (trains or not self._is_untrained(module)):
            return
        if self._is_here() and look_away(self._ops):
            self._quiet.append(module)

    def _is_untrained(self, module: Any) -> bool:
        """Whether nothing is trained in this call, so that PyTorch may choose faster ways."""
        if not torch.is_grad_enabled():
            return True
        return not module.training and not any(p.requires_grad for p in module.parameters())

    def leaves(self, module: Any) -> None:
        """That call is over."""
        if self._quiet and self._quiet[-1] is module and self._is_here():
            self._quiet.pop()
            look(self._ops)
