"""Ops and layers by name: which are ordinary, have two modes, or expect values of a domain.

What an op that expects logits, probabilities or their logarithms was fed with, and which op had
made that, is an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from chainrule.verify.training.record.engine import Engine

VIEWS = frozenset(
    {"view", "reshape", "transpose", "permute", "chunk", "split", "flatten", "unsqueeze", "squeeze",
     "expand", "expand_as", "T", "mT", "contiguous", "unbind", "unflatten", "detach", "data",
     "swapaxes", "movedim", "view_as"}
)  # fmt: skip
"""Ops that only look at numbers in another way, forward and backward: nothing begins there."""
TAME = frozenset(
    {"linear", "matmul", "__matmul__", "mm", "bmm", "addmm", "add", "__add__", "__radd__", "sub",
     "__sub__", "mul", "__mul__", "__rmul__", "embedding", "dropout", "relu", "relu_", "gelu",
     "silu", "tanh", "sigmoid", "softmax", "log_softmax", "layer_norm", "masked_fill", "mean",
     "sum", "cat", "stack", "conv1d", "conv2d", "cross_entropy", "mse_loss", "__getitem__"}
)  # fmt: skip
"""Ops whose rule makes finite gradients of finite ones, unless they overflow."""
BOUNDED = frozenset({"relu", "relu_", "gelu", "silu", "tanh", "sigmoid", "softmax", "log_softmax"})
"""Those of them that make finite numbers of finite ones, whatever these are."""
RELUS = frozenset({"relu", "relu_"})
"""Activations that units may be dead behind."""
PAIRED_LOSSES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
"""Losses that compare elements one by one."""
COMPARE = PAIRED_LOSSES | {"sub", "__sub__", "__rsub__", "rsub", "subtract"}
"""Ops of a prediction and its target."""
MODAL = ("BatchNorm", "InstanceNorm", "Dropout")
"""Layers that do something else in eval mode, by a part of their classes' names."""


ATTENTION = frozenset({"multi_head_attention_forward", "scaled_dot_product_attention", "softmax"})
"""Ops whose masks, or results, tell which positions attention keeps."""
RECURRENT = frozenset(
    {"gru", "lstm", "rnn_tanh", "rnn_relu", "gru_cell", "lstm_cell", "rnn_tanh_cell",
     "rnn_relu_cell"}
)  # fmt: skip
"""Ops whose second argument is the state, or states, that they begin with."""
SEQUENCES = ATTENTION | RECURRENT | {"embedding"}
"""Ops on sequences, whose arguments are looked at."""
SQUASH = frozenset({"softmax", "log_softmax", "sigmoid", "logsigmoid"})
"""Ops that make probabilities of logits, or logarithms of them."""
LOSSES = frozenset(
    {"cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "kl_div",
     "soft_margin_loss", "multilabel_soft_margin_loss", "poisson_nll_loss"}
)  # fmt: skip
"""Losses by what they expect of a prediction: see the part that judges them."""
EXPECT = SQUASH | LOSSES | {"logsumexp"}
"""`Categorical(logits=x)` takes off the last one."""


class Maker(NamedTuple):
    """The op that has made a value, but for those that only look at it in another way."""

    name: str
    """As ops are called; "exp", "softplus" and others as well, empty for a leaf."""
    key: int
    """Tells it from others of the same step."""


class LossInput(NamedTuple):
    """An op of `EXPECT` ran, with a graph."""

    engine: Engine
    name: str
    x: Any
    """Its prediction, or its argument."""
    maker: Maker
    """Of `x`."""
    key: int
    """As that of a `Maker` that this op is, if it is one."""
    target: Any
    settings: Mapping[str, Any]
    """What else it was called with."""


class Selected(NamedTuple):
    """Logarithms of probabilities, or these, met what says which of them are meant: a constant that
    they are multiplied by, or indices along an axis."""

    engine: Engine
    x: Any
    maker: Maker
    over: int
    """The axis along which they add up to one."""
    weights: Any
    """The constant; None where there are indices."""
    axis: int
    """That of the indices; -1 where there is a constant."""
