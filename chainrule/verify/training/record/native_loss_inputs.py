"""The same of chainrule's ops: losses are known by the function that runs, ops by their nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from chainrule.engine.tensors import Tensor
from chainrule.ops import losses
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.record.loss_inputs import LOSSES, LossInput, Maker

FIRST = frozenset({"take_along_axis", "logistic_loss", "logsumexp", "xlogy", "mul", "shift"})
"""Ops by which losses begin to use a prediction."""
_FOLDER = losses.__path__[0]
_VIEWS = ("reshape", "transpose", "broadcast_to", "squeeze", "expand_dims", "take")
_PREDICTIONS = ("logits", "logp", "x")
_MOST = 12
"""Frames, and views, that are looked through."""


def maker(x: Any) -> Maker:
    """The op that made a tensor, or that of which it is only a view."""
    node = x.node if isinstance(x, Tensor) else None
    for _ in range(_MOST):
        if node is None or node.name not in _VIEWS:
            break
        node = node.inputs[0]
    if node is None or node.op is None:
        return Maker("", 0)
    name = "softmax" if node.name == "exp_diff" else node.name
    return Maker(name, node.serial)


def tell(engine: Engine, name: str, xs: Sequence[Any], say: Callable[[Any], None]) -> None:
    """Tell of the loss in which an op runs, if it is the first to use the prediction."""
    found = _loss(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    if found is None or name not in FIRST:
        return
    own = found.f_locals
    x = next((own[k] for k in _PREDICTIONS if k in own), None)
    if isinstance(x, Tensor) and x.requires_grad and any(x is y for y in xs):
        target = own.get("target")
        say(LossInput(engine, found.f_code.co_name, x, maker(x), 0, target, dict(own)))


def _loss(frame: FrameType | None) -> FrameType | None:
    for _ in range(_MOST):
        if frame is None:
            break
        code = frame.f_code
        if code.co_name in LOSSES and code.co_filename.startswith(_FOLDER):
            return frame
        frame = frame.f_back
    return None
