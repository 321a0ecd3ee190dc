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

_with_border(globals())
