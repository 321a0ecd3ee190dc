"""What else stands in a chainrule loop: gradient scalers, clipping, schedules of learning rates."""

from __future__ import annotations

import math
from typing import Any, final

from chainrule import optim
from chainrule.amp import GradScaler
from chainrule.graph import tracer
from chainrule.optim import clip
from chainrule.optim.scheduler import Scheduler
from chainrule.tensors import Tensor
from chainrule.verify.patches import Patches
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Tap
from chainrule.verify.training.record.native_engine import OwnEngine
from chainrule.verify.training.record.native_loop import OwnTap
from chainrule.verify.where import place


@final
class OwnAmpTap(Tap):
    """Puts events of scalers, clipping and schedules on the bus."""

    def __init__(self, main: OwnTap) -> None:
        self._main = main
        self._patched = Patches()
        self._engine = OwnEngine()

    def put(self, bus: Bus) -> None:
        """Replace functions of chainrule by ones that tell."""
        self._bus = bus
        self._patched.after(GradScaler, "scale", self._scaled)
        self._patched.after(GradScaler, "unscale_", self._unscaled)
        self._patched.after(GradScaler, "step", self._scaler_step)
        for module in (optim, clip):
            self._patched.after(module, "clip_grad_norm", self._clipped)
            self._patched.after(module, "clip_grad_value", self._clipped)
        self._patched.before(Scheduler, "step", self._scheduled)

    def take(self) -> None:
        """Put everything back."""
        self._patched.undo()

    def _tell(self, event: Any) -> None:
        if tracer() is None:
            self._bus.tell(event)

    def _scaled(self, _: Tensor, scaler: GradScaler, loss: Tensor) -> None:
        if scaler.enabled:
            self._main.scale = scaler.get_scale()
            self._tell(events.Scaled(self._engine, scaler, self._main.scale))

    def _unscaled(self, _: None, scaler: GradScaler, optimizer: Any) -> None:
        if scaler.enabled:
            self._tell(events.Unscaled(self._engine, scaler, optimizer))

    def _scaler_step(self, took: bool, scaler: GradScaler, optimizer: Any) -> None:
        if scaler.enabled:
            scale = scaler.get_scale()
            self._tell(
                events.ScalerStepped(self._engine, scaler, optimizer, not took, scale, place())
            )

    def _clipped(self, _: Any, parameters: Any, *args: Any, **kwargs: Any) -> None:
        params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        bound = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value", math.inf))
        self._tell(events.Clipped(self._engine, params, float(bound), place()))

    def _scheduled(self, scheduler: Scheduler) -> None:
        self._tell(events.Scheduled(scheduler, scheduler.optimizer, place()))
