"""How a model is run on a batch to give a loss, in the ways in which people write it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from torch import Tensor, nn

from chainrule.errors import ConfigError

_MODELS = ("model", "net", "network", "module", "m")
Step = Callable[[nn.Module, Any], Any]
"""From a model and a batch to what is to be differentiated."""


class Whole(nn.Module):
    """A model together with its loss: `forward(batch)` is the loss, or what the model returns."""

    def __init__(self, model: nn.Module, loss: Any) -> None:
        super().__init__()
        self.model = model
        self.criterion = loss if isinstance(loss, nn.Module) else None
        self._step = step_of(loss)

    def forward(self, batch: Any) -> Any:
        """What is differentiated."""
        return self._step(self.model, batch)


def step_of(loss: Any) -> Step:
    """The step that `loss` describes.

    None: `model(*batch)` is differentiated itself (or its `loss`, where the result has one).
    `loss(model, batch)`: if the first parameter is called model, net or so. `loss(output)` and
    `loss(output, target)` otherwise; the target is the last part of the batch.

    Raises `ConfigError` for anything else.
    """
    if loss is None:
        return lambda model, batch: _loss_of(_run(model, batch))
    names = _required(loss)
    if names and names[0] in _MODELS:
        return lambda model, batch: loss(model, batch)
    if len(names) == 1:
        return lambda model, batch: loss(_run(model, batch))
    if len(names) == 2 or isinstance(loss, nn.Module):
        return lambda model, batch: _with_target(model, batch, loss)
    raise ConfigError(
        f"loss takes {', '.join(names) or 'no arguments'}: give loss(output), "
        f"loss(output, target) or loss(model, batch)"
    )


def _required(loss: Any) -> list[str]:
    f = loss.forward if isinstance(loss, nn.Module) else loss
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return ["output", "target"]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds and p.default is p.empty]


def _run(model: nn.Module, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return model(**cast("Mapping[str, Any]", batch))
    if isinstance(batch, tuple | list):
        return model(*cast("Sequence[Any]", batch))
    return model(batch)


def _with_target(model: nn.Module, batch: Any, loss: Any) -> Any:
    if not isinstance(batch, tuple | list) or len(cast("Sequence[Any]", batch)) < 2:
        raise ConfigError(
            "loss(output, target) needs a batch of at least two parts, (input, target): "
            "give loss(output) or loss(model, batch) for other batches"
        )
    parts = cast("Sequence[Any]", batch)
    return loss(model(*parts[:-1]), parts[-1])


def _loss_of(result: Any) -> Any:
    """The loss in what a model returns, if there is one by that name or if one part is scalar."""
    if isinstance(result, Mapping) and "loss" in result:
        return cast("Mapping[str, Any]", result)["loss"]
    named = getattr(cast("Any", result), "loss", None)
    if isinstance(named, Tensor):
        return named
    parts: Sequence[Any] = (
        list(cast("Sequence[Any]", result)) if isinstance(result, tuple | list) else []
    )
    if parts:
        scalars = [x for x in parts if isinstance(x, Tensor) and x.dim() == 0 and x.requires_grad]
        if len(scalars) == 1:
            return scalars[0]
    return cast("Any", result)
