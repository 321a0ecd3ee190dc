"""Names of PyTorch's `nn`, `optim` and `nn.functional` that do not exist here, and what to write.

They are what errors say, and the third column of docs/pytorch_names.md.
"""

from __future__ import annotations

_SIZES = "give the sizes: layers are made with them"
_ONE_MACHINE = "leave it out: a model runs on the processors of one machine"
_IN_PLACE = "nothing is changed in place: write the function without _"
_FRACTIONS = "write adaptive_max_pool(x, size)"
_SCHEDULER = "write optim.Scheduler(optimizer, {})"

LAYERS: dict[str, str] = {
    "RNNBase": "write nn.RNN, nn.LSTM or nn.GRU",
    "RNNCellBase": "write nn.RNN, nn.LSTM or nn.GRU",
    "DataParallel": _ONE_MACHINE, "SyncBatchNorm": "write nn.BatchNorm2d",
    "Container": "write nn.Sequential or a list", "Buffer": "write a tensor without requires_grad",
    "UninitializedBuffer": _SIZES, "UninitializedParameter": _SIZES,
    "NLLLoss2d": "write nn.NLLLoss",
    "AdaptiveLogSoftmaxWithLoss": "write nn.Linear and nn.CrossEntropyLoss",
    "LinearCrossEntropyLoss": "write nn.Linear and nn.CrossEntropyLoss",
    "LinearCrossEntropyOptions": "write nn.Linear and nn.CrossEntropyLoss",
    "CrossMapLRN2d": "write nn.LocalResponseNorm",
    **{f"FractionalMaxPool{n}d": f"write nn.AdaptiveMaxPool{n}d" for n in (2, 3)},
    **{
        f"Lazy{kind}{n}d": _SIZES
        for kind in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm") for n in (1, 2, 3)
    },
    "LazyLinear": _SIZES,
}  # fmt: skip
"""Of `torch.nn`."""

OPTIMIZERS: dict[str, str] = {
    "swap_in_optimizer_params_and_state": "write optimizer.load_state_dict(state)",
    "ASGD": "write optim.SGD, and optim.AveragedModel(model) for the average of weights",
    "SparseAdam": "write optim.Adam: gradients are dense",
    "StepLR": _SCHEDULER.format("optim.Step(steps, gamma)"),
    "MultiStepLR": _SCHEDULER.format("optim.MultiStep(milestones, gamma)"),
    "ExponentialLR": _SCHEDULER.format("optim.Exponential(gamma)"),
    "OneCycleLR": _SCHEDULER.format("optim.OneCycle(steps)"),
    "CosineAnnealingLR": _SCHEDULER.format("optim.Cosine(steps)"),
    "CosineAnnealingWarmRestarts": _SCHEDULER.format("optim.CosineRestarts(steps)"),
    "LinearLR": _SCHEDULER.format("optim.Linear(steps, start, end)"),
    "ConstantLR": _SCHEDULER.format("optim.Constant(factor).then(optim.Constant(), after=n)"),
    "LambdaLR": _SCHEDULER.format("a Schedule, whose __call__ gives the factor"),
    "MultiplicativeLR": _SCHEDULER.format("a Schedule, whose __call__ gives the factor"),
    "PolynomialLR": _SCHEDULER.format("a Schedule; optim.Linear(steps) for power 1"),
    "CyclicLR": _SCHEDULER.format("optim.OneCycle(steps) or optim.CosineRestarts(steps)"),
    "SequentialLR": _SCHEDULER.format("first.then(second, after=n)"),
    "ChainedScheduler": _SCHEDULER.format("a * b"),
    "LRScheduler": "write optim.Scheduler, or a subclass of optim.Schedule",
}
"""Of `torch.optim` and `torch.optim.lr_scheduler`."""

FUNCTIONS: dict[str, str] = {
    **{
        f"adaptive_{kind}_pool{n}d": f"write nn.functional.adaptive_{kind}_pool(x, size)"
        for kind in ("avg", "max") for n in (1, 2, 3)
    },
    **{
        f"{kind}max_pool{n}d_with_indices": f"write {kind}max_pool{more}, return_indices=True)"
        for n in (1, 2, 3) for kind, more in (("", f"{n}d(x, kernel"), ("adaptive_", "(x, size"))
    },
    **{f"fractional_max_pool{n}d_with_indices": _FRACTIONS for n in (2, 3)},
    **{f"fractional_max_pool{n}d": _FRACTIONS for n in (2, 3)},
    **{f"lp_pool{n}d": "write lp_pool(x, ord, kernel)" for n in (1, 2, 3)},
    **{f"max_unpool{n}d": "write max_unpool(x, indices, kernel)" for n in (1, 2, 3)},
    **{f"dropout{n}d": f"write nn.Dropout{n}d(p)(x)" for n in (1, 2, 3)},
    **{
        f"{name}_": _IN_PLACE
        for name in ("celu", "elu", "hardtanh", "leaky_relu", "relu", "rrelu", "selu", "threshold")
    },
    "bilinear": 'write cr.einsum("...i,oij,...j->...o", a, weight, b)',
    "conv_tbc": "write conv1d, with the axes (N, C, W)",
    "linear_cross_entropy": "write cross_entropy(linear(x, weight), target)",
    "local_response_norm": "write nn.LocalResponseNorm(size)(x)",
    "multi_head_attention_forward": "write nn.MultiheadAttention",
    "upsample": "write interpolate", "upsample_bilinear": "write interpolate",
    "upsample_nearest": "write interpolate", "native_channel_shuffle": "write channel_shuffle",
    "grouped_mm": "write cr.matmul", "scaled_mm": "write cr.matmul",
    "scaled_grouped_mm": "write cr.matmul",
}  # fmt: skip
"""Of `torch.nn.functional`."""
