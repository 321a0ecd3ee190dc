"""What else stands in a loop, as events: scalers, clipping, schedules of learning rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, final

from chainrule.verify.patches import Patches
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Tap
from chainrule.verify.training.record.loop import LoopTap
from chainrule.verify.user_frames import place


@final
class ScalerTap(Tap):
    """Puts events of scalers, clipping and schedules on the bus."""

    def __init__(self, main: LoopTap) -> None:
        self._main = main
        self._patched = Patches()

    def put(self, bus: Bus) -> None:
        """Replace functions by ones that tell."""
        library, scaler = self._main.library, self._main.library.scaler
        self._patched.after(scaler, "__init__", self._scaler_built)
        self._patched.after(scaler, "scale", self._on_scale)
        self._patched.after(scaler, "unscale_", self._on_unscale)
        self._patched.after(scaler, "step", self._on_step)
        for owner, name in library.clips:
            self._patched.around(owner, name, self._clipping)
        for kind in library.schedules:
            self._patched.before(kind, "step", self._on_schedule)

    def take(self) -> None:
        """Put everything back."""
        self._patched.undo()

    def _scaler_built(self, _: None, scaler: Any, *args: Any, **kwargs: Any) -> None:
        if not _is_enabled(scaler):
            self._main.tell(events.ScalerOff(place()))

    def _on_scale(self, _: Any, scaler: Any, *args: Any, **kwargs: Any) -> None:
        if _is_enabled(scaler):
            self._main.scale = scaler.get_scale()
            scale = self._main.scale or 1.0
            self._main.tell(events.Scaled(self._main.engine, scaler, scale))

    def _on_unscale(self, _: None, scaler: Any, optimizer: Any) -> None:
        if _is_enabled(scaler):
            self._main.tell(events.Unscaled(self._main.engine, optimizer, place()))

    def _on_step(self, took: Any, scaler: Any, optimizer: Any, *_: Any, **__: Any) -> None:
        if not _is_enabled(scaler):
            return
        states = getattr(scaler, "_per_optimizer_states", None)
        if states is None:  # ours says whether it has taken the step
            skipped = not took
        else:
            found = states[id(optimizer)]["found_inf_per_device"].values()
            skipped = any(float(v) for v in found)
        scale, engine = scaler.get_scale(), self._main.engine
        self._main.tell(events.ScalerStepped(engine, optimizer, place(), scaler, skipped, scale))

    def _clipping(
        self, run: Callable[..., Any], parameters: Any, *args: Any, **kwargs: Any
    ) -> Any:  # fmt: skip
        params = _as_list(parameters)  # a generator can be read only once
        result = run(params, *args, **kwargs)
        bound = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value", 0.0))
        self._main.tell(events.Clipped(self._main.engine, params, float(bound), place()))
        return result

    def _on_schedule(self, schedule: Any, *args: Any, **kwargs: Any) -> None:
        optimizer = getattr(schedule, "optimizer", None)
        is_new = getattr(schedule, "_is_initial", False)
        built = events.ScheduleBuilt(schedule, optimizer)
        self._main.tell(built if is_new else events.Scheduled(schedule, optimizer, place()))


def _is_enabled(scaler: Any) -> bool:
    asked = getattr(scaler, "is_enabled", None)
    return bool(asked() if asked is not None else scaler.enabled)


def _as_list(parameters: Any) -> Any:
    if hasattr(parameters, "grad") or not isinstance(parameters, Iterable):
        return [parameters]
    return list(parameters)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
