"""Modules: functions with parameters. PyTorch's names and defaults."""

from chainrule.border import with_border as _with_border
from chainrule.nn import functional, init
from chainrule.nn.checkpointed import Checkpoint
from chainrule.nn.layers import (
    GELU,
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    Sequential,
    Sigmoid,
    SiLU,
    Tanh,
)
from chainrule.nn.module import Incompatible, Module
from chainrule.nn.transformer import Block, CausalSelfAttention, FeedForward
from chainrule.spellings import no_part as _no_part

__all__ = [
    "GELU",
    "Block",
    "CausalSelfAttention",
    "Checkpoint",
    "Dropout",
    "Embedding",
    "FeedForward",
    "Incompatible",
    "LayerNorm",
    "Linear",
    "Module",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Tanh",
    "functional",
    "init",
]
__getattr__ = _no_part(__name__)
_with_border(globals())
