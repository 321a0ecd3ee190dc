"""PyTorch's ops and layers by name: which are ordinary, and which have two modes."""

from __future__ import annotations

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
LOSSES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
"""Losses that compare elements one by one."""
COMPARE = LOSSES | {"sub", "__sub__", "__rsub__", "rsub", "subtract"}
"""Ops of a prediction and its target."""
MODAL = ("BatchNorm", "InstanceNorm", "Dropout")
"""Layers that do something else in eval mode, by a part of their classes' names."""
