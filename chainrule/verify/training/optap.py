"""PyTorch's ops as events, while their results can still be looked at.

A mode for torch functions sees every op that a program calls by name or operator, with the user's
line on the stack. It is off where a backward pass or an optimizer runs, and where a model without
gradients is evaluated: PyTorch chooses other kernels there when somebody looks on.
"""

from __future__ import annotations

from importlib import import_module
from threading import get_ident
from typing import Any, final

from chainrule.verify import modes
from chainrule.verify.training import events
from chainrule.verify.training.bus import Bus, Tap
from chainrule.verify.training.holders import tensors
from chainrule.verify.training.torchengine import TorchEngine, is_abstract
from chainrule.verify.training.torchtap import TorchTap

_SILENT = frozenset({"__get__", "__set__", "__delete__", "backward", "requires_grad_"})
"""What is no op: attributes of tensors."""
_READ = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})
"""Attributes that are ops."""


@final
class OpTap(Tap):
    """Puts events of ops on the bus."""

    def __init__(self, main: TorchTap) -> None:
        self._main = main
        self._mode: Any = None
        self._paused = False
        self._quiet: list[Any] = []  # modules whose call has switched us off

    def put(self, bus: Bus) -> None:
        """Enter the mode."""
        self._torch: Any = import_module("torch")
        self._bus, self._engine = bus, TorchEngine()
        self._mode, self._thread = self._made(), get_ident()
        modes.push(self._mode)
        self._main.pauses = self

    def take(self) -> None:
        """Leave the mode, wherever it stands on the stack."""
        self.leave()

    def _made(self) -> Any:
        see = self._see
        base: Any = import_module("torch.overrides").TorchFunctionMode

        class Ops(base):
            def __torch_function__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                kwargs = kwargs or {}
                y = func(*args, **kwargs)
                see(func, args, kwargs, y)
                return y

        return Ops()

    def _see(self, func: Any, args: Any, kwargs: Any, y: Any) -> None:
        try:
            self._tell(func, args, kwargs, y)
        except Exception as error:
            note = "ops", f"an error of the verifier: {type(error).__name__}: {error}"
            if note not in self._bus.notes:
                self._bus.notes.append(note)

    def _tell(self, func: Any, args: Any, kwargs: Any, y: Any) -> None:
        name: str = getattr(func, "__name__", "")
        if name in _SILENT:
            name = getattr(getattr(func, "__self__", None), "__name__", "")
            if name not in _READ:
                return
        if not is_abstract(self._torch) and self._bus.hears(events.OpRan):
            with self._torch._C.DisableTorchFunction():
                inputs, outputs = tensors(args), tensors(y)
                self._bus.tell(events.OpRan(self._engine, name, args, kwargs, y, inputs, outputs))

    # --- the stack of modes

    def pause(self) -> None:
        """See nothing for now: a backward pass, an optimizer or a part of ours is at work."""
        if not self._paused and self._is_here():
            self._paused = modes.pull(self._mode)

    def leave(self) -> None:
        """See no more."""
        modes.pull(self._mode)
        self._main.pauses = None
        self._paused = False
        self._quiet.clear()

    def resume(self) -> None:
        """See again."""
        if self._paused and self._is_here():
            self._paused = False
            modes.push(self._mode)

    def _is_here(self) -> bool:
        """Whether this is the thread whose stack has our mode; every thread has a stack."""
        return get_ident() == self._thread

    def enters(self, module: Any) -> None:
        """See nothing of a call that trains nothing."""
        if self._quiet:
            return
        self.resume()  # what was to end the pause may have failed
        untrained = is_abstract(self._torch) or self._is_untrained(module)
        if untrained and self._is_here() and modes.pull(self._mode):
            self._quiet.append(module)

    def _is_untrained(self, module: Any) -> bool:
        """Whether nothing is trained in this call, so that PyTorch may choose faster ways."""
        if not self._torch.is_grad_enabled():
            return True
        return not module.training and not any(p.requires_grad for p in module.parameters())

    def leaves(self, module: Any) -> None:
        """That call is over."""
        if self._quiet and self._quiet[-1] is module and self._is_here():
            self._quiet.pop()
            modes.push(self._mode)
