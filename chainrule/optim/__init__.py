"""Optimizers, learning-rate schedules, clipping. PyTorch's words, defaults and numbers."""

from chainrule.optim.clip import clip_grad_norm
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

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Constant",
    "Cosine",
    "Linear",
    "Optimizer",
    "Product",
    "Schedule",
    "Scheduler",
    "Sequence",
    "WarmUp",
    "clip_grad_norm",
]
