"""Optimizers, learning-rate schedules, clipping. PyTorch's words, defaults and numbers."""

from chainrule.engine.border import with_border as _with_border
from chainrule.names.spellings import missing_name_getter as _missing_name_getter
from chainrule.optim.accumulate import Accumulation, Micro, accumulate
from chainrule.optim.adaptive import Adadelta, Adagrad, Lion, RMSprop, Rprop
from chainrule.optim.averaging import AveragedModel, get_ema_avg_fn, get_swa_avg_fn
from chainrule.optim.clip import clip_grad_norm, clip_grad_value
from chainrule.optim.decays import CosineRestarts, Exponential, MultiStep, OneCycle, Step
from chainrule.optim.lbfgs import LBFGS
from chainrule.optim.lr_find import RateSearch, lr_find
from chainrule.optim.matrix_rules import Adafactor, Muon
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.rules import SGD, Adam, Adamax, AdamW, NAdam, RAdam
from chainrule.optim.schedule import (
    Constant,
    Cosine,
    Linear,
    Product,
    Schedule,
    Sequence,
    WarmUp,
)
from chainrule.optim.scheduler import ReduceLROnPlateau, Scheduler
from chainrule.optim.update_rule import UpdateRule

__all__ = [
    "LBFGS",
    "SGD",
    "Accumulation",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "AveragedModel",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "Exponential",
    "Linear",
    "Lion",
    "Micro",
    "MultiStep",
    "Muon",
    "NAdam",
    "OneCycle",
    "Optimizer",
    "Product",
    "RAdam",
    "RMSprop",
    "RateSearch",
    "ReduceLROnPlateau",
    "Rprop",
    "Schedule",
    "Scheduler",
    "Sequence",
    "Step",
    "UpdateRule",
    "WarmUp",
    "accumulate",
    "clip_grad_norm",
    "clip_grad_value",
    "get_ema_avg_fn",
    "get_swa_avg_fn",
    "lr_find",
]
__getattr__ = _missing_name_getter(__name__)
_with_border(globals())
