"""What else stands in a PyTorch loop: gradient scalers, clipping, schedules of learning rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from typing import Any, final

from chainrule.verify.patches import Patches
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Tap
from chainrule.verify.training.record.torch_engine import TorchEngine
from chainrule.verify.training.record.torch_loop import TorchTap
from chainrule.verify.where import place

_SCHEDULES = ("LRScheduler", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau")
"""Classes with a `step` of their own."""


@final
class AmpTap(Tap):
    """Puts events of scalers, clipping and schedules on the bus."""

    def __init__(self, main: TorchTap) -> None:
        self._main = main
        self._patched = Patches()

    def put(self, bus: Bus) -> None:
        """Replace functions of torch by ones that tell."""
        torch: Any = import_module("torch")
        self._engine = TorchEngine()
        scaler = torch.amp.GradScaler
        self._patched.after(scaler, "__init__", self._made)
        self._patched.after(scaler, "scale", self._scaled)
        self._patched.after(scaler, "unscale_", self._unscaled)
        self._patched.after(scaler, "step", self._scaler_step)
        for owner in (torch.nn.utils, import_module("torch.nn.utils.clip_grad")):
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                self._patched.put(owner, name, self._clipping)
        schedules = import_module("torch.optim.lr_scheduler")
        for name in _SCHEDULES:
            self._patched.before(getattr(schedules, name), "step", self._scheduled)

    def take(self) -> None:
        """Put everything back."""
        self._patched.undo()

    def _made(self, _: None, scaler: Any, *args: Any, **kwargs: Any) -> None:
        if not scaler.is_enabled():
            self._main.tell(events.ScalerOff(place()))

    def _scaled(self, _: Any, scaler: Any, *args: Any, **kwargs: Any) -> None:
        if scaler.is_enabled():
            self._main.scale = scaler.get_scale()
            self._main.tell(events.Scaled(self._engine, scaler, self._main.scale or 1.0))

    def _unscaled(self, _: None, scaler: Any, optimizer: Any) -> None:
        if scaler.is_enabled():
            self._main.tell(events.Unscaled(self._engine, scaler, optimizer))

    def _scaler_step(self, _: Any, scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        if not scaler.is_enabled():
            return
        state = scaler._per_optimizer_states[id(optimizer)]
        skipped = any(float(v) for v in state["found_inf_per_device"].values())
        self._main.tell(
            events.ScalerStepped(
                self._engine, scaler, optimizer, skipped, scaler.get_scale(), place()
            )
        )

    def _clipping(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(run)
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._patched.on:
                return run(parameters, *args, **kwargs)
            params = _listed(parameters)  # a generator can be read only once
            result = run(params, *args, **kwargs)
            bound = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value", 0.0))
            self._main.tell(events.Clipped(self._engine, params, float(bound), place()))
            return result

        return clip

    def _scheduled(self, schedule: Any, *args: Any, **kwargs: Any) -> None:
        if not getattr(schedule, "_is_initial", False):
            optimizer = getattr(schedule, "optimizer", None)
            self._main.tell(events.Scheduled(schedule, optimizer, place()))


def _listed(parameters: Any) -> Any:
    if hasattr(parameters, "grad") or not isinstance(parameters, Iterable):
        return [parameters]
    return list(parameters)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
