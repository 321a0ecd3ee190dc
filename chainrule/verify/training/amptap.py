"""What else stands in a PyTorch loop: gradient scalers, clipping, schedules of learning rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from typing import Any, final

from chainrule.verify.training import events
from chainrule.verify.training.bus import Bus, Tap
from chainrule.verify.training.patching import Patched
from chainrule.verify.training.torchengine import TorchEngine
from chainrule.verify.training.torchtap import TorchTap
from chainrule.verify.training.where import place

_SCHEDULES = ("LRScheduler", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau")
"""Classes with a `step` of their own."""


@final
class AmpTap(Tap):
    """Puts events of scalers, clipping and schedules on the bus."""

    def __init__(self, main: TorchTap) -> None:
        self._main = main
        self._patched = Patched()

    def put(self, bus: Bus) -> None:
        """Replace functions of torch by ones that tell."""
        torch: Any = import_module("torch")
        self._engine = TorchEngine()
        scaler = torch.amp.GradScaler
        self._patched.put(scaler, "scale", self._scaling)
        self._patched.put(scaler, "unscale_", self._unscaling)
        self._patched.put(scaler, "step", self._scaler_step)
        for owner in (torch.nn.utils, import_module("torch.nn.utils.clip_grad")):
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                self._patched.put(owner, name, self._clipping)
        schedules = import_module("torch.optim.lr_scheduler")
        for name in _SCHEDULES:
            self._patched.put(getattr(schedules, name), "step", self._scheduling)

    def take(self) -> None:
        """Put everything back."""
        self._patched.undo()

    def _scaling(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(run)
        def scale(scaler: Any, outputs: Any) -> Any:
            result = run(scaler, outputs)
            if self._patched.on and scaler.is_enabled():
                self._main.scale = scaler.get_scale()
                self._main.tell(events.Scaled(self._engine, scaler, self._main.scale or 1.0))
            return result

        return scale

    def _unscaling(self, run: Callable[..., None]) -> Callable[..., None]:
        @wraps(run)
        def unscale(scaler: Any, optimizer: Any) -> None:
            run(scaler, optimizer)
            if self._patched.on and scaler.is_enabled():
                self._main.tell(events.Unscaled(self._engine, scaler, optimizer))

        return unscale

    def _scaler_step(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(run)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            result = run(scaler, optimizer, *args, **kwargs)
            if self._patched.on and scaler.is_enabled():
                self._patched.tried(lambda: self._tell(scaler, optimizer))
            return result

        return step

    def _tell(self, scaler: Any, optimizer: Any) -> None:
        state = scaler._per_optimizer_states[id(optimizer)]
        skipped = any(float(v) for v in state["found_inf_per_device"].values())
        scale = scaler.get_scale()
        self._main.tell(
            events.ScalerStepped(self._engine, scaler, optimizer, skipped, scale, place())
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

    def _scheduling(self, run: Callable[..., None]) -> Callable[..., None]:
        @wraps(run)
        def step(schedule: Any, *args: Any, **kwargs: Any) -> None:
            if self._patched.on and not getattr(schedule, "_is_initial", False):
                optimizer = getattr(schedule, "optimizer", None)
                self._main.tell(events.Scheduled(schedule, optimizer, place()))
            run(schedule, *args, **kwargs)

        return step


def _listed(parameters: Any) -> Any:
    if hasattr(parameters, "grad") or not isinstance(parameters, Iterable):
        return [parameters]
    return list(parameters)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
