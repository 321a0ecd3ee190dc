"""Names of PyTorch's `nn`, `optim` and `nn.functional` that do not exist here, and what to write.

They are what errors say, and the third column of docs/pytorch_names.md.
"""

from __future__ import annotations

_SIZES = "layers are made with their sizes"
_ONE_MACHINE = "leave it out: a model runs on the processors of one machine"
_IN_PLACE = "nothing is changed in place: write the function without _"
_SCHEDULER = "write optim.Scheduler(optimizer, {})"

LAYERS: dict[str, str] = {
    "RNNBase": "write nn.RNN, nn.LSTM or nn.GRU",
    "RNNCellBase": "write nn.RNN, nn.LSTM or nn.GRU",
    "DataParallel": _ONE_MACHINE, "SyncBatchNorm": "write nn.BatchNorm2d",
    "Container": "write nn.Sequential or a list", "Buffer": "write a tensor without requires_grad",
    "UninitializedBuffer": _SIZES, "UninitializedParameter": _SIZES,
    "NLLLoss2d": "write nn.NLLLoss",
    "LinearCrossEntropyLoss": "write nn.Linear and nn.CrossEntropyLoss",
    "LinearCrossEntropyOptions": "write nn.Linear and nn.CrossEntropyLoss",
    "CrossMapLRN2d": "write nn.LocalResponseNorm",
    **{
        f"Lazy{kind}{n}d": f"write nn.{kind}{n}d with x.shape[1] for {first}: {_SIZES}"
        for kind, first in (
            ("Conv", "in_channels"), ("ConvTranspose", "in_channels"),
            ("BatchNorm", "num_features"), ("InstanceNorm", "num_features"),
        )
        for n in (1, 2, 3)
    },
    "LazyLinear": f"write nn.Linear with x.shape[-1] for in_features: {_SIZES}",
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
        f"{kind}max_pool{n}d_with_indices":
        f"write {kind}max_pool{n}d(x, {size}, return_indices=True)"
        for kind, size in (("", "kernel"), ("adaptive_", "size"), ("fractional_", "kernel"))
        for n in (1, 2, 3)
    },
    **{
        f"{name}_": _IN_PLACE
        for name in ("celu", "elu", "hardtanh", "leaky_relu", "relu", "rrelu", "selu", "threshold")
    },
    "conv_tbc": "write conv1d, with the axes (N, C, W)",
    "linear_cross_entropy": "write cross_entropy(linear(x, weight), target)",
    "multi_head_attention_forward": "write nn.MultiheadAttention",
    "upsample": "write interpolate", "upsample_bilinear": "write interpolate",
    "upsample_nearest": "write interpolate", "native_channel_shuffle": "write channel_shuffle",
    "grouped_mm": "write cr.matmul", "scaled_mm": "write cr.matmul",
    "scaled_grouped_mm": "write cr.matmul",
}  # fmt: skip
"""Of `torch.nn.functional`."""
