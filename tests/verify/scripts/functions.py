"""A small network with two user-defined functions, of which `--wrong` makes one wrong.

It prints all that a run could change: losses to the last bit, random numbers, modes and settings.
"""

import argparse
import random
import signal
import sys
import threading
import warnings

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--wrong", action="store_true")
parser.add_argument("--raises", action="store_true")
parser.add_argument("--code", type=int, default=0)
parser.add_argument("--steps", type=int, default=20)
options = parser.parse_args()

random.seed(1)
np.random.seed(2)
torch.manual_seed(3)
own = np.random.default_rng(4)
calls = {"forward": 0, "backward": 0}


class Sigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        calls["forward"] += 1
        y = 1 / (1 + torch.exp(-x))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        calls["backward"] += 1
        (y,) = ctx.saved_tensors
        if options.wrong:
            return g * y * (1 + y)
        return g * y * (1 - y)


class Noise(torch.autograd.Function):
    """Multiplies by random numbers, of a generator that nobody else knows."""

    @staticmethod
    def forward(ctx, x):
        ctx.factor = torch.from_numpy(1 + 0.1 * own.normal(size=x.shape)).float()
        return x * ctx.factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return self.second(Sigmoid.apply(Noise.apply(self.drop(self.first(x)))))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(options.steps):
    x = torch.randn(4, 5) + random.random() + torch.from_numpy(np.random.rand(4, 5)).float()
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(random.random(), np.random.rand(), torch.rand(()).item(), own.random(), calls)
print(torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled())
print(torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark)
print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), len(warnings.filters))
print(threading.active_count(), sys.argv[1:2], len(sys.meta_path), __name__, __file__)
print(
    len(torch.optim.optimizer._global_optimizer_post_hooks)
    if hasattr(torch.optim, "optimizer")
    else len(sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks)
)
print(torch.autograd.backward.__module__, torch.Tensor.backward.__code__.co_filename[-10:])
print(torch._C._len_torch_function_stack(), "apply" in vars(torch.autograd.Function.__mro__[1]))
if options.raises:
    raise ValueError("as asked")
sys.exit(options.code)
