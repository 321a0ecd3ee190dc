"""Optimizers, learning-rate schedules, clipping. PyTorch's words, defaults and numbers."""

from chainrule.border import with_border as _with_border
from chainrule.optim.accumulate import Accumulation, Micro, accumulate
from chainrule.optim.clip import clip_grad_norm, clip_grad_value
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.rules import SGD, Adam, AdamW
from chainrule.optim.schedule import (
    Constant,
    Cosine,
    Linear,
    Product,
    Schedule,
    Scheduler,
    Sequence,
    WarmUp,
)
from chainrule.spellings import no_part as _no_part

__all__ = [
    "SGD",
    "Accumulation",
    "Adam",
    "AdamW",
    "Constant",
    "Cosine",
    "Linear",
    "Micro",
    "Optimizer",
    "Product",
    "Schedule",
    "Scheduler",
    "Sequence",
    "WarmUp",
    "accumulate",
    "clip_grad_norm",
    "clip_grad_value",
]
__getattr__ = _no_part(__name__)
_with_border(globals())
